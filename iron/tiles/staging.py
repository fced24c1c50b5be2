"""Staging: tile reads that fill arrays of group memory, in the order that their readers like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iron.dtypes import u32
from iron.ir.core import Op, Value
from iron.ir.types import Tile, element
from iron.tiles import access, compute
from iron.tiles.emitter import Emitter
from iron.tiles.grid import Along, natural
from iron.tiles.place import STAGED
from iron.tiles.storage import Place, Shared
from iron.tiles.window import Window

WORD = 4
"""Bytes of a word of an operand."""
RUN = 4
"""Words that one access moves."""
PAD_WORDS = 4
"""Words after each row: eight rows then begin in different banks."""


def read(e: Emitter, op: Op) -> None:
    """`tile_read`: staged, kept in registers, or left to its reader."""
    (value,) = op.results
    placed = e.plan.placed[value]
    if placed.where == STAGED and placed.role in ("b", "turned b") and e.grid.looped:
        _stage_panels(e, op, placed.turned)
    elif placed.where == STAGED and placed.role and e.grid.matrix is not None and _narrow(value):
        _stage_words(e, op, placed.role)
    elif placed.where == STAGED:
        _stage_read(e, op, placed.turned)
    else:
        compute.computed(e, op)


def _stage_read(e: Emitter, op: Op, turned: bool) -> None:
    """Fills an array of group memory, all threads together."""
    e.follow(op)
    (value,) = op.results
    assert isinstance(value.type, Tile)
    access.fenced(e, op)
    elem = value.type.elem
    kept = e.staged(value, e.wider(elem), turned)
    e.kept[value] = kept
    e.fence.writes(e.b, kept.array)
    w, shape = access.window(e, op), value.type.shape
    order = list(range(len(shape)))
    if not (turned and e.cpu):
        order.reverse()  # threads read neighbours; on a CPU they write neighbours
    lanes = _fill_lanes(e, shape, order)

    def put(guard: bool) -> Callable[[list[Value]], None]:
        def one(at: list[Value]) -> None:
            view = w.place(e.b, at)
            if guard:
                held = access.guarded(e, w, view)
            else:
                held = e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(0,))
            e.put(kept, at, held)

        return one

    access.whole_or_ragged(
        e,
        w.whole(e.b, shape),
        lambda: _fill(e, lanes, order, put(False)),
        lambda: _fill(e, lanes, order, put(True)),
    )


def _stage_panels(e: Emitter, op: Op, turned: bool) -> None:
    """Fills the panels of a right operand, each thread its own columns."""
    e.follow(op)
    (value,) = op.results
    assert isinstance(value.type, Tile)
    access.fenced(e, op)
    kept = e.panels(value, e.wider(value.type.elem), turned)
    e.kept[value] = kept
    e.fence.writes(e.b, kept.array)
    w, shape = access.window(e, op), value.type.shape
    kinds, sides = natural(2), shape[::-1] if turned else shape
    lanes = e.grid.along("across", sides[1]).lanes

    def put(guard: bool) -> Callable[[Place], None]:
        def one(place: Place) -> None:
            k, column = place
            view = w.place(e.b, [column.at, k.at] if turned else [k.at, column.at])
            if guard:
                held = access.guarded(e, w, view)
            else:
                held = e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(0,))
            chunk = e.number(column.chunk) if isinstance(column.chunk, int) else column.chunk
            lane = e.lane("across", lanes, 1)
            e.put(Shared(kept.array), [chunk, k.at, lane], held)

        return one

    with e.only(e.owner(kinds, sides)):
        access.whole_or_ragged(
            e,
            w.whole(e.b, shape),
            lambda: e.walk(kinds, sides, put(False)),
            lambda: e.walk(kinds, sides, put(True)),
        )


def _narrow(value: Value) -> bool:
    return element(value.type).bytes < WORD


def _stage_words(e: Emitter, op: Op, role: str) -> None:
    """Fills an operand word by word; four words at once where its elements are neighbours."""
    e.follow(op)
    (value,) = op.results
    assert isinstance(value.type, Tile)
    access.fenced(e, op)
    flipped = role in ("turned a", "b")  # k is the view's first axis
    shape, per_word = value.type.shape, WORD // value.type.elem.bytes
    depth, rows = shape if flipped else shape[::-1]
    count = depth // per_word
    array = e.array(u32, (rows, count + PAD_WORDS), value.name or "staged")
    e.kept[value] = Shared(array, words=True)
    e.fence.writes(e.b, array)
    w = access.window(e, op)
    words = _Words(e, w, array, flipped, per_word)

    def fill(many: int, put: Callable[[list[Value]], None]) -> None:
        order = [0, 1] if flipped else [1, 0]  # threads side by side read neighbours
        _fill(e, _fill_lanes(e, (rows, many), order), order, put)

    def whole() -> None:
        if w.neighbours and not flipped:
            fill(count // RUN, words.run)
        else:
            fill(count, words.plain)

    access.whole_or_ragged(e, w.whole(e.b, shape), whole, lambda: fill(count, words.guarded))


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of one operand: (row, word) of `array` from the view `w`."""

    e: Emitter
    w: Window
    array: Value
    flipped: bool
    per_word: int

    def view(self, row: Value, k: Value) -> list[Value]:
        return self.w.place(self.e.b, [k, row] if self.flipped else [row, k])

    def run(self, at: list[Value]) -> None:
        """`RUN` words by one access, of elements that are there."""
        b, (row, number) = self.e.b, at
        count = self.per_word * RUN
        first = b.emit("mul", number, self.e.number(count))
        held = b.emit(
            "load", self.w.buffer, *self.w.indices(b, self.view(row, first)), attrs=(count,)
        )
        word = b.emit("mul", number, self.e.number(RUN))
        b.emit_all("store", (self.array, row, word, b.emit("bitcast", held, attrs=(u32,))))

    def plain(self, at: list[Value]) -> None:
        """One word of elements that are there."""
        self._put(at, _loaded)

    def guarded(self, at: list[Value]) -> None:
        """One word, 0 where there is no element."""
        self._put(at, access.guarded)

    def _put(
        self, at: list[Value], load: Callable[[Emitter, Window, Sequence[Value]], Value]
    ) -> None:
        e, (row, number) = self.e, at
        first = e.b.emit("mul", number, e.number(self.per_word))
        along = [e.b.emit("add", first, e.number(i)) for i in range(self.per_word)]
        parts = [load(e, self.w, self.view(row, k)) for k in along]
        e.b.emit_all("store", (self.array, row, number, e.bits(e.packed(parts))))


