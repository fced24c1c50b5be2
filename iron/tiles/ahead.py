"""Reads that start a turn early: in a `pipelined` loop the next operands wait in registers.

At the start of a turn each thread writes what it fetched to group memory and fetches for the turn
after, so that memory answers while the products run. Only the operands of a simdgroup's products,
read from tensors that nobody writes, at places that follow from the counter alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.dtypes import u32
from iron.ir.core import Block, Op, Value
from iron.ir.table import Trait
from iron.ir.types import Tensor, element
from iron.tiles import access, staging
from iron.tiles.emitter import Emitter
from iron.tiles.place import STAGED
from iron.tiles.storage import Shared

MOST_WORDS = 32
"""Words of all reads that a thread keeps for the next turn; more would push out the sums."""


class Ahead:
    """The reads of one loop that are fetched early."""

    def __init__(self, e: Emitter, loop: Op) -> None:
        self.e = e
        self.block: Block = loop.regions[0]
        self.reads: list[Op] = []
        self.slice: list[Op] = []
        self.arrays: dict[Op, Value] = {}
        if e.grid.matrix is None or loop.attr("stages") < 2:
            return
        left = MOST_WORDS
        for op in self.block.ops:
            words = self._words(op)
            needed = self._needed(op) if 0 < words <= left else None
            if needed is not None:
                left -= words
                self.reads.append(op)
                self.slice += [o for o in needed if o not in self.slice]

    def fetch(self, counter: Value) -> list[Value]:
        """What the reads give at a turn, as each thread keeps it; nothing of use at an edge."""
        self._at(counter)
        return [v for op in self.reads for v in staging.fetched(self.e, op, self._role(op))]

    def put(self, counter: Value, values: Sequence[Value]) -> None:
        """Brings what was fetched for this turn to group memory; what lies at an edge is read now,
        element by element."""
        e, rest = self.e, list(values)
        self._at(counter)
        for op in self.reads:
            (value,) = op.results
            if op not in self.arrays:
                self.arrays[op] = staging.array_of_words(e, value, self._role(op))
            e.kept[value] = Shared(self.arrays[op], words=True)
            e.fence.writes(e.b, self.arrays[op])
            rest = staging.put_words(e, op, self._role(op), self.arrays[op], rest)

    def _at(self, counter: Value) -> None:
        """Computes the places of the reads at a turn."""
        e = self.e
        e.values[self.block.params[0]] = counter
        for op in self.block.ops:
            if op in self.slice:
                e.follow(op)
                args = [e.values[a] for a in op.args]
                results = e.b.emit_all(op.name, args, op.attrs, (), op.surface)
                e.values.update(zip(op.results, results, strict=True))

    def _role(self, op: Op) -> str:
        return self.e.plan.placed[op.results[0]].role

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
        return staging.words_of_a_thread(self.e, value, placed.role, access.neighbours(op))

    def _needed(self, op: Op) -> list[Op] | None:
        """The ops of the body that the read's place follows from; None when it follows from more
        than the counter and what is known outside."""
        inside = {r: o for o in self.block.ops for r in o.results}
        waiting, found = list(op.args), list[Op]()
        while waiting:
            value = waiting.pop()
            if value in self.block.params[1:]:
                return None
            made = inside.get(value)
            if made is None or made in found:
                continue
            if not made.row.has(Trait.PURE) or made.row.has(Trait.TILE) or made.regions:
                return None
            found.append(made)
            waiting += made.args
        return found
