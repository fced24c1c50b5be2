"""Reads that start a turn early: in a `pipelined` loop the next operands wait in registers.

At the start of a turn each thread writes what it fetched to group memory and fetches for the turn
after, so that memory answers while the products run. Only the operands of a simdgroup's products,
read from tensors that nobody writes, at places that follow from the counter alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from iron.dtypes import u32
from iron.ir.core import Op, Value
from iron.ir.types import Tensor, element
from iron.tiles import access, staging
from iron.tiles.early import Early
from iron.tiles.emitter import Emitter
from iron.tiles.place import STAGED
from iron.tiles.storage import Shared

MOST_WORDS = 32
"""Words of all reads that a thread keeps for the next turn; more would push out the sums."""


class Ahead(Early):
    """The reads of one loop that are fetched early, apart from those that are `taken` already."""

    def __init__(self, e: Emitter, loop: Op, taken: Collection[Op] = ()) -> None:
        super().__init__(e, loop)
        if not e.grid.multiplies or loop.attr("stages") < 2:
            return
        left = MOST_WORDS
        for op in self.block.ops:
            words = 0 if op in taken else self._words(op)
            if 0 < words <= left and self.take(op):
                left -= words

    def start(self, low: Value, high: Value, step: Value) -> list[Value]:
        """What the reads give at the first turn."""
        return self.fetch(low)

    def turn(
        self, counter: Value, bounds: tuple[Value, Value], held: Sequence[Value]
    ) -> list[Value]:
        """What was fetched goes to group memory, and what the next turn needs is fetched."""
        self.put(counter, held)
        following = self.fetch(self.e.b.emit("add", counter, bounds[1]))
        self.e.values[self.block.params[0]] = counter
        return following

    def fetch(self, counter: Value) -> list[Value]:
        """What the reads give at a turn, as each thread keeps it; nothing of use at an edge."""
        self.at(counter)
        return [v for op in self.reads for v in staging.fetched(self.e, op, self._role(op))]

    def put(self, counter: Value, values: Sequence[Value]) -> None:
        """Brings what was fetched for this turn to group memory; what lies at an edge is read now,
        element by element."""
        e, rest = self.e, list(values)
        self.at(counter)
        for op in self.reads:
            (value,) = op.results
            if op not in self.arrays:
                self.arrays[op] = staging.array_of_words(e, value, self._role(op))
            e.kept[value] = Shared(self.arrays[op], words=True)
            e.fence.writes(e.b, self.arrays[op])
            rest = staging.put_words(e, op, self._role(op), self.arrays[op], rest)

    def _role(self, op: Op) -> str:
        return staging.lying(self.e, op.results[0])

    def _words(self, op: Op) -> int:
        """Words that a thread would keep of a read; 0 where it cannot be fetched."""
        if op.name != "tile_read":
            return 0
        (value,), held = op.results, op.args[0].type
        placed = self.e.plan.placed[value]
        constant = isinstance(held, Tensor) and held.space == "in"
        narrow = element(value.type).bytes < u32.bytes
        if placed.where != STAGED or not placed.role or not constant or not narrow:
            return 0
        return staging.words_of_a_thread(self.e, value, self._role(op), access.neighbours(op))
