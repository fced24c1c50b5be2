"""Reductions along an axis of a tile: inside a thread, then between the threads that share it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iron.dtypes import DType, bool_
from iron.ir.core import Op, Value
from iron.ir.types import Tile, Vector, element
from iron.tiles import compute
from iron.tiles.emitter import Emitter
from iron.tiles.grid import Kinds
from iron.tiles.storage import Place, Registers


def unit(kind: str, dtype: DType) -> object:
    """What changes nothing when it is combined by `kind`."""
    if kind in ("add", "or"):
        return False if dtype is bool_ else 0
    if kind == "mul":
        return 1
    if kind == "and":
        return True if dtype is bool_ else (dtype.max if dtype.kind == "u" else -1)
    if dtype.is_float:
        return -np.inf if kind == "max" else np.inf
    return dtype.min if kind == "max" else dtype.max


def reduce(e: Emitter, op: Op) -> None:
    """`tile_reduce`: a vector or matrix that each thread keeps its part of, or a scalar."""
    (value,), (source,) = op.results, op.args
    assert isinstance(source.type, Tile)
    axis, shape = op.attr("axis"), source.type.shape
    if not isinstance(value.type, Tile):
        _to_scalar(e, op)
        return
    kinds = e.plan.kinds[source]
    compute.ready(e, source, kinds)
    e.follow(op)

    def total(place: Place) -> Value:
        held = _inside(e, op, kinds, place)
        if kinds[axis] != "own":
            held = _between(e, op, held, kinds[axis], shape[axis])
        return held

    rest = (*kinds[:axis], *kinds[axis + 1 :])
    if e.grid.looped:
        kept = e.private(value, rest)
        e.walk(rest, value.type.shape, lambda place: e.store(kept, place, total(place)))
        e.kept[value] = kept
        return
    chunks: dict[tuple[int, ...], Value] = {}
    e.walk(
        rest,
        value.type.shape,
        lambda place: chunks.update(
            {tuple(s.chunk for s in place if isinstance(s.chunk, int)): total(place)}
        ),
    )
    e.kept[value] = Registers(rest, chunks)


def _inside(e: Emitter, op: Op, kinds: Kinds, place: Place) -> Value:
    """This thread's elements along the axis combined; a vector only along another axis."""
    (source,), axis = op.args, op.attr("axis")
    assert isinstance(source.type, Tile)
    shape = source.type.shape
    along = e.grid.along(kinds[axis], shape[axis])
    last = axis == len(shape) - 1

    def one(number: int | Value) -> Value:
        spot = e.spot(kinds[axis], shape[axis], number)
        whole = (*place[:axis], spot, *place[axis:])
        return e.wide(compute.chunk(e, source, whole), whole[-1].width)

    held = _run(e, op, along.count, one)
    if last and isinstance(held.type, Vector):
        parts = e.parts(held, held.type.count)
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [combine(e, op, parts[i], parts[i + half]) for i in range(half)]
        return parts[0]
    return held


def _run(e: Emitter, op: Op, count: int, one: Callable[[int | Value], Value]) -> Value:
    """`count` chunks combined: by a loop where the grid walks by loops, else written out."""
    held = one(0)
    if count == 1:
        return held
    if not e.grid.looped:
        for i in range(1, count):
            held = combine(e, op, held, one(i))
        return held
    (out,) = e.carry(
        count - 1,
        [held],
        lambda i, have: [combine(e, op, have[0], one(e.b.emit("add", i, e.number(1))))],
        "i",
    )
    return out


def _between(e: Emitter, op: Op, held: Value, kind: str, size: int) -> Value:
    """Combined with the threads that share the axis; every one of them gets the whole."""
    lanes = e.grid.along(kind, size).lanes
    if lanes == 1:
        return held
    bits = e.grid.bits(kind)[: lanes.bit_length() - 1]
    if bits == list(range(len(bits))):
        return collective(e, op, held, lanes)
    for bit in bits:
        other = e.b.emit("exchange", held, attrs=(1 << bit,))
        held = combine(e, op, held, other)
    return held


def collective(e: Emitter, op: Op, held: Value, width: int) -> Value:
    """The values of each run of `width` threads combined, by the op's kind."""
    b = e.b
    pair = Value(held.type, None, "a"), Value(held.type, None, "b")
    with b.block(pair) as body:
        b.emit_all("yield", (combine(e, op, *pair),))
    whole = 0 if width == e.grid.threads else width
    return b.emit("reduce", held, attrs=(whole,), regions=(body,), surface=op.surface)


def combine(e: Emitter, op: Op, x: Value, y: Value) -> Value:
    """Two elements, or two chunks element by element."""
    return e.b.emit(op.attr("kind"), x, y)


def _to_scalar(e: Emitter, op: Op) -> None:
    """A vector to one number, equal in every thread: copies count for nothing."""
    (value,), (source,) = op.results, op.args
    assert isinstance(source.type, Tile)
    kinds, shape = e.plan.kinds[source], source.type.shape
    compute.ready(e, source, kinds)
    e.follow(op)
    held = _inside(e, op, kinds, ())
    owner = e.owner(kinds, shape)
    if owner is not None:
        nothing = e.b.const(unit(op.attr("kind"), element(value.type)), element(value.type))
        held = e.b.emit("where", owner, held, nothing)
    e.values[value] = collective(e, op, held, e.grid.threads)
