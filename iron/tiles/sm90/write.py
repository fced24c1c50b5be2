"""How a consumer writes a tile: 64 columns at a time into a buffer of group memory, which is copied
from there in bulk while the next is computed; or element by element, where no map describes it."""

from __future__ import annotations

from iron.dtypes import f32
from iron.ir.core import Op, Value
from iron.ir.ops.ring import PANEL_BYTES, WARPGROUP
from iron.ir.types import Tile, element
from iron.targets.atoms.nvidia import LANES
from iron.tiles.emitter import named
from iron.tiles.sm90.elements import HELD, SIDE, Elements, wide
from iron.tiles.sm90.plan import ROWS, Box

COLUMNS = PANEL_BYTES // 2
STEPS = COLUMNS // SIDE
FIRST_BARRIER = 1
"""Named barrier of the first consumer; number 0 is the whole group's."""


class Writer(Elements):
    """A consumer with its writes."""

    def write(self, op: Op) -> None:
        """This consumer's rows of the tile."""
        held, box = op.args[-1].type, self.plan.targets[op]
        assert isinstance(held, Tile)
        for block in range(self.plan.blocks):
            if box is None:
                self.each(
                    held.shape[1] // SIDE, lambda j, k=block: self._directly(op, k, j), "step"
                )
                continue
            panels = held.shape[1] // COLUMNS
            first = self.number(block * panels)
            self.each(
                panels, lambda p, k=block, f=first, x=box: self._panel(op, x, k, f, p), "panel"
            )

    # --- through a buffer -------------------------------------------------------------------------

    def _panel(self, op: Op, box: Box, block: int, before: Value, panel: Value) -> None:
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
        self.only(leads, lambda: self._store(op, box, block, panel, buffer))

    def _step(self, value: Value, block: int, panel: Value, buffer: Value, j: Value) -> None:
        b, source = self.b, wide(value)
        step = self.step(block, b.emit("add", b.emit("mul", panel, self.number(STEPS)), j))
        found = [self.in_f32(self.element(source, step, r)) for r in range(HELD)]
        dtype = element(value.type)
        words = [b.emit("pair", *found[r : r + 2], attrs=(dtype,)) for r in range(0, HELD, 2)]
        simd = b.emit("floordiv", self.lane, self.number(LANES))
        row, column = (b.emit("mul", x, self.number(SIDE)) for x in (simd, j))
        assert self.held.buffers is not None
        b.emit_all("stmatrix", (self.held.buffers, buffer, row, column, *words))

    def in_f32(self, value: Value) -> Value:
        """A 16-bit float as it is, wider."""
        return value if value.type is f32 else self.b.emit("cast", value, attrs=(f32,))

    def _store(self, op: Op, box: Box, block: int, panel: Value, buffer: Value) -> None:
        b = self.b
        rows = b.emit("mul", self.me, self.number(self.plan.rows))
        row = b.emit("add", rows, self.number(block * ROWS))
        column = b.emit("mul", panel, self.number(COLUMNS))
        where = self.place(op, box, row, column)
        target = self.values[box.buffer]
        attrs = (box.axes, box.extents)
        assert self.held.buffers is not None
        b.emit_all("bulk_store", (self.held.buffers, buffer, target, *where), attrs)

    def finish(self) -> None:
        """Group memory lives until the last copy from it is done."""
        if self.held.buffers is None:
            return
        leads = self.b.emit("eq", self.lane, self.number(0))
        self.only(leads, lambda: self.b.emit_all("bulk_wait", (), (0, False)))

    # --- element by element -----------------------------------------------------------------------

    def _directly(self, op: Op, block: int, number: Value) -> None:
        """A step's elements, each where the view has it."""
        step = self.step(block, number)
        for r in range(HELD):
            value = self.element(op.args[-1], step, r)
            at, exists = self.spot(op, self.place_of(step, r))
            self.only(exists, lambda v=value, i=at: self.put(op, i, v))

    def put(self, op: Op, at: list[Value], value: Value) -> None:
        """One element of a write."""
        self.b.emit_all("store", (self.values[op.args[0]], *at, value))
