"""The producer: one thread that claims slots and starts the copies that fill them."""

from __future__ import annotations

from iron.ir.core import Block, Op
from iron.tiles.ring import reads
from iron.tiles.sm90.role import Role


class Producer(Role):
    """Emits the slice of a tile program that `roles.producer` leaves."""

    first: frozenset[Op] | set[Op] = frozenset()
    last: frozenset[Op] | set[Op] = frozenset()

    def block(self, block: Block) -> None:
        """A block claims a slot before the first read of a ring and goes on after the last."""
        outer = self.first, self.last
        found = {r: list(reads(block, r)) for r in self.plan.rings}
        self.first = {ops[0] for ops in found.values() if ops}
        self.last = {ops[-1] for ops in found.values() if ops}
        super().block(block)
        self.first, self.last = outer

    def tile(self, op: Op) -> None:
        """A read of a ring; there are no others."""
        site, b = op.attr("site"), self.b
        ring, operand = self.plan.ring_of(site), self.plan.operands[site]
        slot, phase = self.turns[ring]
        barriers = self.held.barriers[ring]
        if op in self.first:
            b.emit_all("ring_claim", (barriers, slot, phase))
        source = self.values[operand.box.buffer]
        where = self.place(op, operand.box)
        attrs = operand.box.attrs
        b.emit_all("ring_copy", (self.held.parts[site], barriers, slot, source, *where), attrs)
        if op in self.last:
            self.advance(ring)
