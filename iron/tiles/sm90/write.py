"""How a consumer writes a tile: computed from its sums, 64 columns at a time, put into a buffer of
group memory, and copied from there in bulk while the next is computed.

A step computes 16 x 16 elements of each simdgroup: eight registers a lane, which lie in a sum as
`stmatrix` takes them.
"""

from __future__ import annotations

from typing import NamedTuple

from iron.ir.core import Op, Value
from iron.ir.ops.ring import PANEL_BYTES, WARPGROUP
from iron.ir.table import Trait
from iron.ir.types import Tile, element
from iron.targets.atoms.nvidia import ACCUMULATOR, LANES, STMATRIX_4
from iron.tiles.emitter import named
from iron.tiles.sm90.consume import Consumer
from iron.tiles.sm90.plan import ROWS, Refused

COLUMNS = PANEL_BYTES // 2
SIDE = 16
HELD = SIDE * SIDE // LANES
STEPS = COLUMNS // SIDE
FIRST_BARRIER = 1
"""Named barrier of the first consumer; number 0 is the whole group's."""

assert ACCUMULATOR.repeat(1, 2) == STMATRIX_4.data, "a sum is stored as it lies"


class Step(NamedTuple):
    """Columns 16 * number .. of the rows 64 * block .. of a consumer.

    Its registers of a sum begin at `first`.
    """

    block: int
    number: Value
    first: Value


class Writer(Consumer):
    """A consumer with its writes."""

    def write(self, op: Op) -> None:
        """Each 64 x 64 panel of this consumer's rows."""
        held = op.args[-1].type
        assert isinstance(held, Tile)
        panels = held.shape[1] // COLUMNS
        for block in range(self.plan.blocks):
            first = self.number(block * panels)
            self.each(panels, lambda p, k=block, f=first: self._panel(op, k, f, p), "panel")

    def _panel(self, op: Op, block: int, before: Value, panel: Value) -> None:
        b, count = self.b, self.plan.buffers
        turn = b.emit("mod", b.emit("add", panel, before), self.number(count))
        buffer = b.emit("add", b.emit("mul", self.me, self.number(count)), turn)
        named(buffer, "buffer")
        barrier = b.emit("add", self.me, self.number(FIRST_BARRIER))
        leads = b.emit("eq", self.lane, self.number(0))
        self.only(leads, lambda: b.emit_all("bulk_wait", (), (count - 1, True)))
        b.emit_all("part_barrier", (barrier,), (WARPGROUP,))
        self.each(STEPS, lambda j: self._step(op.args[-1], block, panel, buffer, j), "j")
        b.emit_all("fence_async")
        b.emit_all("part_barrier", (barrier,), (WARPGROUP,))
        self.only(leads, lambda: self._store(op, block, panel, buffer))

    def _step(self, value: Value, block: int, panel: Value, buffer: Value, j: Value) -> None:
        b = self.b
        number = b.emit("add", b.emit("mul", panel, self.number(STEPS)), j)
        step = Step(block, number, b.emit("mul", number, self.number(HELD)))
        memo: dict[tuple[Value, int], Value] = {}
        found = [self._element(self._wide(value), step, r, memo) for r in range(HELD)]
        dtype = element(value.type)
        words = [b.emit("pair", *found[r : r + 2], attrs=(dtype,)) for r in range(0, HELD, 2)]
        simd = b.emit("floordiv", self.lane, self.number(LANES))
        row, column = (b.emit("mul", x, self.number(SIDE)) for x in (simd, j))
        b.emit_all("stmatrix", (self.held.buffers, buffer, row, column, *words))

    def _wide(self, value: Value) -> Value:
        """The f32 values that a written tile is rounded from."""
        op = value.op
        if op is None or op.name != "cast":
            raise Refused("it writes what was not rounded from f32")
        return op.args[0]

    def _element(
        self, value: Value, step: Step, r: int, memo: dict[tuple[Value, int], Value]
    ) -> Value:
        """Register `r` of a step of a tile value."""
        if (value, r) not in memo:
            memo[value, r] = self._made(value, step, r, memo)
        return memo[value, r]

    def _made(
        self, value: Value, step: Step, r: int, memo: dict[tuple[Value, int], Value]
    ) -> Value:
        b, op = self.b, value.op
        if value in self.sums:
            at = b.emit("add", step.first, self.number(r))
            return b.emit("load", self.sums[value][step.block], at, attrs=(0,))
        if op is None:
            raise Refused("it writes what a loop carries beside its sums")
        if op.name == "tile_full":
            return self.values[op.args[0]]
        if op.row.has(Trait.ELEMENTWISE) or op.name == "bitcast":
            args = [self._element(a, step, r, memo) for a in op.args]
            b.exact = op.exact
            return b.emit(op.name, *args, attrs=op.attrs, surface=op.surface)
        raise Refused(f"it writes the result of `{op.surface}`")

    def _store(self, op: Op, block: int, panel: Value, buffer: Value) -> None:
        b = self.b
        rows = b.emit("mul", self.me, self.number(self.plan.rows))
        row = b.emit("add", rows, self.number(block * ROWS))
        column = b.emit("mul", panel, self.number(COLUMNS))
        box = self.plan.targets[op]
        where = self.place(op, box, row, column)
        target = self.values[box.buffer]
        attrs = (box.axes, box.extents)
        b.emit_all("bulk_store", (self.held.buffers, buffer, target, *where), attrs)

    def finish(self) -> None:
        """Group memory lives until the last copy from it is done."""
        leads = self.b.emit("eq", self.lane, self.number(0))
        self.only(leads, lambda: self.b.emit_all("bulk_wait", (), (0, False)))
