"""Lanes that each read a run of neighbours, evenly apart: a wide load a lane, and a transposition.

A gather takes a cycle an element and touches as many lines as there are lanes again for each
neighbour; this takes a load and a few shuffles a lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.backends.cpu.address import axis_steps, first_index
from iron.backends.cpu.convert import recast
from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter
from iron.dtypes import DType, u32
from iron.ir.core import Value

SIDE = 16
"""Words of 32 bits that are turned at once: as many lanes, and as many neighbours of each."""
WORD = 4


def turned(
    e: Emitter, elem: DType, buffer: Value, indices: Sequence[Value], n: int
) -> list[str] | None:
    """`n` neighbours of each lane in memory form; None where another way is as good."""
    steps = axis_steps(e, buffer)
    strides = [e.lane_stride(i) for i in indices]
    if (
        e.mask is not None
        or e.lanes % SIDE
        or n * elem.bytes != SIDE * WORD
        or elem.kind == "b"
        or steps[-1] != "1"
        or None in strides
        or not e.target.has("avx512")
    ):
        return None
    pointer, *_ = e.names(buffer)
    size, apart = elem.bytes, "0"
    for index, step, stride in zip(indices, steps, strides, strict=True):
        at = e.w.let(f"mul i64 {first_index(e, index)}, {step}")
        by = e.w.let(f"mul i64 {at}, {size}")
        pointer = e.w.let(f"getelementptr i8, ptr {pointer}, i64 {by}")
        if stride:
            more = e.w.let(f"mul i64 {step}, {stride * size}")
            apart = more if apart == "0" else e.w.let(f"add i64 {apart}, {more}")
    words = Lanes(e.w, u32, e.lanes)
    blocks: list[list[str]] = []
    for _ in range(e.lanes // SIDE):
        rows: list[str] = []
        for _ in range(SIDE):
            rows.append(e.w.let(f"load <{SIDE} x i32>, ptr {pointer}, align {size}"))
            pointer = e.w.let(f"getelementptr i8, ptr {pointer}, i64 {apart}")
        blocks.append(_square(e, rows))
    columns = [e.w.concat(list(parts), "i32", SIDE) for parts in zip(*blocks, strict=True)]
    if elem.kind == "f" and elem.bytes == WORD:
        t = f"<{e.lanes} x float>"
        return [e.w.let(f"bitcast {words.t} {c} to {t}") for c in columns]
    return columns if elem.bytes == WORD else recast(words, columns, elem)


def _square(e: Emitter, rows: list[str]) -> list[str]:
    """The transposed square: blocks of 1, 2, 4, .. words change places across the diagonal."""
    apart = 1
    while apart < SIDE:
        low = [k if not k & apart else SIDE + k - apart for k in range(SIDE)]
        high = [k + apart if not k & apart else SIDE + k for k in range(SIDE)]
        new = list(rows)
        for i in range(SIDE):
            if not i & apart:
                a, b = rows[i], rows[i + apart]
                new[i] = e.w.pick(a, "i32", SIDE, low, b)
                new[i + apart] = e.w.pick(a, "i32", SIDE, high, b)
        rows, apart = new, 2 * apart
    return rows
