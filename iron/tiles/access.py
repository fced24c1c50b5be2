"""Tile accesses: reads into registers, writes, gathers and scatters, arrays for thread code.

Elements outside of a view are never touched: a read of them is 0, a write does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iron.ir.core import Op, Value
from iron.ir.types import Tensor, Tile, element
from iron.tiles import compute
from iron.tiles.emitter import Emitter
from iron.tiles.storage import Place, Shared
from iron.tiles.window import Window

LINE = 64
"""Bytes of a cache line."""


def window(e: Emitter, op: Op) -> Window:
    """The window of an access, its integers in the index type."""
    held = op.args[0].type
    assert isinstance(held, Tensor)
    axes, steps = op.attr("axes"), op.attr("steps")
    rank, many = held.rank, len(axes)
    numbers = [*op.args[1 : 1 + rank], *op.args[1 + rank + many : 1 + rank + 2 * many]]
    made = [e.integer(v) for v in numbers]
    first, sides = (), ()
    if op.name in ("tile_read", "tile_write"):
        first = tuple(e.integer(v) for v in op.args[1 + rank : 1 + rank + many])
        sides = op.attr("shape")
    buffer = e.values[op.args[0]]
    bases, extent = tuple(made[:rank]), tuple(made[rank:])
    return Window(buffer, bases, axes, steps, extent, first, sides, e.index)


def neighbours(op: Op) -> bool:
    """Whether neighbours along the last axis of a read are neighbours in memory order."""
    held = op.args[0].type
    assert isinstance(held, Tensor)
    alone = not isinstance(op.attr("shape")[-1], tuple)
    return alone and op.attr("axes")[-1] == held.rank - 1 and op.attr("steps")[-1] == 1


def fenced(e: Emitter, op: Op) -> None:
    """Before an access that reads: what the group wrote to the buffer is there."""
    buffer = e.values[op.args[0]]
    if isinstance(buffer.type, Tensor) and buffer.type.space not in ("in", "table"):
        e.fence.reads(e.b, buffer)


def _overwrites(e: Emitter, op: Op) -> None:
    """Before an access that writes: nobody still reads what it replaces."""
    e.fence.writes(e.b, e.values[op.args[0]])


# --- reads ----------------------------------------------------------------------------------------


def loaded(e: Emitter, op: Op, place: Place) -> Value:
    """The chunk of a read at `place`, 0 where the view has no element."""
    e.follow(op)
    w = window(e, op)
    offsets, width = [s.at for s in place], place[-1].width
    view = w.place(e.b, offsets)
    if width == 1:
        return guarded(e, w, view)
    elem = element(op.results[0].type)

    def one_by_one() -> Value:
        at = [w.onward(e.b, offsets, view, i) for i in range(width)]
        return e.packed([guarded(e, w, v) for v in at])

    if not w.neighbours:
        return one_by_one()
    last = w.onward(e.b, offsets, view, width - 1)
    inside = e.b.emit("and", w.exists(e.b, view), w.exists(e.b, last))

    def at_once() -> list[Value]:
        return [e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(width,))]

    (out,) = e.branch(inside, at_once, lambda: [e.wide(one_by_one(), width)])
    assert element(out.type) is elem
    return out


def present(e: Emitter, w: Window, view: Sequence[Value]) -> Value:
    """The view's element `view`, which is there."""
    return e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(0,))


def guarded(e: Emitter, w: Window, view: Sequence[Value]) -> Value:
    """The view's element `view`, or 0 where there is none."""
    elem = element(w.buffer.type)
    inside = w.exists(e.b, view)
    (out,) = e.branch(
        inside,
        lambda: [e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(0,))],
        lambda: [e.zero(elem, 1)],
    )
    return out


def ask(e: Emitter, w: Window, at: Sequence[Value], count: int) -> None:
    """Asks for the lines of `count` neighbours in memory from `at` in the tile on, which need not
    exist."""
    per = LINE // element(w.buffer.type).bytes
    for i in sorted({*range(0, count, per), count - 1}):
        moved = e.b.emit("add", at[-1], e.number(i))
        where = w.indices(e.b, w.place(e.b, [*at[:-1], moved]))
        e.b.emit_all("prefetch", (w.buffer, *where))


def whole_or_ragged(
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
        if width == 1 or w.neighbours:
            view = w.place(e.b, [s.at for s in place])
            e.b.emit_all("store", (w.buffer, *w.indices(e.b, view), e.wide(held, width)))
            return
        for at, part in _elements(e, w, place, held):
            e.b.emit_all("store", (w.buffer, *w.indices(e.b, at), part))

    def ragged(place: Place) -> None:
        held = compute.chunk(e, value, place)
        e.follow(op)
        for at, part in _elements(e, w, place, held):
            with e.only(w.exists(e.b, at)):
                e.b.emit_all("store", (w.buffer, *w.indices(e.b, at), part))

    with e.only(e.owner(kinds, shape)):
        whole_or_ragged(
            e,
            w.whole(e.b),
            lambda: e.walk(kinds, shape, plain),
            lambda: e.walk(kinds, shape, ragged),
        )


def _elements(e: Emitter, w: Window, place: Place, held: Value) -> list[tuple[list[Value], Value]]:
    """The place in the view and the value of each element of a chunk."""
    offsets, width = [s.at for s in place], place[-1].width
    view = w.place(e.b, offsets)
    at = [w.onward(e.b, offsets, view, i) for i in range(width)]
    return list(zip(at, e.parts(held, width), strict=True))


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