def _loaded(e: Emitter, w: Window, view: Sequence[Value]) -> Value:
    return e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(0,))


def _fill_lanes(e: Emitter, shape: Sequence[int], order: Sequence[int]) -> list[Along]:
    """How the threads of the group share the elements of an array that they fill together:
    neighbouring threads along the first axis of `order`."""
    left, out = e.grid.threads, [Along(s, 1, 1, s) for s in shape]
    for axis in order:
        size = shape[axis]
        lanes = min(left, size & -size)
        out[axis] = Along(size, 1, lanes, size // lanes)
        left //= lanes
    return out


def _fill(
    e: Emitter,
    lanes: Sequence[Along],
    order: Sequence[int],
    one: Callable[[list[Value]], None],
) -> None:
    """Loops over the elements of this thread; `one` gets the coordinates of each."""
    b, below = e.b, 1
    thread, mine = b.emit("thread", attrs=(e.index,)), [e.number(0)] * len(lanes)
    for axis in order:
        count = lanes[axis].lanes
        if count == 1:
            continue
        share = thread if below == 1 else b.emit("floordiv", thread, e.number(below))
        whole = below * count == e.grid.threads
        mine[axis] = share if whole else b.emit("mod", share, e.number(count))
        below *= count
    spare = None if below == e.grid.threads else b.emit("lt", thread, e.number(below))
    with e.only(spare):
        _fill_loops(e, lanes, mine, [], one)


def _fill_loops(
    e: Emitter,
    lanes: Sequence[Along],
    mine: Sequence[Value],
    done: list[Value],
    one: Callable[[list[Value]], None],
) -> None:
    if len(done) == len(lanes):
        one(done)
        return
    a, own = lanes[len(done)], mine[len(done)]
    if a.count == 1:
        _fill_loops(e, lanes, mine, [*done, own], one)
        return
    with e.loop(a.count) as i:
        at = e.b.emit("add", e.b.emit("mul", i, e.number(a.lanes)), own)
        _fill_loops(e, lanes, mine, [*done, at], one)
