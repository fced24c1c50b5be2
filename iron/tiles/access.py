"""Tile accesses: reads into registers or group memory, writes, gathers and scatters, staging.

Elements outside of a view are never touched: a read of them is 0, a write does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iron.ir.core import Op, Value
from iron.ir.types import Tensor, Tile, element
from iron.tiles import compute
from iron.tiles.emitter import Emitter
from iron.tiles.grid import Along, natural
from iron.tiles.place import STAGED
from iron.tiles.storage import Place, Shared
from iron.tiles.window import Window


def window(e: Emitter, op: Op) -> Window:
    """The window of an access, its integers in the index type."""
    held = op.args[0].type
    assert isinstance(held, Tensor)
    axes, steps = op.attr("axes"), op.attr("steps")
    rank, many = held.rank, len(axes)
    numbers = [*op.args[1 : 1 + rank], *op.args[1 + rank + many : 1 + rank + 2 * many]]
    made = [e.integer(v) for v in numbers]
    first = ()
    if op.name in ("tile_read", "tile_write"):
        first = tuple(e.integer(v) for v in op.args[1 + rank : 1 + rank + many])
    buffer = e.values[op.args[0]]
    bases, extent = tuple(made[:rank]), tuple(made[rank:])
    return Window(buffer, bases, axes, steps, extent, first, e.index)


def fenced(e: Emitter, op: Op) -> None:
    """Before an access that reads: what the group wrote to the buffer is there."""
    buffer = e.values[op.args[0]]
    if isinstance(buffer.type, Tensor) and buffer.type.space not in ("in", "table"):
        e.fence.reads(e.b, buffer)


def _overwrites(e: Emitter, op: Op) -> None:
    """Before an access that writes: nobody still reads what it replaces."""
    e.fence.writes(e.b, e.values[op.args[0]])


# --- reads ----------------------------------------------------------------------------------------


def read(e: Emitter, op: Op) -> None:
    """`tile_read`: staged, kept in registers, or left to its reader."""
    (value,) = op.results
    placed = e.plan.placed[value]
    if placed.where == STAGED and placed.right and e.grid.looped:
        _stage_panels(e, op, placed.turned)
    elif placed.where == STAGED:
        _stage_read(e, op, placed.turned)
    else:
        compute.computed(e, op)


def loaded(e: Emitter, op: Op, place: Place) -> Value:
    """The chunk of a read at `place`, 0 where the view has no element."""
    e.follow(op)
    w = window(e, op)
    view = w.place(e.b, [s.at for s in place])
    width = place[-1].width
    if width == 1:
        return _guarded(e, w, view)
    last = [*view[:-1], e.b.emit("add", view[-1], e.number(width - 1))]
    elem = element(op.results[0].type)

    def one_by_one() -> Value:
        at = [[*view[:-1], e.b.emit("add", view[-1], e.number(i))] for i in range(width)]
        return e.packed([_guarded(e, w, v) for v in at])

    if not w.neighbours:
        return one_by_one()
    inside = e.b.emit("and", w.exists(e.b, view), w.exists(e.b, last))

    def at_once() -> list[Value]:
        return [e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(width,))]

    (out,) = e.branch(inside, at_once, lambda: [e.wide(one_by_one(), width)])
    assert element(out.type) is elem
    return out


def _guarded(e: Emitter, w: Window, view: Sequence[Value]) -> Value:
    elem = element(w.buffer.type)
    inside = w.exists(e.b, view)
    (out,) = e.branch(
        inside,
        lambda: [e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(0,))],
        lambda: [e.zero(elem, 1)],
    )
    return out


def _stage_read(e: Emitter, op: Op, turned: bool) -> None:
    """Fills an array of group memory, all threads together."""
    e.follow(op)
    (value,) = op.results
    assert isinstance(value.type, Tile)
    fenced(e, op)
    elem = value.type.elem
    kept = e.staged(value, e.wider(elem), turned)
    e.kept[value] = kept
    e.fence.writes(e.b, kept.array)
    w, shape = window(e, op), value.type.shape
    order = list(range(len(shape)))
    if not (turned and e.cpu):
        order.reverse()  # threads read neighbours; on a CPU they write neighbours
    lanes = _fill_lanes(e, shape, order)

    def put(guard: bool) -> Callable[[list[Value]], None]:
        def one(at: list[Value]) -> None:
            view = w.place(e.b, at)
            if guard:
                held = _guarded(e, w, view)
            else:
                held = e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(0,))
            e.put(kept, at, held)

        return one

    _whole_or_ragged(
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
    fenced(e, op)
    kept = e.panels(value, e.wider(value.type.elem), turned)
    e.kept[value] = kept
    e.fence.writes(e.b, kept.array)
    w, shape = window(e, op), value.type.shape
    kinds, sides = natural(2), shape[::-1] if turned else shape
    lanes = e.grid.along("across", sides[1]).lanes

    def put(guard: bool) -> Callable[[Place], None]:
        def one(place: Place) -> None:
            k, column = place
            view = w.place(e.b, [column.at, k.at] if turned else [k.at, column.at])
            if guard:
                held = _guarded(e, w, view)
            else:
                held = e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(0,))
            chunk = e.number(column.chunk) if isinstance(column.chunk, int) else column.chunk
            lane = e.lane("across", lanes, 1)
            e.put(Shared(kept.array), [chunk, k.at, lane], held)

        return one

    with e.only(e.owner(kinds, sides)):
        _whole_or_ragged(
            e,
            w.whole(e.b, shape),
            lambda: e.walk(kinds, sides, put(False)),
            lambda: e.walk(kinds, sides, put(True)),
        )


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


def _whole_or_ragged(
    e: Emitter, whole: Value, plain: Callable[[], None], ragged: Callable[[], None]
) -> None:
    """One of two forms of a walk, by a condition that is equal in the whole group."""

    def side(run: Callable[[], None]) -> Callable[[], list[Value]]:
        def made() -> list[Value]:
            run()
            return []

        return made

    e.branch(whole, side(plain), side(ragged))


# --- writes ---------------------------------------------------------------------------------------


def write(e: Emitter, op: Op) -> None:
    """`tile_write`: each thread writes what it holds of the tile."""
    value = op.args[-1]
    assert isinstance(value.type, Tile)
    kinds, shape = e.plan.kinds[value], value.type.shape
    compute.ready(e, value, kinds)
    e.follow(op)
    _overwrites(e, op)
    w = window(e, op)

    def plain(place: Place) -> None:
        held, width = compute.chunk(e, value, place), place[-1].width
        e.follow(op)
        view = w.place(e.b, [s.at for s in place])
        if width == 1 or w.neighbours:
            e.b.emit_all("store", (w.buffer, *w.indices(e.b, view), e.wide(held, width)))
            return
        for at, part in _elements(e, view, held, width):
            e.b.emit_all("store", (w.buffer, *w.indices(e.b, at), part))

    def ragged(place: Place) -> None:
        held, width = compute.chunk(e, value, place), place[-1].width
        e.follow(op)
        view = w.place(e.b, [s.at for s in place])
        for at, part in _elements(e, view, held, width):
            with e.only(w.exists(e.b, at)):
                e.b.emit_all("store", (w.buffer, *w.indices(e.b, at), part))

    with e.only(e.owner(kinds, shape)):
        _whole_or_ragged(
            e,
            w.whole(e.b, shape),
            lambda: e.walk(kinds, shape, plain),
            lambda: e.walk(kinds, shape, ragged),
        )


def _elements(
    e: Emitter, view: Sequence[Value], held: Value, width: int
) -> list[tuple[list[Value], Value]]:
    """The place in the view and the value of each element of a chunk."""
    parts = e.parts(held, width)
    at = [[*view[:-1], e.b.emit("add", view[-1], e.number(i))] for i in range(width)]
    return list(zip(at, parts, strict=True))


def stage(e: Emitter, op: Op) -> None:
    """`tile_stage`: the tile in an array that thread code indexes, with a barrier at both ends."""
    (value,) = op.args
    (result,) = op.results
    assert isinstance(result.type, Tensor)
    e.follow(op)
    array = e.array(result.type.elem, result.type.shape, result.name or "staged")
    e.values[result] = array
    e.fence.barrier(e.b)
    compute.write_all(e, value, Shared(array))
    e.fence.barrier(e.b)


# --- gathers and scatters -------------------------------------------------------------------------


def gather(e: Emitter, op: Op) -> None:
    """`tile_gather`: kept in registers, for memory may change before it is read."""
    fenced(e, op)
    for operand in _indices(op):
        if isinstance(operand.type, Tile):
            compute.ready(e, operand, e.plan.kinds[op.results[0]])
    compute.keep(e, op.results[0])


def gathered(e: Emitter, op: Op, place: Place) -> Value:
    """The chunk of a gather at `place`."""
    w = window(e, op)
    out: list[Value] = []
    for view, keep in _chosen(e, op, place):
        e.follow(op)
        inside = e.b.emit("and", keep, w.exists(e.b, view))
        (one,) = e.branch(
            inside,
            lambda view=view: [e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(0,))],
            lambda: [e.zero(element(op.results[0].type), 1)],
        )
        out.append(one)
    return e.packed(out)


def scatter(e: Emitter, op: Op) -> None:
    """`tile_scatter`: each thread writes the elements that it holds and that are kept."""
    value = op.args[-1]
    assert isinstance(value.type, Tile)
    kinds, shape = e.plan.kinds[value], value.type.shape
    for operand in (*_indices(op), value):
        if isinstance(operand.type, Tile):
            compute.ready(e, operand, kinds)
    e.follow(op)
    _overwrites(e, op)
    w = window(e, op)

    def put(place: Place) -> None:
        parts = e.parts(compute.chunk(e, value, place), place[-1].width)
        for (view, keep), part in zip(_chosen(e, op, place), parts, strict=True):
            e.follow(op)
            with e.only(e.b.emit("and", keep, w.exists(e.b, view))):
                e.b.emit_all("store", (w.buffer, *w.indices(e.b, view), part))

    with e.only(e.owner(kinds, shape)):
        e.walk(kinds, shape, put)


def _indices(op: Op) -> list[Value]:
    """The indices of a gather or scatter, then `keep`."""
    held = op.args[0].type
    assert isinstance(held, Tensor)
    many = len(op.attr("axes"))
    keep = 1 + held.rank + 2 * many
    return [*op.args[1 + held.rank : 1 + held.rank + many], op.args[keep]]


def _chosen(e: Emitter, op: Op, place: Place) -> list[tuple[list[Value], Value]]:
    """For each element of a chunk its place in the view, and whether it is kept."""
    width = place[-1].width
    columns: list[list[Value]] = []
    for operand in _indices(op):
        if isinstance(operand.type, Tile):
            held = compute.chunk(e, operand, place)
            columns.append(e.parts(held, width))
        else:
            columns.append([e.values[operand]] * width)
    rows = [list(r) for r in zip(*columns, strict=True)]
    return [([e.indexed(i) for i in r[:-1]], r[-1]) for r in rows]
