"""Tiles of the interpreter: a tile is an array whose last axes are its own.

Products are taken in f32 after the operands' rounding by `math`, and summed in f32 in the order
of the library that multiplies matrices. Accesses are checked as those of threads are: places that
are not outside the view must lie in the buffer (E0404), elements must have been written (E0402),
and an element has one writer (E0410).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.dtypes import bf16, f32
from iron.ir import scalar
from iron.ir.core import Kernel, Op, Value
from iron.ir.floats8 import FLOATS8, decoded
from iron.ir.interp.machine import Array, Machine, Mask
from iron.ir.interp.memory import Buffer, enter, group_array, who
from iron.ir.ops.tile import Sides, joined
from iron.ir.types import Tensor, Tile, held

CHUNK = 1 << 18  # tile elements that run together

Lanes = np.ndarray[Any, Any]


def largest(kernel: Kernel) -> int:
    """Elements of the largest tile of a kernel."""
    sizes = [math.prod(held(r.type)) for op in kernel.body.walk() for r in op.results]
    return max(sizes, default=1)


# --- places ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Places:
    """Flat positions of the elements of an access, and which of them are inside the view.

    Both have the shape (lanes, *tile).
    """

    at: Lanes
    inside: Lanes

    def chosen(self, m: Machine) -> tuple[Lanes, Lanes, Lanes]:
        """Positions, lane numbers and last barriers of the elements inside, tile ops' party."""
        lanes = self.inside.nonzero()[0]
        return self.at[self.inside], m.number[lanes] - 1, m.since[lanes]


def _window(m: Machine, op: Op, mask: Mask) -> Places:
    """The places of a tile read or write."""
    sides: Sides = op.attr("shape")
    rank, free, shape = len(m.buffers[op.args[0]].shape), len(op.attr("axes")), joined(sides)
    starts, coordinates = iter(op.args[1 + rank : 1 + rank + free]), list[Lanes]()
    for j, side in enumerate(sides):
        parts = side if isinstance(side, tuple) else (side,)
        along = _along(j, len(shape), shape[j])
        for part in np.unravel_index(np.arange(shape[j]), parts):
            coordinates.append(_wide(m, next(starts), len(shape)) + part.reshape(along))
    return _places(m, op, coordinates, op.args[1 + rank + free :], shape, mask)


def _indexed(m: Machine, op: Op, keep: Value, mask: Mask) -> Places:
    """The places of a gather or scatter."""
    rank, many = len(m.buffers[op.args[0]].shape), len(op.attr("axes"))
    shape = held(keep.type)
    at = op.args[1 + rank : 1 + rank + many]
    coordinates = [_wide(m, i, len(shape)) for i in at]
    return _places(m, op, coordinates, op.args[1 + rank + many :], shape, mask, keep)


def _along(axis: int, many: int, side: int) -> tuple[int, ...]:
    """The shape of one axis of a tile, after the axis of lanes."""
    return (1, *(side if a == axis else 1 for a in range(many)))


def _places(
    m: Machine,
    op: Op,
    coordinates: Sequence[Lanes],
    extents: Sequence[Value],
    shape: tuple[int, ...],
    mask: Mask,
    keep: Value | None = None,
) -> Places:
    """Elements at `coordinates` of the view, whose places are checked; raises E0404."""
    buffer, many = m.buffers[op.args[0]], len(shape)
    axes, steps = op.attr("axes"), op.attr("steps")
    inside = np.ones((m.lanes, *shape), bool)
    if mask is not None:
        inside &= mask.reshape(-1, *(1,) * many)
    if keep is not None:
        inside &= m.spread(keep)
    for u, extent in zip(coordinates, extents, strict=False):
        inside &= (u >= 0) & (u < _wide(m, extent, many))
    at: Lanes = np.zeros((1,) * (1 + many), np.int64)
    for axis, size in enumerate(buffer.shape):
        place = _wide(m, op.args[1 + axis], many)
        if axis in axes:
            j = axes.index(axis)
            place = place + coordinates[j] * steps[j]
        _in_bounds(m, op, inside & ((place < 0) | (place >= size)), place, axis)
        at = at * size + place
    if buffer.per_group:
        at = at + m.in_chunk.reshape(-1, *(1,) * many) * buffer.per_group
    return Places(np.where(inside, at, 0), inside)


