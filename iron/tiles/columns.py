"""Right operands on a CPU: panels of the columns that the lanes of a simdgroup hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from iron.dtypes import u32
from iron.ir.core import Op, Value
from iron.ir.types import Tensor, Tile, element
from iron.tiles import access
from iron.tiles.emitter import Emitter
from iron.tiles.grid import natural
from iron.tiles.storage import Place, Shared, Spot
from iron.tiles.window import Coming, Window


def in_panels(e: Emitter, op: Op, turned: bool) -> None:
    """Fills the panels of a right operand, each thread its own columns; those of one that a single
    product reads when they are due."""
    e.follow(op)
    (value,) = op.results
    access.fenced(e, op)
    elem = e.wider(element(value.type))
    if comes(e, op):
        assert isinstance(value.type, Tile)
        e.kept[value] = kept = e.panels(value, elem, turned, 2)
        depth, side = value.type.shape[::-1] if turned else value.type.shape
        e.coming[value] = Coming(access.window(e, op), kept.array, turned, depth, side)
        return
    e.kept[value] = kept = e.panels(value, elem, turned)

    def put(at: Sequence[Value], held: Value) -> None:
        e.put(Shared(kept.array), at, held)

    _fill_panels(e, op, kept.array, turned, 1, put)


def comes(e: Emitter, read: Op) -> bool:
    """Whether a right operand is filled panel by panel: nobody writes to what it is read from, its
    one reader is a product of its block, and each lane reads what itself has filled."""
    joined = any(isinstance(side, tuple) for side in read.attr("shape"))
    role = e.plan.placed[read.results[0]].role
    if e.micro is not None or joined or role not in ("b", "turned b"):
        return False
    held, value = read.args[0].type, read.results[0]
    assert isinstance(value.type, Tile)
    side = value.type.shape[0 if role.startswith("turned") else 1]
    if e.grid.along("across", side).lanes < e.grid.threads:
        return False
    block, reader = e.plan.block[value], read
    while reader.name in ("tile_read", "tile_transpose"):
        (value,) = reader.results
        following = [op for op in block.ops if value in op.args]
        if e.plan.uses[value] != 1 or not following:
            return False
        (reader,) = following
    return isinstance(held, Tensor) and held.space == "in"


def first(e: Emitter, value: Value) -> Coming | None:
    """Fills the first panel of an operand that comes panel by panel."""
    coming = e.coming.pop(value, None)
    if coming is not None:
        fill(e, coming, e.number(0))
    return coming


def due(e: Emitter, coming: Coming, kept: Shared, panel: Value, part: tuple[Value, int]) -> Shared:
    """The operand at one panel; the share `part` of so many of the next is filled, if there is."""
    count = e.grid.along("across", coming.side).count
    if count > 1:
        following = e.b.emit("add", panel, e.number(1))
        with e.only(e.b.emit("lt", following, e.number(count))):
            fill(e, coming, following, part)
    return replace(kept, slot=slot(e, coming, panel))


def fill(e: Emitter, coming: Coming, panel: Value, part: tuple[Value, int] | None = None) -> None:
    """Fills a panel; or the share `part` of so many, and asks for the share after it."""
    turned, depth, w = coming.turned, coming.depth, _of_panel(e, coming, panel)
    lanes = e.grid.along("across", coming.side).lanes
    lane = e.lane("across", lanes, 1)
    array = slot(e, coming, panel)
    column = Spot("across", lanes, 0, lane, 1)

    def put(at: Sequence[Value], held: Value) -> None:
        e.put(Shared(coming.array), [array, *at[1:]], held)

    panels = _Panels(e, w, turned, 1, lane, put)

    def shared(steps: int, body: Callable[[Place], None]) -> None:
        def one(step: Value) -> None:
            body((Spot("down", steps, step, step, 1), column))

        with e.only(e.owner(natural(2), (steps, lanes))):
            _share(e, steps, part, one)

    plain, ragged = panels.forms(depth), (depth, panels.one(access.guarded))
    access.whole_or_ragged(e, w.whole(e.b), lambda: shared(*plain), lambda: shared(*ragged))
    if part is not None and w.neighbours:
        number, parts = e.b.emit("add", part[0], e.number(1)), e.number(part[1])
        later = e.b.emit("add", panel, e.b.emit("floordiv", number, parts))
        w, after = _of_panel(e, coming, later), (e.b.emit("mod", number, parts), part[1])
        _share(e, plain[0], after, lambda step: _ask(e, w, turned, depth // plain[0], step))


def _of_panel(e: Emitter, coming: Coming, panel: Value) -> Window:
    """The window of one panel."""
    w, lanes = coming.window, e.grid.along("across", coming.side).lanes
    first = e.b.emit("mul", panel, e.number(lanes))
    corner = [first, e.number(0)] if coming.turned else [e.number(0), first]
    sides = (lanes, coming.depth) if coming.turned else (coming.depth, lanes)
    return replace(w, first=tuple(w.place(e.b, corner)), sides=sides)


def _ask(e: Emitter, w: Window, turned: bool, run: int, step: Value) -> None:
    """Asks for what one step of filling a panel reads."""
    lanes = w.sides[0 if turned else 1]
    assert isinstance(lanes, int)
    if not turned:
        access.ask(e, w, [step, e.number(0)], lanes)
        return
    with e.loop(lanes) as lane:
        access.ask(e, w, [lane, e.b.emit("mul", step, e.number(run))], run)


def slot(e: Emitter, coming: Coming, panel: Value) -> Value:
    """Where in its array a panel lies."""
    held = coming.array.type
    assert isinstance(held, Tensor)
    return e.b.emit("mod", panel, e.number(held.shape[0]))


def _share(
    e: Emitter, steps: int, part: tuple[Value, int] | None, body: Callable[[Value], None]
) -> None:
    """Runs a number of steps, or one of so many shares of them."""
    if part is None:
        with e.loop(steps) as step:
            body(step)
        return
    number, parts = part
    if steps < parts:
        by = parts // steps
        step = e.b.emit("floordiv", number, e.number(by))
        due = e.b.emit("eq", e.b.emit("mod", number, e.number(by)), e.number(0))
        if parts % steps:
            due = e.b.emit("and", due, e.b.emit("lt", step, e.number(steps)))
        with e.only(due if by > 1 or parts % steps else None):
            body(step)
        return
    many = -(-steps // parts)
    first = e.b.emit("mul", number, e.number(many))
    with e.loop(many) as i:
        step = e.b.emit("add", first, i)
        with e.only(e.b.emit("lt", step, e.number(steps)) if steps % parts else None):
            body(step)


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

    def filled(steps: int, body: Callable[[Place], None]) -> None:
        with e.only(e.owner(natural(2), (steps, side))):
            e.walk(natural(2), (steps, side), body)

    plain, ragged = panels.forms(depth), (depth // per, panels.one(access.guarded))
    access.whole_or_ragged(e, w.whole(e.b), lambda: filled(*plain), lambda: filled(*ragged))


@dataclass(frozen=True, slots=True)
class _Panels:
    """Reads of a right operand through `w`, each by the thread of its column."""

    e: Emitter
    w: Window
    turned: bool
    per: int
    lane: Value
    put: Callable[[Sequence[Value], Value], None]

    def forms(self, depth: int) -> tuple[int, Callable[[Place], None]]:
        """The steps of a walk over what is all there, and what reads one: neighbours in memory a
        line at a time."""
        held = self.w.buffer.type
        assert isinstance(held, Tensor)
        run = access.LINE // held.elem.bytes
        if self.turned and self.w.neighbours and depth % run == 0:
            return depth // run, self.line(run)
        return depth // self.per, self.one(access.present)

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
