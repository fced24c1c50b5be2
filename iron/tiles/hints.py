"""Reads that are asked for a turn early: where walks are loops, memory answers during products.

A core has few requests under way. Filling group memory from afar waits for each sixteen lines;
asked for one by one while the products of the turn before run, many are near when their turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iron.ir.core import Op, Value
from iron.ir.types import Tensor, Tile
from iron.tiles import access
from iron.tiles.early import Early
from iron.tiles.emitter import Emitter
from iron.tiles.place import STAGED
from iron.tiles.window import Hint

MOST = 4
"""Requests for a tile in one step of a product: more would be in the way of its loads."""


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
            found.append(Hint(access.window(e, op), *shape.shape))
        e.upcoming[self.block] = found
        e.values[self.block.params[0]] = counter
        return []


def _is_staged(e: Emitter, op: Op) -> bool:
    if op.name != "tile_read" or e.plan.placed[op.results[0]].where != STAGED:
        return False
    held = op.args[0].type
    constant = isinstance(held, Tensor) and held.space == "in"
    return constant and access.neighbours(op) and len(op.attr("axes")) == 2


def shares(
    e: Emitter, hints: Sequence[Hint], number: Value, blocks: int, steps: int
) -> Callable[[Value], None]:
    """What asks for the share of block `number` of so many, a part of it in each of its steps."""
    asking: list[tuple[Hint, Value, Value, int]] = []
    for hint in hints:
        share = -(-hint.rows * hint.columns // blocks)
        if share >= hint.columns and share // hint.columns <= MOST:
            many = share // hint.columns
            row = e.b.emit("mul", number, e.number(many))
            rows = [e.b.emit("add", row, e.number(i)) for i in range(many)]
            asking += [(hint, r, e.number(0), -(-hint.columns // steps)) for r in rows]
        elif share < hint.columns and hint.columns % share == 0:
            at = e.b.emit("mul", number, e.number(share))
            row, first = (e.b.emit(op, at, e.number(hint.columns)) for op in ("floordiv", "mod"))
            asking.append((hint, row, first, -(-share // steps)))

    def ask(k: Value) -> None:
        for hint, row, first, by in asking:
            at = e.b.emit("add", first, e.b.emit("mul", k, e.number(by)))
            where = hint.window.indices(e.b, hint.window.place(e.b, [row, at]))
            e.b.emit_all("prefetch", (hint.window.buffer, *where))

    return ask
