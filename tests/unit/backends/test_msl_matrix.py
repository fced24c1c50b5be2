"""Opaque matrices as Metal text: the strict front end takes it, and on fibres it multiplies."""

from dataclasses import replace

import numpy as np
import pytest

from iron.backends.clike.render import Text, render
from iron.backends.msl import MSL
from iron.backends.msl_check import check
from iron.dtypes import DType, bf16, f16, f32, i32
from iron.errors import KernelError
from iron.ir import interp
from iron.ir.core import Kernel, Value
from iron.ir.types import matrix, tensor
from iron.passes.scalarise import scalarise
from iron.runtime.driver import driver
from iron.shims import metal_text
from iron.shims.unit import unit
from tests.unit.ir.handmade import Handmade

SIDE, FIRST = 16, 8
"""Sides of the operands, and their first column in group memory."""


def product(elem: DType, turned: tuple[bool, bool] = (False, False)) -> Kernel:
    """z = 0.5 + rows 8 to 15 of x @ columns 0 to 7 of y, of which each may lie turned."""
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", elem, "in", 2), p.tensor("y", elem, "in", 2)
    z = p.tensor("z", f32, "out", 2)
    a, b, c = (
        p.emit("shared", attrs=(tensor(t, 2, "shared", (SIDE, FIRST + SIDE)),))
        for t in (elem, elem, f32)
    )
    first, zero, lane = p.const(FIRST), p.const(0), p.thread()
    row, half = p.emit("floordiv", lane, p.const(2)), p.emit("mod", lane, p.const(2))
    column = p.emit("mul", half, p.const(8))
    for source, to in ((x, a), (y, b)):
        p.store(to, row, p.emit("add", column, first), p.load(source, row, column, count=8))
    p.do("barrier")
    acc = p.emit("matrix_full", p.const(0.5, f32), attrs=(matrix(f32, 8, 8, "acc"),))
    k, held = Value(i32, None, "k"), Value(acc.type, None, "acc")

    def part(array: Value, use: str, at: tuple[Value, Value], turn: bool) -> Value:
        down, across = at[::-1] if turn else at
        place = array, down, p.emit("add", across, first)
        return p.emit("matrix_load", *place, attrs=(matrix(elem, 8, 8, use), turn))

    with p.b.block((k, held)) as block:
        depth = p.emit("mul", k, p.const(8))
        left = part(a, "a", (first, depth), turned[0])
        right = part(b, "b", (depth, zero), turned[1])
        p.do("yield", p.emit("matrix_mma", left, right, held))
    bounds = p.const(0), p.const(2), p.const(1)
    (total,) = p.do("for", *bounds, acc, attrs=(False, 0), regions=(block,))
    p.do("matrix_store", c, zero, zero, total)
    p.do("barrier")
    out = p.emit("floordiv", lane, p.const(4))
    two = p.emit("mul", p.emit("mod", lane, p.const(4)), p.const(2))
    p.store(z, out, two, p.load(c, out, two, count=2))
    return p.done()


def text(kernel: Kernel) -> Text:
    return render(scalarise(kernel), MSL, "iron_product")


@pytest.mark.parametrize("elem", [f16, bf16, f32], ids=str)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
def test_products(elem: DType, turned: tuple[bool, bool]):
    kernel, rng = product(elem, turned), np.random.default_rng(2)
    check(text(kernel))
    x, y = (rng.integers(-4, 5, (SIDE, SIDE)).astype(elem.np) for _ in "xy")
    left, right = (
        held.astype(np.float64).T if turn else held.astype(np.float64)
        for held, turn in zip((x, y), turned, strict=True)
    )
    for run in (
        lambda given: interp.run(kernel, given, {}, {}, (1,)),
        lambda given: driver("msl-text").load(kernel).bind(given, {}, {}, (1,))(),
    ):
        z = np.full((8, 8), np.nan, np.float32)
        run({"x": x, "y": y, "z": z})
        assert (z == left[8:] @ right[:, :8] + 0.5).all()


WRONG = {
    "a matrix of another type": ("simdgroup_half8x8 shared", "simdgroup_float8x8 shared"),
    "device memory": ("(const threadgroup half*)(shared +", "(const device half*)(x +"),
    "an element": ("simdgroup_store(", "matrix.held[0] = 1.0f; simdgroup_store("),
    "a product of sums": ("accumulate(matrix, shared_part", "accumulate(matrix, matrix"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_what_metal_has_not_is_refused(fault: str):
    whole = text(product(f16))
    old, new = WRONG[fault]
    assert old in whole.body
    with pytest.raises(KernelError, match="E0901"):
        check(replace(whole, body=whole.body.replace(old, new, 1)))


def test_every_lane_takes_part():
    """On fibres the calls are places where lanes meet."""
    made = unit([text(product(f16))], metal_text.WORDS)
    for name in ("simdgroup_load", "simdgroup_store", "simdgroup_multiply_accumulate"):
        assert f"#define {name}(...) FIBRE_SITE({name}(__VA_ARGS__))" in made