def _wide(m: Machine, value: Value, many: int) -> Lanes:
    """A scalar or tile with an axis of lanes; a scalar has `many` axes of size 1 after it."""
    x = np.asarray(m.env[value]).astype(np.int64)
    return x.reshape(-1, *(held(value.type) or (1,) * many))


def _in_bounds(m: Machine, op: Op, bad: Lanes, place: Lanes, axis: int) -> None:
    if not bad.any():
        return
    buffer = m.buffers[op.args[0]]
    first = np.unravel_index(int(np.argmax(bad)), bad.shape)
    index = int(np.broadcast_to(place, bad.shape)[first])
    raise m.fault(
        "E0404",
        f"index {index} is outside axis {axis} of `{buffer.name}`, which has "
        f"{buffer.shape[axis]} elements",
        op,
        [f"element {[int(i) for i in first[1:]]} of the tile in {who(m, int(first[0]))}"],
        "the view reaches beyond the tensor: check the bounds of its slices",
    )


# --- accesses -------------------------------------------------------------------------------------


def _taken(m: Machine, op: Op, places: Places) -> tuple[Array]:
    """The elements at the places, 0 outside."""
    buffer = m.buffers[op.args[0]]
    if buffer.written is not None or buffer.log is not None:
        at, lanes, since = places.chosen(m)
        _initialised(m, op, buffer, at, lanes)
        enter(m, buffer, op, "reads", at, lanes, since)
    if not buffer.data.size:
        return (np.zeros(places.at.shape, buffer.data.dtype),)
    return (np.where(places.inside, buffer.read(places.at), buffer.data.dtype.type(0)),)


def _initialised(m: Machine, op: Op, buffer: Buffer, at: Lanes, lanes: Lanes) -> None:
    if buffer.written is None:
        return
    bad = ~buffer.written[at]
    if bad.any():
        first = int(np.argmax(bad))
        lane = int(lanes[first]) // m.parties - m.first_group
        raise m.fault(
            "E0402",
            f"`{buffer.name}{buffer.element(int(at[first]))}` is read before it is written",
            op,
            [f"in {who(m, lane)}"],
        )


def _put(m: Machine, op: Op, buffer: Buffer, places: Places, value: Value) -> None:
    """Writes the elements of `value` that are inside."""
    at, lanes, since = places.chosen(m)
    enter(m, buffer, op, "writes", at, lanes, since)
    buffer.write(at, m.spread(value)[places.inside])
    if buffer.written is not None:
        buffer.written[at] = True


