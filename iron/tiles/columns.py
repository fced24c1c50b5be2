"""Right operands on a CPU: panels of the columns that the lanes of a simdgroup hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iron.dtypes import u32
from iron.ir.core import Op, Value
from iron.ir.types import Tile, element
from iron.tiles import access
from iron.tiles.emitter import Emitter
from iron.tiles.grid import natural
from iron.tiles.storage import Place, Shared, Spot
from iron.tiles.window import Window

LINE = 64
"""Bytes of a cache line."""


def in_panels(e: Emitter, op: Op, turned: bool) -> None:
    """Fills the panels of a right operand, each thread its own columns."""
    e.follow(op)
    (value,) = op.results
    access.fenced(e, op)
    elem = e.wider(element(value.type))
    e.kept[value] = kept = e.panels(value, elem, turned)

    def put(at: Sequence[Value], held: Value) -> None:
        e.put(Shared(kept.array), at, held)

    _fill_panels(e, op, kept.array, turned, 1, put)


def in_pairs(e: Emitter, op: Op, turned: bool) -> None:
    """Fills the panels of a right operand whose neighbours along k share a word."""
    e.follow(op)
    (value,) = op.results
    assert isinstance(value.type, Tile)
    access.fenced(e, op)
    depth, side = value.type.shape[::-1] if turned else value.type.shape
    a = e.grid.along("across", side)
    array = e.array(u32, (a.count, depth // 2, a.lanes), value.name or "panels")
    e.kept[value] = Shared(array, turned, panels=True)

    def put(at: Sequence[Value], held: Value) -> None:
        e.b.emit_all("store", (array, *at, e.bits(held)))

    _fill_panels(e, op, array, turned, 2, put)


def _fill_panels(
    e: Emitter,
    op: Op,
    array: Value,
    turned: bool,
    per: int,
    put: Callable[[Sequence[Value], Value], None],
) -> None:
    """Reads a right operand, `per` neighbours along k at a time, and gives each to `put` with its
    place: the panel, the step along k, the lane. Neighbours in memory are read a line at a time."""
    e.fence.writes(e.b, array)
    held = op.results[0].type
    assert isinstance(held, Tile)
    w, (depth, side) = access.window(e, op), held.shape[::-1] if turned else held.shape
    lane = e.lane("across", e.grid.along("across", side).lanes, 1)
    panels = _Panels(e, w, turned, per, lane, put)
    run = LINE // held.elem.bytes

    def fill(steps: int, body: Callable[[Place], None]) -> None:
        with e.only(e.owner(natural(2), (steps, side))):
            e.walk(natural(2), (steps, side), body)

    plain = depth // per, panels.one(access.present)
    if turned and w.neighbours and depth % run == 0:
        plain = depth // run, panels.line(run)
    ragged = depth // per, panels.one(access.guarded)
    access.whole_or_ragged(e, w.whole(e.b), lambda: fill(*plain), lambda: fill(*ragged))


@dataclass(frozen=True, slots=True)
class _Panels:
    """Reads of a right operand through `w`, each by the thread of its column."""

    e: Emitter
    w: Window
    turned: bool
    per: int
    lane: Value
    put: Callable[[Sequence[Value], Value], None]

    def one(
        self, load: Callable[[Emitter, Window, Sequence[Value]], Value]
    ) -> Callable[[Place], None]:
        """Reads each step by itself."""
        e, per = self.e, self.per

        def fill(place: Place) -> None:
            step, column = place
            first = step.at if per == 1 else e.b.emit("mul", step.at, e.number(per))
            along = [e.b.emit("add", first, e.number(i)) if i else first for i in range(per)]
            parts = [load(e, self.w, self._view(column, k)) for k in along]
            self._give(column, step.at, e.packed(parts))

        return fill

    def line(self, run: int) -> Callable[[Place], None]:
        """Reads `run` elements of a column that are neighbours in memory."""
        e, per = self.e, self.per

        def fill(place: Place) -> None:
            step, column = place
            first = e.b.emit("mul", step.at, e.number(run))
            where = self.w.indices(e.b, self._view(column, first))
            parts = e.parts(e.b.emit("load", self.w.buffer, *where, attrs=(run,)), run)
            base = e.b.emit("mul", step.at, e.number(run // per))
            for i in range(run // per):
                at = e.b.emit("add", base, e.number(i))
                self._give(column, at, e.packed(parts[i * per : i * per + per]))

        return fill

    def _view(self, column: Spot, k: Value) -> list[Value]:
        at = [column.at, k] if self.turned else [k, column.at]
        return self.w.place(self.e.b, at)

    def _give(self, column: Spot, step: Value, part: Value) -> None:
        chunk = self.e.number(column.chunk) if isinstance(column.chunk, int) else column.chunk
        self.put([chunk, step, self.lane], part)
