"""Tile values chunk by chunk: rebuilt where they are read, kept where the plan says so."""

from __future__ import annotations

from iron.ir.core import Op, Value
from iron.ir.table import Trait
from iron.ir.types import Tile, Vector
from iron.tiles import access
from iron.tiles.emitter import Emitter, named
from iron.tiles.grid import Kinds
from iron.tiles.place import FRAGMENT
from iron.tiles.storage import Place, Private, Registers, Shared, Spot


def chunk(e: Emitter, value: Value, place: Place) -> Value:
    """The chunk of a tile value at `place`, whose operands `ready` has seen to.

    A chunk that is the same along the last axis may come as a scalar.
    """
    kept = e.kept.get(value)
    if isinstance(kept, Registers | Private):
        if kept.kinds == tuple(s.kind for s in place):
            return e.load(kept, place)
        kept = copied(e, value)
    if kept is not None:
        assert isinstance(kept, Shared)
        return e.load(kept, place)
    assert value.op is not None
    return _rebuilt(e, value.op, place)


def _rebuilt(e: Emitter, op: Op, place: Place) -> Value:
    if op.name == "tile_full":
        return e.values[op.args[0]]
    if op.name == "tile_iota":
        return _counter(e, op, place[0])
    if op.name == "tile_expand":
        axis = op.attr("axis")
        return chunk(e, op.args[0], (*place[:axis], *place[axis + 1 :]))
    if op.name == "tile_broadcast":
        return chunk(e, op.args[0], _narrowed(e, op.args[0], place))
    if op.name == "tile_read":
        return access.loaded(e, op, place)
    if op.name == "tile_gather":
        return access.gathered(e, op, place)
    if op.name == "tile_transpose":
        return e.load(copied(e, op.args[0]).transpose(), place)
    return _elementwise(e, op, place)


def _counter(e: Emitter, op: Op, spot: Spot) -> Value:
    b, dtype = e.b, op.attr("dtype")
    at = b.emit("cast", spot.at, attrs=(dtype,))
    if spot.width == 1:
        return at
    steps = b.emit("pack", *(b.const(i, dtype) for i in range(spot.width)))
    return b.emit("add", e.wide(at, spot.width), steps)


def _narrowed(e: Emitter, value: Value, place: Place) -> Place:
    """The place in a tile that is repeated: element 0 along its axes of size 1."""
    assert isinstance(value.type, Tile)
    return tuple(
        s if size == s.size else Spot(s.kind, 1, 0, e.number(0), 1)
        for s, size in zip(place, value.type.shape, strict=True)
    )


def _elementwise(e: Emitter, op: Op, place: Place) -> Value:
    (value,) = op.results
    if e.plan.uses[value] > 1:
        known = e.b.memo.get((value, place))
        if known is None:
            known = e.b.memo[value, place] = (_combined(e, op, place),)
        return known[0]
    return _combined(e, op, place)


def _combined(e: Emitter, op: Op, place: Place) -> Value:
    args = [chunk(e, a, place) for a in op.args]
    e.follow(op)
    width = max((a.type.count for a in args if isinstance(a.type, Vector)), default=1)
    return e.b.emit(op.name, *(e.wide(a, width) for a in args), attrs=op.attrs)


# --- before a walk --------------------------------------------------------------------------------


def ready(e: Emitter, value: Value, kinds: Kinds) -> None:
    """Makes every copy in group memory that `chunk` of `value` at places of `kinds` will read."""
    op, kept = value.op, e.kept.get(value)
    if kept is not None:
        if isinstance(kept, Shared):
            e.fence.reads(e.b, kept.array)
        elif isinstance(kept, Registers | Private) and kept.kinds != kinds:
            e.fence.reads(e.b, copied(e, value).array)
        return
    assert op is not None
    if op.name == "tile_transpose":
        e.fence.reads(e.b, copied(e, op.args[0]).array)
    elif op.name == "tile_read":
        access.fenced(e, op)
    elif op.name == "tile_expand":
        axis = op.attr("axis")
        ready(e, op.args[0], (*kinds[:axis], *kinds[axis + 1 :]))
    elif op.row.has(Trait.ELEMENTWISE) or op.name in ("bitcast", "tile_broadcast"):
        for a in op.args:
            ready(e, a, kinds)