def _read(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    return _taken(m, op, _window(m, op, mask))


def _write(m: Machine, op: Op, mask: Mask) -> tuple[()]:
    value = op.args[-1]
    _put(m, op, m.buffers[op.args[0]], _window(m, op, mask), value)
    return ()


def _gather(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    return _taken(m, op, _indexed(m, op, op.args[-1], mask))


def _scatter(m: Machine, op: Op, mask: Mask) -> tuple[()]:
    keep, value = op.args[-2:]
    places = _indexed(m, op, keep, mask)
    buffer = m.buffers[op.args[0]]
    at, count = np.unique(places.at[places.inside], return_counts=True)
    if m.checks and (count > 1).any():
        _scattered_twice(m, op, buffer, places, int(at[np.argmax(count > 1)]))
    _put(m, op, buffer, places, value)
    return ()


def _scattered_twice(m: Machine, op: Op, buffer: Buffer, places: Places, at: int) -> None:
    lanes, *where = ((places.at == at) & places.inside).nonzero()
    first, second = ([int(axis[n]) for axis in where] for n in (0, 1))
    raise m.fault(
        "E0410",
        f"race on `{buffer.name}{buffer.element(at)}`: elements {first} and {second} of the tile "
        f"are scattered to it",
        op,
        [f"in {who(m, int(lanes[0]))} and {who(m, int(lanes[1]))}"],
        "indices that are kept name different elements: drop all but one of them with `keep`",
    )


def _stage(m: Machine, op: Op, mask: Mask) -> tuple[None]:
    """The barriers at its ends order it after and before everything of the group."""
    (result,) = op.results
    buffer = m.buffers[result] = group_array(m, result)
    t = result.type
    assert isinstance(t, Tensor)
    size = math.prod(t.shape)
    at = np.arange(m.groups * size).reshape(m.groups, *t.shape)
    inside = np.ones(at.shape, bool)
    if mask is not None:
        inside &= mask.reshape(-1, *(1,) * len(t.shape))
    _put(m, op, buffer, Places(at, inside), op.args[0])
    m.serial += 1
    m.since = np.where(True if mask is None else mask, m.serial, m.since)
    return (None,)


# --- values ---------------------------------------------------------------------------------------


def _own(m: Machine, op: Op) -> tuple[Array, tuple[int, ...]]:
    """The first operand, and its axes before those of the tile."""
    x = np.asarray(m.env[op.args[0]])
    return x, x.shape[: x.ndim - len(held(op.args[0].type))]


def _full(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    x, lead = _own(m, op)
    shape = op.attr("shape")
    return (np.broadcast_to(x.reshape(*lead, *(1,) * len(shape)), (*lead, *shape)),)


def _iota(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    count, dtype = op.attrs
    return (scalar.cast(np.arange(count, dtype=np.int64), dtype).reshape(count),)


def _expand(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    x, lead = _own(m, op)
    return (np.expand_dims(x, len(lead) + op.attr("axis")),)


def _broadcast(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    x, lead = _own(m, op)
    return (np.broadcast_to(x, (*lead, *op.attr("shape"))),)


def _transpose(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    return (np.swapaxes(m.env[op.args[0]], -1, -2),)


_REDUCERS = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def _reduce(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    x, lead = _own(m, op)
    axis = len(lead) + op.attr("axis")
    return (_REDUCERS[op.attr("kind")].reduce(x, axis=axis, dtype=x.dtype)[()],)


def _mma(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    x, y, total = (np.asarray(m.env[a]) for a in op.args)
    first = op.args[0].type
    assert isinstance(first, Tile)
    if (how := op.attr("math")) in FLOATS8:
        return (total + np.matmul(decoded(x, how), decoded(y, how)),)
    if first.elem.is_integer:
        return (total + np.matmul(x.astype(np.int32), y.astype(np.int32)),)
    x, y = (scalar.cast(v, f32) for v in (x, y))
    if how == "split":
        (x, x_low), (y, y_low) = _halves(x), _halves(y)
        return (total + (np.matmul(x, y_low) + np.matmul(x_low, y) + np.matmul(x, y)),)
    if how == "tf32":
        x, y = _tf32(x), _tf32(y)
    return (total + np.matmul(x, y),)


def _halves(x: Lanes) -> tuple[Lanes, Lanes]:
    """The bf16 nearest to x and the bf16 nearest to what is left, as f32."""
    high = scalar.cast(scalar.cast(x, bf16), f32)
    rest = np.where(np.isfinite(high), x - high, np.float32(0))
    return high, scalar.cast(scalar.cast(rest, bf16), f32)


def _tf32(x: Lanes) -> Lanes:
    """x with 10 bits of fraction, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    even = bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    short = (even & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), short, x)


def _threads(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    return (op.attr("dtype").np.type(1),)


HANDLERS = {
    "tile_read": _read,
    "tile_write": _write,
    "tile_gather": _gather,
    "tile_scatter": _scatter,
    "tile_stage": _stage,
    "tile_full": _full,
    "tile_iota": _iota,
    "tile_expand": _expand,
    "tile_broadcast": _broadcast,
    "tile_transpose": _transpose,
    "tile_reduce": _reduce,
    "mma": _mma,
    "threads": _threads,
}
