"""Sizes that no alternative serves are found; preconditions of the kernel are not among them."""

import pytest

from iron.check.choice import unserved
from iron.ir.text import parse_kernel


def kernel(vec: int, *, heads: bool = False):
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
    assert unserved([kernel(4), kernel(1)], SIZES, {}) == []


@pytest.mark.parametrize(("vectors", "left"), [((4, 2), 2), ((4, 8), 6), ((2, 3), 2)])
def test_left_sizes_are_found(vectors, left):
    found = unserved([kernel(v) for v in vectors], SIZES, {})
    assert len(found) == left
    assert all(point["N"] % v for point in found for v in vectors)


def test_a_precondition_is_no_gap():
    alternatives = [kernel(4, heads=True), kernel(1, heads=True)]
    assert unserved(alternatives, SIZES, {}) == []
    assert unserved([kernel(4, heads=True), kernel(2, heads=True)], SIZES, {}) != []
