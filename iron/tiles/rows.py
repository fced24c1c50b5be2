"""Operands in group memory as their views lie, row by row, for products that load matrices.

Rows are some bytes apart, so that the eight rows of a matrix begin in different banks.
"""

from __future__ import annotations

from dataclasses import replace

from iron.ir.core import Op, Value
from iron.ir.ops.copy import BYTES, ONCE
from iron.ir.types import Tile, element
from iron.tiles import access, share
from iron.tiles.emitter import Emitter
from iron.tiles.place import STAGED
from iron.tiles.storage import Shared

FLIPPED = ("turned a", "b")
"""Roles of an operand whose view has k as its first axis."""


def movable(e: Emitter, op: Op) -> bool:
    """Whether a read is an operand that is loaded as matrices, and its rows are runs of 16 bytes;
    matrices that are turned have elements of 16 bits."""
    form = e.grid.matrix
    if form is None or not form.loads or op.name != "tile_read" or not access.neighbours(op):
        return False
    (value,) = op.results
    placed, t = e.plan.placed[value], value.type
    if placed.where != STAGED or not placed.role or not isinstance(t, Tile) or len(t.shape) != 2:
        return False
    runs = t.shape[1] * t.elem.bytes % BYTES == 0
    return runs and (placed.role not in FLIPPED or t.elem.bytes == 2)


def array(e: Emitter, read: Op, slots: int) -> Value:
    """The array with so many slots for an operand; copies of a read, in loops one after the other,
    share it."""
    (value,) = read.results
    assert isinstance(value.type, Tile)
    (rows, columns), elem = value.type.shape, value.type.elem
    key = read.attr("site"), slots
    if key not in e.slots:
        shape = (slots, rows, columns + BYTES // elem.bytes)
        e.slots[key] = e.array(elem, shape, value.name or "slots")
    return e.slots[key]


def moved(e: Emitter, op: Op, kept: Shared) -> None:
    """All threads bring a read to group memory: to a slot by copies that nobody waits for, else by
    ordinary accesses. A tile at an edge of its tensor is moved element by element, at once."""
    e.follow(op)
    (value,) = op.results
    assert isinstance(value.type, Tile)
    (rows, columns), count = value.type.shape, BYTES // element(value.type).bytes
    w, b, order = access.window(e, op), e.b, [1, 0]
    slot = [kept.slot] if kept.slot is not None else []
    down, across = share.shared_out(e, (rows, columns // count), order)
    joined = isinstance(w.sides[0], tuple)  # rows of which the next lies anywhere
    runs = ONCE if joined else (down.count, down.lanes, w.axes[0], down.lanes * w.steps[0])

    def copy(at: list[Value]) -> None:
        here = [at[0], b.emit("mul", at[1], e.number(count))]
        args = (kept.array, w.buffer, *slot, *here, *w.indices(b, w.place(b, here)))
        b.emit_all("async_copy", args, (count, runs))

    def run(at: list[Value]) -> None:
        here = [at[0], b.emit("mul", at[1], e.number(count))]
        held = b.emit("load", w.buffer, *w.indices(b, w.place(b, here)), attrs=(count,))
        b.emit_all("store", (kept.array, *here, held))

    def whole() -> None:
        if slot:
            first = down if joined else replace(down, count=1)
            share.fill_shared(e, [first, across], order, copy)
        else:
            share.fill_shared(e, [down, across], order, run)

    def one(at: list[Value]) -> None:
        held = access.guarded(e, w, w.place(b, at))
        b.emit_all("store", (kept.array, *slot, *at, held))

    access.whole_or_ragged(
        e,
        w.whole(b),
        whole,
        lambda: share.fill(e, (rows, columns), order, one),
    )
