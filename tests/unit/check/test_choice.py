"""Sizes that no alternative serves are found; preconditions of the kernel are not among them."""

import pytest

from iron.check.choice import gaps, unserved
from iron.ir.text import parse_kernel
from iron.lang import (
    EXACT,
    Const,
    In,
    KernelFunction,
    Out,
    dims,
    f32,
    groups,
    kernel,
    require,
    strided,
)
from iron.worker import discover

CHOOSING = [
    found
    for module in discover.modules(("iron.kernels",))
    for found in discover.kernels(module).values()
    if isinstance(found, KernelFunction) and found.choose
]


def made(vec: int, *, heads: bool = False):
    """A kernel that requires N % vec == 0 and, with `heads`, H % G == 0."""
    more = (
        """\
  %r = mod %H, %G : i32
  %p = eq %r, %0 : bool
"""
        if heads
        else ""
    )
    return parse_kernel(
        f"""\
kernel "k" rank 1 threads 1 simd 8 index i32
dim "N" i32
dim "H" i32
dim "G" i32
require "N must be a multiple of VEC"
{'require "H must be a multiple of G"' if heads else ""}
host(%N: i32, %H: i32, %G: i32) {{
  %0 = const i32 0
  %v = const i32 {vec}
  %m = mod %N, %v : i32
  %q = eq %m, %0 : bool
{more}  yield %N, %q{", %p" if heads else ""}
}}
body(%N: i32, %H: i32, %G: i32) {{
}}
""".replace("\n\n", "\n")
    )


SIZES = {"N": 8, "H": 6, "G": 2}


def test_every_size_is_served_with_a_last_resort():
    assert unserved([made(4), made(1)], SIZES, {}) == []


@pytest.mark.parametrize(("vectors", "left"), [((4, 2), 2), ((4, 8), 6), ((2, 3), 2)])
def test_left_sizes_are_found(vectors, left):
    found = unserved([made(v) for v in vectors], SIZES, {})
    assert len(found) == left
    assert all(point["N"] % v for point in found for v in vectors)


def test_a_precondition_is_no_gap():
    alternatives = [made(4, heads=True), made(1, heads=True)]
    assert unserved(alternatives, SIZES, {}) == []
    assert unserved([made(4, heads=True), made(2, heads=True)], SIZES, {}) != []


M, N = dims("M N")


def declare(vectors, block=1):
    """A copy of rows whose alternatives read VEC neighbours; `block` fixes M as well."""

    @kernel(choose={"VEC": list(vectors)})
    def rows(x: In[f32, M, N], y: Out[f32, M, N], *, VEC: Const, BLOCK: Const = block):
        (r,) = groups(M, threads=32)
        require(N % VEC == 0, "N must be a multiple of VEC")
        require(M % BLOCK == 0, "M must be a multiple of BLOCK")
        for i in strided(N, VEC):
            y[r, i : i + VEC] = x[r, i : i + VEC]

    rows.oracle(lambda x: {"y": x})
    rows.case(M=[2], N=[8], tol=EXACT)(lambda rng, M, N: {"x": rng.normal(M, N)})
    return rows


@pytest.mark.parametrize(("vectors", "left"), [((4, 1), []), ((1, 4), []), ((4, 2), [9, 11])])
def test_gaps_of_a_kernel(vectors, left):
    assert [gap.sizes["N"] for gap in gaps(declare(vectors))] == left


def test_a_precondition_of_every_alternative_is_no_gap():
    assert gaps(declare((4, 1), block=2)) == []


def test_a_case_that_nothing_serves_is_a_gap():
    found = gaps(declare((3, 5)))
    assert found[0].sizes["N"] == 8
    assert "N=8" in found[0].label


@pytest.mark.parametrize(
    "most", [20, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"]
)
@pytest.mark.parametrize("found", CHOOSING, ids=lambda k: k.name)
def test_the_library_serves_every_size(found, most):
    """In 20 of a kernel's cases and variants, where it has more; `make full` tries all."""
    assert gaps(found, most=most) == []


def test_fewer_cases_are_spread_over_all():
    kernel = declare((3, 5))
    kernel.case(M=[2], N=[15], tol=EXACT)(lambda rng, M, N: {"x": rng.normal(M, N)})
    everything = {gap.label for gap in gaps(kernel)}
    assert {gap.label for gap in gaps(kernel, most=1)} < everything
