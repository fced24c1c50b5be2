"""How a consumer writes a tile: 64 columns at a time into a buffer of group memory, which is copied
from there in bulk while the next is computed; or element by element, where no map describes it."""

from __future__ import annotations

from iron.dtypes import f32
from iron.ir.core import Op, Value
from iron.ir.ops.ring import WARPGROUP
from iron.ir.types import Tile
from iron.targets.atoms.nvidia import LANES
from iron.tiles.emitter import named
from iron.tiles.sm90.boxes import Box
from iron.tiles.sm90.consume import SUMS
from iron.tiles.sm90.elements import HELD, LAYOUT, SIDE, Elements, Step, spread, wide
from iron.tiles.sm90.plan import COLUMNS, ROWS, Leaving

FIRST_BARRIER = 1
"""Named barrier of the first consumer; number 0 is the whole group's."""


class Writer(Elements):
    """A consumer with its writes."""

    def write(self, op: Op) -> None:
        """This consumer's rows of the tile."""
        held, found = op.args[-1].type, self.plan.targets[op]
        assert isinstance(held, Tile)
        for block in range(self.plan.blocks):
            if found is None:
                self.each(
                    held.shape[1] // SIDE, lambda j, k=block: self._directly(op, k, j), "step"
                )
                continue
            pieces = found.pieces // self.plan.blocks
            first = self.number(block * pieces)
            self.each(
                pieces, lambda p, k=block, f=first, x=found: self._piece(op, x, k, f, p), "piece"
            )

    # --- through a buffer -------------------------------------------------------------------------

    def _piece(self, op: Op, found: Leaving, block: int, before: Value, piece: Value) -> None:
        """As many columns of 64 rows as fill a buffer."""
        b, count = self.b, self.plan.buffers
        turn = b.emit("mod", b.emit("add", piece, before), self.number(count))
        buffer = b.emit("add", b.emit("mul", self.me, self.number(count)), turn)
        named(buffer, "buffer")
        barrier = b.emit("add", self.me, self.number(FIRST_BARRIER))
        leads = b.emit("eq", self.lane, self.number(0))
        self.only(leads, lambda: b.emit_all("bulk_wait", (), (count - 1, True)))
        b.emit_all("part_barrier", (barrier,), (WARPGROUP,))
        columns = found.rows if found.box.turned else COLUMNS
        first = b.emit("mul", piece, self.number(columns // SIDE))
        self.each(
            columns // SIDE, lambda j: self._step(op.args[-1], found, block, first, buffer, j), "j"
        )
        b.emit_all("fence_async")
        b.emit_all("part_barrier", (barrier,), (WARPGROUP,))
        moved = b.emit("mul", piece, self.number(columns))
        self.only(leads, lambda: self._store(op, found.box, block, moved, buffer))

    def _step(
        self, value: Value, found: Leaving, block: int, first: Value, buffer: Value, j: Value
    ) -> None:
        b, turned = self.b, found.box.turned
        step = self.step(block, b.emit("add", first, j))
        assert self.held.buffers is not None
        if found.dtype in SUMS:
            for r in range(0, HELD, 2):
                self._pair(value, step, r, turned, buffer, j)
            return
        source = wide(value)
        made = [self.in_f32(self.element(source, step, r)) for r in range(HELD)]
        words = [b.emit("pair", *made[r : r + 2], attrs=(found.dtype,)) for r in range(0, HELD, 2)]
        simd = b.emit("floordiv", self.lane, self.number(LANES))
        place = [b.emit("mul", x, self.number(SIDE)) for x in (simd, j)]
        row, column = place[::-1] if turned else place
        b.emit_all("stmatrix", (self.held.buffers, buffer, row, column, *words), (turned,))

    def _pair(
        self, value: Value, step: Step, r: int, turned: bool, buffer: Value, j: Value
    ) -> None:
        """Registers r and r + 1, which are neighbours of a row."""
        b = self.b
        made = [self.element(value, step, r), self.element(value, step, r + 1)]
        (down, across), zero = (spread(b, self.lane, axis) for axis in (0, 1)), LAYOUT.at(r)
        row = b.emit("add", down, self.number(zero[0]))
        column = b.emit("add", b.emit("mul", j, self.number(SIDE)), across)
        column = b.emit("add", column, self.number(zero[1]))
        assert self.held.buffers is not None
        held = (self.held.buffers, buffer)
        if not turned:
            b.emit_all("part_store", (*held, row, column, *made))
            return
        for i, x in enumerate(made):
            at = b.emit("add", column, self.number(i))
            b.emit_all("part_store", (*held, at, row, x))

    def in_f32(self, value: Value) -> Value:
        """A 16-bit float as it is, wider."""
        return value if value.type is f32 else self.b.emit("cast", value, attrs=(f32,))

    def _store(self, op: Op, box: Box, block: int, column: Value, buffer: Value) -> None:
        b = self.b
        rows = b.emit("mul", self.me, self.number(self.plan.rows))
        row = b.emit("add", rows, self.number(block * ROWS))
        moved = (column, row) if box.turned else (row, column)
        where = self.place(op, box, *moved)
        target = self.values[box.buffer]
        assert self.held.buffers is not None
        b.emit_all("bulk_store", (self.held.buffers, buffer, target, *where), box.attrs)

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
