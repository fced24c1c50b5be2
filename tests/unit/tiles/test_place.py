"""What is placed where, why, and how the threads of a group share a tile."""

from itertools import product
from math import prod

import pytest

from iron.dtypes import f32
from iron.ir.core import Kernel
from iron.passes.fuse import fuse
from iron.targets.cpu import X86_64_V4
from iron.tiles.grid import Grid, grid, natural
from iron.tiles.lower import threads
from iron.tiles.place import FRAGMENT, REBUILT, STAGED, place
from tests.unit.tiles.programs import Tiles, attention, gemm, indexed, reductions


def placed(kernel: Kernel) -> dict[str, list[tuple[str, str]]]:
    """Op name to where its results are and why."""
    out: dict[str, list[tuple[str, str]]] = {}
    for value, decision in place(kernel).placed.items():
        name = value.op.name if value.op is not None else "param"
        out.setdefault(name, []).append((decision.where, decision.reason))
    return out


def test_operands_are_staged_and_sums_kept():
    found = placed(gemm(form="NT", bias=True).kernel)
    assert (
        found["tile_read"]
        == [
            (STAGED, "an operand of `mma`"),
            (STAGED, "an operand of `mma`, turned"),
            (FRAGMENT, "read more than once, or before the memory changes"),
        ]
        or found["tile_read"][2][0] == REBUILT
    )
    assert found["mma"] == [(FRAGMENT, "the result of `mma`")]
    assert found["param"] == [(FRAGMENT, "carried by a loop")]
    assert {where for where, _ in found["tile_full"]} == {REBUILT}


def test_vectors_follow_the_matrix_they_meet():
    kernel = attention().kernel
    plan = place(kernel)
    vectors = [v for v in plan.kinds if len(v.type.shape) == 1 and plan.placed[v].where == FRAGMENT]
    assert len(vectors) >= 6
    assert {plan.kinds[v] for v in vectors} == {("down",)}
    kernel = reductions().kernel
    plan = place(kernel)
    by_axis = {
        op.attr("axis"): plan.kinds[op.results[0]]
        for op in kernel.body.walk()
        if op.name == "tile_reduce" and op.results[0] in plan.kinds
    }
    assert by_axis == {1: ("down",), 0: ("across",)}


def test_values_with_many_readers_are_kept():
    found = placed(attention().kernel)
    assert ("fragment", "has 2 readers") in found["exp2"]
    assert found["tile_iota"] == [(REBUILT, "costs nothing to compute again")] * 2
    assert found["lt"] == [(REBUILT, "a few operations on counters and constants")]


@pytest.mark.parametrize(
    "shape", [(64, 64), (16, 80), (48, 16), (4, 2), (1, 1), (128, 96), (2, 64)]
)
@pytest.mark.parametrize("group", [Grid(4, 16), Grid(8, 16), Grid(1, 32, 1, True), Grid(2, 16, 1)])
@pytest.mark.parametrize("simd", [8, 32])
def test_the_layout_says_what_the_chunks_say(shape, group: Grid, simd: int):
    """Coordinates by chunk, lane and place in a chunk, against the layout over F2."""
    kinds = natural(2)
    layout = group.layout(kinds, shape, simd)
    assert layout.shape == shape
    assert layout.covers
    assert layout.copies * prod(shape) == layout.registers * group.threads
    axes = [group.along(k, s) for k, s in zip(kinds, shape, strict=True)]
    for thread in range(group.threads):
        own = (thread // group.across, thread % group.across)
        lanes = [t % a.lanes for t, a in zip(own, axes, strict=True)]
        chunks = product(*(range(a.count) for a in axes), *(range(a.width) for a in axes))
        by_chunk = {
            tuple(
                (c * a.lanes + lane) * a.width + i
                for c, i, lane, a in zip(numbers[:2], numbers[2:], lanes, axes, strict=True)
            )
            for numbers in chunks
        }
        held = {layout.at(r, thread % simd, thread // simd) for r in range(layout.registers)}
        assert held == by_chunk


def test_the_group_fits_its_largest_sum():
    assert grid(gemm(tiles=(64, 64, 8)).kernel, None).threads == 128
    assert grid(gemm(tiles=(128, 128, 8)).kernel, None).threads == 256
    assert grid(gemm(tiles=(16, 16, 8)).kernel, None).threads == 64
    assert grid(gemm(tiles=(16, 80, 8)).kernel, X86_64_V4) == Grid(2, 16, 1, True)
    assert grid(indexed().kernel, X86_64_V4).threads == 32


@pytest.mark.parametrize(("writes", "where"), [(1, REBUILT), (2, FRAGMENT)])
def test_a_walk_keeps_what_it_reads_twice(writes: int, where: str):
    """Where walks are loops: a value whose readers end in one write takes no memory."""
    p = Tiles()
    p.tensor("x", f32, "in", 2), p.tensor("y", f32, "out", 2), p.tensor("z", f32, "out", 2)
    n = p.dim("N")
    twice = p.emit("exp2", p.read("x", (8, 32), [p.group(), 0], [n, n]))
    square = p.emit("mul", twice, p.emit("add", twice, p.full(1, (8, 32))))
    for name in "yz"[:writes]:
        p.write(name, square, [p.group(), 0], [n, n])
    kernel = p.done()
    by_name = {
        v.op.name: d.where for v, d in place(kernel, grid(kernel, X86_64_V4)).placed.items() if v.op
    }
    assert by_name["exp2"] == where
    in_registers = {v.op.name: d.where for v, d in place(kernel).placed.items() if v.op}
    assert in_registers["exp2"] == FRAGMENT
    found = threads(kernel, X86_64_V4)
    arrays = [op for op in found.body.walk() if op.name == "shared"]
    assert len(arrays) == (0 if writes == 1 else 2)
    assert sum(op.name == "exp2" for op in found.body.walk()) == (2 if writes == 1 else 1)


def test_what_a_contraction_read_is_no_reader():
    """exp2(x) * (x + 1) + x is one fma: its factors have one reader, the product none."""
    p = Tiles()
    p.tensor("x", f32, "in", 2), p.tensor("y", f32, "out", 2)
    n, shape = p.dim("N"), (8, 32)
    x = p.read("x", shape, [p.group(), 0], [n, n])
    product = p.emit("mul", p.emit("exp2", x), p.emit("add", x, p.full(1, shape)))
    p.write("y", p.emit("add", product, x), [p.group(), 0], [n, n])
    found = placed(fuse(p.done()))
    assert "mul" not in found
    assert found["exp2"] == [(REBUILT, "has one reader, `fma`")]
