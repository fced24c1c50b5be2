"""Rings: which reads share a slot, what a producer keeps, and equal sequences of fills."""

import numpy as np
import pytest

from iron.dtypes import bf16, f32, i32
from iron.ir.build import Builder
from iron.ir.core import Op, Value
from iron.ir.rebuild import rebuild
from iron.ir.types import Tile
from iron.tiles.ring import Ring, check, rings, sequence
from iron.tiles.roles import producer
from tests.unit.tiles import kernels
from tests.unit.tiles.programs import Tiles

DIMS = {"M": 130, "N": 200, "K": 200}
NT = (Ring((0, 1), 2, once=False),)


def nt(fn=kernels.product_nt):
    names = [n for n, p in fn.signature.items() if n in ("a", "b", "g", "u")]
    arrays = {n: np.zeros((8, 8), bf16.np) for n in (*names, "c")}
    return kernels.tiles_of(fn, arrays, STAGES=2)


def attention():
    """q stands outside the loop of its product; k and v feed different products."""
    p = Tiles(rank=1)
    for name in ("q", "k", "v"):
        p.tensor(name, bf16, "in", 2)
    p.tensor("o", f32, "out", 2)
    rows = p.dim("S")
    q = p.read("q", (64, 64), [p.times(p.group(), 64), 0], [rows, 64])

    def turn(j: Value, acc: Value) -> list[Value]:
        at = p.times(j, 64)
        k = p.read("k", (64, 64), [at, 0], [rows, 64])
        score = p.mma(q, p.turn(k), p.full(0.0, (64, 64)))
        v = p.read("v", (64, 64), [at, 0], [rows, 64])
        return [p.mma(p.to(score, bf16), v, acc)]

    (acc,) = p.loop(p.cdiv(rows, 64), [p.full(0.0, (64, 64))], turn, stages=3)
    p.write("o", acc, [p.times(p.group(), 64), 0], [rows, 64])
    return p.launched(("S", 64))


def test_reads_of_one_product_share_a_slot():
    assert rings(nt()) == NT
    assert rings(nt(kernels.two_products)) == (Ring((0, 1, 3), 2, once=False),)


def test_lifetimes_part_rings():
    sites = {
        op.attr("site"): op.args[0].name for op in attention().body.walk() if op.name == "tile_read"
    }
    found = [([sites[s] for s in r.sites], r.slots, r.once) for r in rings(attention())]
    assert found == [(["q"], 1, True), (["k"], 3, False), (["v"], 3, False)]


def test_a_producer_keeps_the_reads_alone():
    made = producer(nt(), NT)
    tiled = [op for op in made.body.walk() if any(isinstance(r.type, Tile) for r in op.results)]
    assert [op.name for op in tiled] == ["tile_read", "tile_read"]
    assert not any(op.name in ("tile_write", "mma") for op in made.body.walk())
    (loop,) = (op for op in made.body.walk() if op.name == "for")
    assert loop.results == ()


@pytest.mark.parametrize("group", [(0, 0), (2, 3)])
def test_the_sequence_of_fills(group):
    (found,) = sequence(nt(), NT, DIMS, group).values()
    m, n = group
    assert found == [
        fill
        for k in range(0, 200, 64)
        for fill in [(0, (0, 0, 64 * m, k, 130, 200)), (1, (0, 0, 64 * n, k, 200, 200))]
    ]


def test_roles_agree():
    for kernel, values, groups in (
        (nt(), DIMS, [(0, 0), (1, 2)]),
        (attention(), {"S": 200}, [(0,), (3,)]),
    ):
        found = rings(kernel)
        for group in groups:
            assert check(producer(kernel, found), kernel, found, values, group) == ""


def further(b: Builder, op: Op, args: tuple[Value, ...]):
    """The second operand's read, one column on."""
    if op.attr("site") != 1:
        return None
    moved = (*args[:3], b.emit("add", args[3], b.const(1, i32)), *args[4:])
    return b.emit_all("tile_read", moved, op.attrs)


def test_a_difference_is_found():
    kernel = nt()
    other = rebuild(kernel, {"tile_read": further})
    assert check(kernel, other, NT, DIMS, (0, 0)) == "ring of sites (0, 1): fill 1 differs"
    less = {**DIMS, "K": 64}
    short = sequence(kernel, NT, less, (0, 0))[NT[0]]
    assert len(short) == 2