def copied(e: Emitter, value: Value) -> Shared:
    """The tile in group memory: where it is staged, or a copy made now."""
    kept = e.kept.get(value)
    if isinstance(kept, Shared):
        return kept
    for known in reversed(e.turned):
        if value in known:
            return known[value]
    assert isinstance(value.type, Tile)
    new = e.staged(value, value.type.elem, turned=False)
    write_all(e, value, new)
    e.turned[-1][value] = new
    return new


def write_all(e: Emitter, value: Value, into: Shared) -> None:
    """Every thread writes the elements it holds into a staged array."""
    assert isinstance(value.type, Tile)
    kept = e.kept.get(value)
    kinds, shape = e.plan.kinds[value], value.type.shape
    if isinstance(kept, Registers | Private):
        kinds = kept.kinds
    ready(e, value, kinds)
    e.fence.writes(e.b, into.array)

    def put(place: Place) -> None:
        held = chunk(e, value, place)
        at = [s.at for s in place]
        if place[-1].width > 1 and not into.turned:
            e.b.emit_all("store", (into.array, *at, e.wide(held, place[-1].width)))
            return
        for i, part in enumerate(e.parts(held, place[-1].width)):
            where = [*at[:-1], e.b.emit("add", at[-1], e.number(i))]
            e.b.emit_all("store", (into.array, *(where[::-1] if into.turned else where), part))

    with e.only(e.owner(kinds, shape)):
        e.walk(kinds, shape, put)


def keep(e: Emitter, value: Value, source: Value | None = None) -> None:
    """Computes every chunk of a tile and keeps it: of `value`, or of `source` in its place."""
    of = source or value
    assert isinstance(value.type, Tile)
    kinds, shape = e.plan.kinds[value], value.type.shape
    ready(e, of, kinds)
    if e.grid.looped:
        kept = e.private(value)
        e.walk(kinds, shape, lambda place: e.store(kept, place, chunk(e, of, place)))
        e.kept[value] = kept
        return
    chunks: dict[tuple[int, ...], Value] = {}

    def take(place: Place) -> None:
        held = chunk(e, of, place)
        chunks[tuple(s.chunk for s in place if isinstance(s.chunk, int))] = named(held, value.name)

    e.walk(kinds, shape, take)
    e.kept[value] = Registers(kinds, chunks)


def spread(e: Emitter, value: Value, like: Value | None = None) -> list[Value]:
    """The chunks of a tile value in the order of their numbers, each as wide as its place; those
    that `like` has in the plan when it is given."""
    assert isinstance(value.type, Tile)
    kinds = e.plan.kinds[like or value]
    ready(e, value, kinds)
    out: list[Value] = []

    def take(place: Place) -> None:
        out.append(e.wide(chunk(e, value, place), place[-1].width))

    e.walk(kinds, value.type.shape, take)
    return out


def gathered(e: Emitter, value: Value, chunks: list[Value], like: Value) -> list[Value]:
    """Keeps the first of `chunks`, in the order of `spread`, as the tile `value`; the rest."""
    assert isinstance(value.type, Tile)
    kinds = e.plan.kinds[like]
    held: dict[tuple[int, ...], Value] = {}
    rest = list(chunks)
    e.walk(
        kinds,
        value.type.shape,
        lambda place: held.update(
            {tuple(s.chunk for s in place if isinstance(s.chunk, int)): rest.pop(0)}
        ),
    )
    for one in held.values():
        named(one, value.name)
    e.kept[value] = Registers(kinds, held)
    return rest


def reads(e: Emitter, value: Value, array: Private) -> bool:
    """Whether computing `value` reads `array`."""
    kept = e.kept.get(value)
    if kept is not None or value.op is None:
        return kept is array
    return any(reads(e, a, array) for a in value.op.args if isinstance(a.type, Tile))


def saved(e: Emitter, value: Value, home: Value) -> Value:
    """A value of its own with the elements that `value` has now, lying as `home` does."""
    new = Value(value.type, value.op, value.name)
    e.plan.kinds[new] = e.plan.kinds[home]
    keep(e, new, value)
    return new


def computed(e: Emitter, op: Op) -> None:
    """An elementwise op: kept where the plan says so, else left to its reader."""
    (value,) = op.results
    if e.plan.placed[value].where == FRAGMENT:
        keep(e, value)
