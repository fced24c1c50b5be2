"""Kernels whose output may be their input, judged by running them so.

A proven kernel is rewritten to read and write one tensor. The interpreter then finds a race where
one thread reads what another writes, and the values tell where a thread reads what it wrote itself.
"""

import re
from typing import Any

import numpy as np
import pytest

from iron.analysis.effects import in_place
from iron.check.interpret import read_call
from iron.compiler import lower
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.ir.text import parse_kernel, print_kernel
from iron.kernels.ops.binary import binary
from iron.kernels.ops.gated_activation import gated_activation
from iron.kernels.rope.rope import rope, turns
from iron.lang import (
    In,
    Out,
    Scalar,
    dims,
    each,
    f32,
    groups,
    i32,
    kernel,
    partial,
    require,
    strided,
)

R, N, P, Q = dims("R N P Q")


def one_memory(k: Kernel, out: str, given: str) -> Kernel:
    """The kernel with `given` for `out`, which it then reads and writes."""
    text = print_kernel(k)
    text = re.sub(rf'tensor "{out}".*\n', "", text)
    text = text.replace(f'tensor "{given}" in ', f'tensor "{given}" inout ')
    text = text.replace(f"%{given}: in ", f"%{given}: inout ")
    text = re.sub(rf", %{out}: out [^\]]*\]", "", text)
    return parse_kernel(re.sub(rf"store %{out}\b", f"store %{given}", text))


def keeps_its_meaning(fn: Any, arguments: dict[str, Any], out: str, given: str) -> bool:
    """True when the kernel gives the same in place, with no race."""
    read = read_call(fn, {n: np.copy(a) if np.ndim(a) else a for n, a in arguments.items()})
    k = lower(read.kernel)
    read.run(k)
    want = read.arrays[out].copy()
    try:
        read.run(one_memory(k, out, given))
    except KernelError as fault:
        if fault.id != "E0410":
            raise
        return False
    return np.array_equal(read.arrays[given], want)


def proven(fn: Any, arguments: dict[str, Any]) -> frozenset[tuple[str, str]]:
    return in_place(lower(read_call(fn, arguments).kernel))


def blank(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def filled(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


# --- of the library -------------------------------------------------------------------------------


@pytest.mark.parametrize("pairing", ["half", "adjacent"])
@pytest.mark.parametrize("region", ["head", "tail"])
@pytest.mark.parametrize(("size", "pairs"), [(8, 4), (9, 4), (7, 0), (200, 67)])
def test_rope(pairing: str, region: str, size: int, pairs: int):
    arguments = {
        "x": filled(2, 3, size), "y": blank(2, 3, size), "position": np.array([5, 77], np.uint32),
        "frequency": turns(0.5 ** np.arange(pairs)), "scale": 1.25, "PAIRING": pairing,
        "REGION": region,
    }  # fmt: skip
    assert ("y", "x") in proven(rope, arguments)
    assert keeps_its_meaning(rope, arguments, "y", "x")


def test_elements_of_rows():
    arguments: dict[str, Any] = {"g": filled(5, 131), "u": filled(5, 131), "y": blank(5, 131)}
    arguments |= {"limit": 0.0, "alpha": 1.0}
    assert proven(gated_activation, arguments) == {("y", "g"), ("y", "u")}
    assert keeps_its_meaning(gated_activation, arguments, "y", "g")
    both = {"a": filled(5, 131), "b": filled(1, 131), "z": blank(5, 131), "OP": "sub"}
    assert proven(binary, both | {"SHAPE": "row"}) == {("z", "a")}
    assert keeps_its_meaning(binary, both | {"SHAPE": "row"}, "z", "a")


# --- what must not be proven ----------------------------------------------------------------------


@kernel
def next_of_row(x: In[f32, R, N], y: Out[f32, R, N]):
    """Reads its neighbour, the row closed to a ring."""
    i, r = each(N, R)
    y[r, i] = x[r, (i + 1) % N]


@kernel
def other_row(x: In[f32, R, N], y: Out[f32, R, N]):
    i, r = each(N, R)
    y[r, i] = x[(r + 1) % R, i]


@kernel
def turned(x: In[f32, N, N], y: Out[f32, N, N]):
    i, r = each(N, N)
    y[i, r] = x[r, i]


@kernel
def divided_otherwise(x: In[f32, R, N], y: Out[f32, R, N, partial], m: Scalar[i32]):
    """The same number taken apart by two divisors."""
    (i,) = each(R * m)
    require((m >= 1) & (m <= N), "m is a part of a row")
    y[i // N, i % N] = x[i // m, i % m]


@kernel
def first_row_only(x: In[f32, R, N], y: Out[f32, R, N]):
    """The rest of a number alone does not decide it."""
    (i,) = each(R * N)
    y[0, i % N] = x[0, i % N] + 1.0


@kernel
def halves(x: In[f32, R, N], y: Out[f32, R, N], gap: Scalar[i32]):
    """Pairs at a distance that may be less than their number."""
    (r,) = groups(R, threads=32)
    require((gap >= 0) & (gap <= N // 2), "gap is at most half a row")
    for p in strided(N // 2):
        a, b = x[r, p], x[r, p + gap]
        y[r, p] = a - b
        y[r, p + gap] = a + b


@kernel
def overlapping_rest(x: In[f32, R, N], y: Out[f32, R, N], p: Scalar[i32]):
    """Pairs, then a copy that begins one element too early."""
    (r,) = groups(R, threads=32)
    require((p >= 1) & (p <= N // 2), "p pairs")
    for i in strided(p):
        a, b = x[r, i], x[r, i + p]
        y[r, i] = a - b
        y[r, i + p] = a + b
    for i in strided(N - 2 * p + 1):
        y[r, 2 * p - 1 + i] = x[r, 2 * p - 1 + i]


WRONG = [
    (next_of_row, {}), (other_row, {}), (turned, {}), (divided_otherwise, {"m": 3}),
    (first_row_only, {}), (halves, {"gap": 3}), (overlapping_rest, {"p": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "more"), WRONG, ids=lambda v: getattr(v, "name", ""))
def test_not_proven_and_wrong_in_place(fn: Any, more: dict[str, int]):
    arguments = {"x": filled(9, 9), "y": blank(9, 9), **more}
    assert proven(fn, arguments) == set()
    with np.errstate(all="ignore"):
        assert not judged(fn, arguments)


def judged(fn: Any, arguments: dict[str, Any]) -> bool:
    """`keeps_its_meaning`; a kernel with a race of its own does not."""
    try:
        return keeps_its_meaning(fn, arguments, "y", "x")
    except KernelError as fault:
        if fault.id != "E0410":
            raise
        return False


@kernel
def by_a_size(x: In[f32, R, N], y: Out[f32, R, N], m: Scalar[i32]):
    """The divisor may be 0, where every thread has quotient and rest 0."""
    (i,) = each(R * N)
    y[i // m, i % m] = x[i // m, i % m] + 1.0


@kernel
def by_a_positive_size(x: In[f32, R, N], y: Out[f32, R, N], m: Scalar[i32]):
    (i,) = each(R * N)
    require(m >= 1, "m is positive")
    y[i // m, i % m] = x[i // m, i % m] + 1.0


def test_a_divisor_has_to_be_positive():
    arguments = {"x": filled(9, 9), "y": blank(9, 9), "m": 9}
    assert proven(by_a_size, arguments) == set()
    assert proven(by_a_positive_size, arguments) == {("y", "x")}
    assert keeps_its_meaning(by_a_positive_size, arguments, "y", "x")
    assert not judged(by_a_size, arguments | {"m": 0})
