"""Reads that start several turns early: copies into slots of group memory, which nobody waits for.

In a loop `pipelined` with s stages an operand of the simdgroups' products has s slots. At the start
of a turn its copies of s - 1 turns ago have arrived; those of the turn s - 1 ahead start into the
slot that the turn before has read. The operand lies as its view does, its rows a little apart, and
products load it as matrices, turned where k runs down. A tile at an edge of its tensor is read
element by element when its copies would start.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.ir.core import Op, Value
from iron.ir.types import Tensor
from iron.tiles import rows
from iron.tiles.early import Early
from iron.tiles.emitter import Emitter, named
from iron.tiles.storage import Shared


class Slots(Early):
    """The reads of one loop that are copied early."""

    def __init__(self, e: Emitter, loop: Op) -> None:
        super().__init__(e, loop)
        self.stages: int = min(loop.attr("stages"), e.stages)
        if self.stages < 2:
            return
        for op in self.block.ops:
            if rows.movable(e, op) and _constant(op):
                self.take(op)

    def start(self, low: Value, high: Value, step: Value) -> list[Value]:
        """Copies for the first turns; gives the slot of the first turn and the one before it."""
        e, b = self.e, self.e.b
        for op in self.reads:
            self.arrays[op] = rows.array(e, op, self.stages)
            e.fence.writes(b, self.arrays[op])
        at = low
        for number in range(self.stages - 1):
            self._copies(at, high, e.number(number))
            at = b.emit("add", at, step)
        return [e.number(0), e.number(self.stages - 1)]

    def turn(
        self, counter: Value, bounds: tuple[Value, Value], held: Sequence[Value]
    ) -> list[Value]:
        """What this turn reads has arrived; the copies of a later one start."""
        e, b, (high, step) = self.e, self.e.b, bounds
        slot, free = (named(v, n) for v, n in zip(held, ("slot", "free"), strict=True))
        b.emit_all("async_wait", (), (self.stages - 2,))
        e.fence.barrier(b)
        ahead = b.emit("mul", step, b.const(self.stages - 1, step.type))
        self._copies(b.emit("add", counter, ahead), high, free)
        for op in self.reads:
            e.kept[op.results[0]] = Shared(self.arrays[op], slot=slot)
        e.values[self.block.params[0]] = counter
        following = b.emit("add", slot, e.number(1))
        last = b.emit("eq", following, e.number(self.stages))
        return [b.emit("where", last, e.number(0), following), slot]

    def _copies(self, counter: Value, high: Value, slot: Value) -> None:
        """Starts the copies of a turn into a slot, if there is such a turn, as one group."""
        e, b = self.e, self.e.b
        with e.only(b.emit("lt", counter, high)):
            self.at(counter)
            for op in self.reads:
                rows.moved(e, op, Shared(self.arrays[op], slot=slot))
        b.emit_all("async_commit")


def _constant(op: Op) -> bool:
    held = op.args[0].type
    return isinstance(held, Tensor) and held.space == "in"
