"""What the ways to start a loop's reads early share: which reads, and their places at a turn."""

from __future__ import annotations

from collections.abc import Sequence

from iron.ir.core import Block, Op, Value
from iron.ir.table import Trait
from iron.tiles.emitter import Emitter


class Early:
    """Reads of one loop that start before their turn, at places that follow from the counter."""

    def __init__(self, e: Emitter, loop: Op) -> None:
        self.e = e
        self.block: Block = loop.regions[0]
        self.reads: list[Op] = []
        self.slice: list[Op] = []
        self.arrays: dict[Op, Value] = {}

    @property
    def done(self) -> list[Op]:
        """The reads that need not be made in their turn."""
        return self.reads

    def start(self, low: Value, high: Value, step: Value) -> list[Value]:
        """Before the loop: what its first turn is given."""
        raise NotImplementedError

    def turn(
        self, counter: Value, bounds: tuple[Value, Value], held: Sequence[Value]
    ) -> list[Value]:
        """At the start of a turn of the loop up to `bounds` by its step: what the next is given."""
        raise NotImplementedError

    def take(self, op: Op) -> bool:
        """Adds a read, unless its place follows from more than the counter and what is known
        outside."""
        needed = self._needed(op)
        if needed is None:
            return False
        self.reads.append(op)
        self.slice += [o for o in needed if o not in self.slice]
        return True

    def at(self, counter: Value) -> None:
        """Computes the places of the reads at a turn."""
        e = self.e
        e.values[self.block.params[0]] = counter
        for op in self.block.ops:
            if op in self.slice:
                e.follow(op)
                args = [e.values[a] for a in op.args]
                results = e.b.emit_all(op.name, args, op.attrs, (), op.surface)
                e.values.update(zip(op.results, results, strict=True))

    def _needed(self, op: Op) -> list[Op] | None:
        """The ops of the body that the read's place follows from."""
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
