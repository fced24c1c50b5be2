"""Reductions side by side give what each gives alone, in fewer steps."""

from collections.abc import Sequence

import numpy as np
import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.dtypes import DType, f32, i32
from iron.ir.core import Kernel
from iron.targets.cpu import X86_64_V3, X86_64_V4
from tests.unit.backends.cpu.agree import both
from tests.unit.ir.handmade import Handmade

RNG = np.random.default_rng(14)


def totals(kinds: Sequence[str], dtype: DType = f32, simd: int = 32, apart: bool = False) -> Kernel:
    """y[32 k + t] = the reduction of x[32 k + t] by kinds[k]; `apart`: loads stand between them."""
    p = Handmade(threads=simd, simd=simd)
    x, y = p.tensor("x", dtype), p.tensor("y", dtype, "inout")
    t = p.thread()

    def place(k: int):
        return p.emit("add", t, p.const(simd * k))

    def load(k: int):
        return p.load(x, place(k))

    def total(k: int, value):
        return p.b.emit_all("reduce", (value,), (0,), (p.function(kinds[k], dtype),))[0]

    count = range(len(kinds))
    if apart:
        out = [total(k, load(k)) for k in count]
    else:
        values = [load(k) for k in count]
        out = [total(k, values[k]) for k in count]
    for k in count:
        p.store(y, place(k), out[k])
    return p.done()


def adds(kernel: Kernel, target=X86_64_V4) -> int:
    return compile_kernel(kernel, target).text.count("= fadd ")


@pytest.mark.parametrize("kinds", [["add"] * n for n in (1, 2, 3, 4, 5, 16, 17)], ids=len)
@pytest.mark.parametrize("simd", [16, 32])
def test_sums_side_by_side(kinds: list[str], simd: int):
    for dtype in (f32, i32):
        x = (RNG.normal(size=simd * len(kinds)) * 100).astype(dtype.np)
        arrays = {"x": x, "y": np.zeros(len(x), dtype.np)}
        both(totals(kinds, dtype, simd), arrays)


@pytest.mark.parametrize("kinds", [["max"] * 3, ["add", "add", "max", "max"], ["sub"] * 4])
def test_other_functions_in_their_own_order(kinds: list[str]):
    """A difference of neighbours says which side a value was on."""
    x = RNG.normal(size=32 * len(kinds)).astype(np.float32)
    both(totals(kinds), {"x": x, "y": np.zeros(len(x), np.float32)})


def test_four_sums_take_nine_steps_and_not_twenty():
    """5 a sum alone: 4 of 32 lanes are 4 steps into registers, 2, 1, then 2 in place."""
    assert adds(totals(["add"])) == 5
    assert adds(totals(["add"] * 4)) == 4 + 2 + 1 + 2
    assert adds(totals(["add"] * 4), X86_64_V3) == 20


def test_sums_of_different_kinds_and_later_operands_stay_alone():
    assert adds(totals(["add", "max", "add"])) == 10
    assert adds(totals(["add"] * 2, apart=True)) == 10
