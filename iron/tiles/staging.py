"""Staging: tile reads that fill arrays of group memory, in the order that their readers like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from iron.dtypes import u32
from iron.ir.core import Op, Value
from iron.ir.types import Tile, element
from iron.tiles import access, columns, compute, share
from iron.tiles.emitter import Emitter
from iron.tiles.grid import Along
from iron.tiles.place import STAGED
from iron.tiles.rows import FLIPPED, movable, moved
from iron.tiles.storage import Shared
from iron.tiles.window import Window

WORD = 4
"""Bytes of a word of an operand."""
RUN = 4
"""Words that one access moves."""
PAD_WORDS = 4
"""Words after each row: eight rows then begin in different banks."""


Get = Callable[[list[Value]], Value]
"""Reads a word, or a run of words, at a row and a number."""


def read(e: Emitter, op: Op) -> None:
    """`tile_read`: staged, kept in registers, or left to its reader."""
    (value,) = op.results
    placed = e.plan.placed[value]
    if op in e.fetched:
        return  # it stands in group memory since the turn began
    if placed.where == STAGED and placed.role in ("b", "turned b") and e.micro is not None:
        columns.in_pairs(e, op, placed.turned)
    elif placed.where == STAGED and placed.role in ("b", "turned b") and e.grid.looped:
        columns.in_panels(e, op, placed.turned)
    elif movable(e, op):
        _stage_rows(e, op)
    elif placed.where == STAGED and placed.role and e.grid.multiplies and _narrow(value):
        _stage_words(e, op, lying(e, value))
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
    role = e.plan.placed[value].role.removeprefix("turned ")
    kept = e.staged(value, elem if e.micro is not None and role == "a" else e.wider(elem), turned)
    e.kept[value] = kept
    e.fence.writes(e.b, kept.array)
    w, shape = access.window(e, op), value.type.shape
    order = list(range(len(shape)))
    if not (turned and e.cpu):
        order.reverse()  # threads read neighbours; on a CPU they write neighbours
    lanes = share.shared_out(e, shape, order)

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
        w.whole(e.b),
        lambda: share.fill_shared(e, lanes, order, put(False)),
        lambda: share.fill_shared(e, lanes, order, put(True)),
    )


def _stage_rows(e: Emitter, op: Op) -> None:
    """Fills an array with the rows of the view, for products that load matrices."""
    e.follow(op)
    (value,) = op.results
    access.fenced(e, op)
    key = op.attr("site"), 0  # copies of a read, in loops one after the other, share the array
    if key not in e.slots:
        e.slots[key] = e.staged(value, element(value.type), turned=False).array
    kept = e.kept[value] = Shared(e.slots[key])
    e.fence.writes(e.b, kept.array)
    moved(e, op, kept)


def _narrow(value: Value) -> bool:
    return element(value.type).bytes < WORD


def _stage_words(e: Emitter, op: Op, role: str) -> None:
    """Fills an operand word by word; four words at once where its elements are neighbours."""
    e.follow(op)
    (value,) = op.results
    access.fenced(e, op)
    array = array_of_words(e, value, role)
    e.kept[value] = Shared(array, words=True)
    e.fence.writes(e.b, array)
    words = _Words(e, access.window(e, op), value, role)

    def fill(runs: bool, get: Get) -> None:
        lanes, order = words.shared_out(runs)
        share.fill_shared(e, lanes, order, lambda at: words.put(array, at, get(at), runs))

    whole = words.w.whole(e.b)
    access.whole_or_ragged(e, whole, lambda: fill(*words.inside()), lambda: fill(*words.edge()))


def lying(e: Emitter, value: Value) -> str:
    """The role by which an operand is laid out: opaque matrices are loaded as their views lie, as
    the rows of an `a` do."""
    return "a" if e.grid.opaque else e.plan.placed[value].role


def array_of_words(e: Emitter, value: Value, role: str) -> Value:
    """A new array for an operand of products: its rows of a or columns of b, by words along k."""
    depth, rows = _depth(value, role)
    shape = (rows, depth // (WORD // element(value.type).bytes) + PAD_WORDS)
    return e.array(u32, shape, value.name or "staged")


def _depth(value: Value, role: str) -> tuple[int, int]:
    """The sides of an operand: along k, and the other."""
    assert isinstance(value.type, Tile)
    shape = value.type.shape
    depth, rows = shape if role in FLIPPED else shape[::-1]
    return depth, rows


def words_of_a_thread(e: Emitter, value: Value, role: str, neighbours: bool) -> int:
    """Words of an operand that each thread fills; 0 when not all fill as many."""
    depth, rows = _depth(value, role)
    many = depth // (WORD // element(value.type).bytes)
    runs = bool(e.grid.opaque) or (neighbours and role not in FLIPPED)
    lanes = share.shared_out(e, (rows, many // RUN if runs else many), _order(role))
    if prod(a.lanes for a in lanes) != e.grid.threads:
        return 0
    return prod(a.count for a in lanes) * (RUN if runs else 1)


def fetched(e: Emitter, op: Op, role: str) -> list[Value]:
    """What this thread fills of an operand, read but not yet written to group memory; zeros where
    the view ends inside the tile."""
    e.follow(op)
    words = _Words(e, access.window(e, op), op.results[0], role)
    by_runs, get = words.inside()
    lanes, order = words.shared_out(by_runs)
    places = share.places(e, lanes, order)
    nothing = e.zero(u32, RUN if by_runs else 1)
    whole = words.w.whole(e.b)
    return list(
        e.branch(whole, lambda: [get(at) for at in places], lambda: [nothing] * len(places))
    )


def put_words(e: Emitter, op: Op, role: str, array: Value, values: list[Value]) -> list[Value]:
    """Writes what `fetched` read, the first of `values`, and gives the rest; a tile at an edge is
    read here."""
    e.follow(op)
    words = _Words(e, access.window(e, op), op.results[0], role)
    runs, _ = words.inside()
    lanes, order = words.shared_out(runs)
    places = share.places(e, lanes, order)

    def kept() -> None:
        for at, held in zip(places, values, strict=False):
            words.put(array, at, held, runs)

    def edge() -> None:
        by_runs, get = words.edge()
        shared, _ = words.shared_out(by_runs)
        share.fill_shared(e, shared, order, lambda at: words.put(array, at, get(at), by_runs))

    access.whole_or_ragged(e, words.w.whole(e.b), kept, edge)
    return values[len(places) :]


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of one operand, at (row, word) or (row, run of words), from the view `w`."""

    e: Emitter
    w: Window
    value: Value
    role: str

    @property
    def sides(self) -> tuple[int, int]:
        """Words along k, and the other side."""
        depth, rows = _depth(self.value, self.role)
        return depth // self.per_word, rows

    @property
    def per_word(self) -> int:
        return WORD // element(self.value.type).bytes

    @property
    def runs(self) -> bool:
        """Whether the elements of a run are neighbours in memory."""
        return self.w.neighbours and self.role not in FLIPPED

    def shared_out(self, runs: bool) -> tuple[list[Along], list[int]]:
        """How the threads share the words."""
        many, rows = self.sides
        order = _order(self.role)
        return share.shared_out(self.e, (rows, many // RUN if runs else many), order), order

    def view(self, row: Value, k: Value) -> list[Value]:
        at = [k, row] if self.role in FLIPPED else [row, k]
        return self.w.place(self.e.b, at)

    def run(self, at: list[Value]) -> Value:
        """`RUN` words by one access, of elements that are there."""
        b, (row, number) = self.e.b, at
        count = self.per_word * RUN
        first = b.emit("mul", number, self.e.number(count))
        indices = self.w.indices(b, self.view(row, first))
        return b.emit(
            "bitcast", b.emit("load", self.w.buffer, *indices, attrs=(count,)), attrs=(u32,)
        )

    def inside(self) -> tuple[bool, Get]:
        """Whether a tile that is all there is moved by runs, and what reads one, or one word.

        Opaque matrices like arrays that are written by runs alone.
        """
        if self.runs:
            return True, self.run
        return (True, self._joined(self.plain)) if self.e.grid.opaque else (False, self.plain)

    def edge(self) -> tuple[bool, Get]:
        """The same for a tile at an edge."""
        return (True, self._joined(self.guarded)) if self.e.grid.opaque else (False, self.guarded)

    def _joined(self, get: Get) -> Get:
        """`RUN` words one by one, side by side."""

        def run(at: list[Value]) -> Value:
            e, (row, number) = self.e, at
            first = e.b.emit("mul", number, e.number(RUN))
            words = [[row, e.b.emit("add", first, e.number(i))] for i in range(RUN)]
            return e.packed([get(word) for word in words])

        return run

    def plain(self, at: list[Value]) -> Value:
        """One word of elements that are there."""
        return self._word(at, access.present)

    def guarded(self, at: list[Value]) -> Value:
        """One word, 0 where there is no element."""
        return self._word(at, access.guarded)

    def put(self, array: Value, at: list[Value], held: Value, runs: bool) -> None:
        """Writes a word or a run of words."""
        row, number = at
        word = self.e.b.emit("mul", number, self.e.number(RUN)) if runs else number
        self.e.b.emit_all("store", (array, row, word, held))

    def _word(
        self, at: list[Value], load: Callable[[Emitter, Window, Sequence[Value]], Value]
    ) -> Value:
        e, (row, number) = self.e, at
        first = e.b.emit("mul", number, e.number(self.per_word))
        along = [e.b.emit("add", first, e.number(i)) for i in range(self.per_word)]
        return e.bits(e.packed([load(e, self.w, self.view(row, k)) for k in along]))


def _order(role: str) -> list[int]:
    """Threads side by side read neighbours."""
    return [0, 1] if role in FLIPPED else [1, 0]
