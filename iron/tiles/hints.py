"""Reads that are asked for a turn early: where walks are loops, memory answers during products.

A core has few requests under way. Filling group memory from afar waits for each sixteen lines;
asked for block by block while the products of the turn before run, many are near when their turn
comes.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.ir.core import Op, Value
from iron.ir.types import Tensor, Tile
from iron.tiles import access, columns
from iron.tiles.early import Early
from iron.tiles.emitter import Emitter
from iron.tiles.place import STAGED
from iron.tiles.window import Hint

MOST = 4
"""Rows of a tile that one block of a product asks for: more would be in the way of its loads."""


class Hints(Early):
    """The staged reads of a `pipelined` loop, whose rows are neighbours in memory."""

    def __init__(self, e: Emitter, loop: Op) -> None:
        super().__init__(e, loop)
        if e.grid.looped and e.micro is None and loop.attr("stages") > 1:
            for op in self.block.ops:
                if _is_staged(e, op):
                    self.take(op)

    @property
    def done(self) -> list[Op]:
        """None: what is asked for is still read."""
        return []

    def start(self, low: Value, high: Value, step: Value) -> list[Value]:
        """Nothing."""
        return []

    def turn(
        self, counter: Value, bounds: tuple[Value, Value], held: Sequence[Value]
    ) -> list[Value]:
        """Leaves what the turn after this reads to the first product of the body."""
        e, found = self.e, list[Hint]()
        self.at(e.b.emit("add", counter, bounds[1]))
        for op in self.reads:
            shape = op.results[0].type
            assert isinstance(shape, Tile)
            sides = list(shape.shape)
            if columns.comes(e, op):  # its other panels are asked for while they are filled
                across = 0 if e.plan.placed[op.results[0]].turned else 1
                sides[across] = e.grid.along("across", sides[across]).lanes
            found.append(Hint(access.window(e, op), *sides))
        e.upcoming[self.block] = found
        e.values[self.block.params[0]] = counter
        return []


def _is_staged(e: Emitter, op: Op) -> bool:
    if op.name != "tile_read" or e.plan.placed[op.results[0]].where != STAGED:
        return False
    held = op.args[0].type
    constant = isinstance(held, Tensor) and held.space == "in"
    return constant and access.neighbours(op) and len(op.attr("axes")) == 2


def ask(e: Emitter, hints: Sequence[Hint], number: Value, blocks: int) -> None:
    """Asks for the share of block `number` of so many."""
    for hint in hints:
        share = -(-hint.rows * hint.columns // blocks)
        if share >= hint.columns and share // hint.columns <= MOST:
            many = share // hint.columns
            row = e.b.emit("mul", number, e.number(many))
            for i in range(many):
                at = [e.b.emit("add", row, e.number(i)), e.number(0)]
                access.ask(e, hint.window, at, hint.columns)
        elif share < hint.columns and hint.columns % share == 0:
            at = e.b.emit("mul", number, e.number(share))
            parts = [e.b.emit(op, at, e.number(hint.columns)) for op in ("floordiv", "mod")]
            access.ask(e, hint.window, parts, share)
