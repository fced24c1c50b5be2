"""Tiles: views cut into grids, reads and writes, gathers, shapes, reductions and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iron import lang
from iron.dtypes import DType, bool_
from iron.errors import KernelError
from iron.front import arithmetic
from iron.front.scope import Span, Tiling, View, Weak
from iron.front.state import Handler, Trace
from iron.front.values import as_value, const_int, demand, described, not_a_value
from iron.front.views import loaded, whole
from iron.ir.core import Value
from iron.ir.ops.tile import MATHS, Sides, parted
from iron.ir.types import MAX_TILE, Tensor, Tile, held, legal_side

LANG: Any = lang

SIDES = "equal sides, or 1: write `t[:, None]` or `t[None, :]` to add an axis"
ROUNDED = 16  # sides from here on may be rounded up to the next legal one


# --- sides ----------------------------------------------------------------------------------------


def sides(trace: Trace, shape: object) -> tuple[int, ...]:
    """A shape as integers; dims in it are specialised."""
    parts = shape if isinstance(shape, tuple | list) else (shape,)
    found = tuple(const_int(trace, n, "the side of a tile") for n in parts)
    if not found or any(n < 1 for n in found):
        raise trace.fail("E0212", f"a tile of shape {list(found)}", help="sides are at least 1")
    return found


def _fitting(trace: Trace, shape: tuple[int, ...]) -> tuple[int, ...]:
    """`shape`, when a tile may have as many elements."""
    total = int(np.prod(shape))
    if total > MAX_TILE:
        raise trace.fail(
            "E0212",
            f"a tile of shape {list(shape)} has {total} elements",
            help=f"at most {MAX_TILE}: cut it into smaller tiles",
        )
    return shape


def rounded(trace: Trace, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Sides that are not legal become the next legal one, where a ragged axis may do so."""
    return _fitting(trace, tuple(_rounded(trace, n) for n in shape))


def _rounded(trace: Trace, side: int) -> int:
    legal = legal_side(side)
    if side != legal and side < ROUNDED:
        raise illegal(trace, side)
    return legal


def illegal(trace: Trace, side: int) -> Exception:
    """E0212 for a side that tiles do not have."""
    return trace.fail(
        "E0212",
        f"a tile side of {side}",
        help="a side is a power of two, or 16, 32, .. times an odd number up to 15: "
        f"{legal_side(side)} is the next",
    )


# --- grids ----------------------------------------------------------------------------------------


def tiles(trace: Trace, owner: View, *shape: object) -> Tiling:
    """`x.tiles(BM, BK)`: a side for each free axis; `x.tiles((TH, TW), BK)` joins axes."""
    many = tuple(sides(trace, part) for part in shape)
    spans = list(owner.spans)
    if sum(len(part) for part in many) != len(spans) or not many:
        raise trace.fail(
            "E0208",
            f"{sum(len(part) for part in many)} sides for {len(spans)} axes",
            help="index the leading axes first: `x[b, h].tiles(BM, D)`",
        )
    found: list[int | tuple[int, ...]] = []
    for part in many:
        own, spans = spans[: len(part)], spans[len(part) :]
        found.append(_side(trace, part[0], own[0]) if len(part) == 1 else _joined(trace, part))
    made = Tiling(owner, tuple(found))
    _fitting(trace, made.shape)
    return made


def _joined(trace: Trace, part: tuple[int, ...]) -> tuple[int, ...]:
    """Sides that become one."""
    total = int(np.prod(part))
    if total != legal_side(total):
        raise illegal(trace, total)
    return part


def _side(trace: Trace, side: int, span: Span) -> int:
    """The side itself, or the next legal one of a tile that holds the whole axis."""
    legal = legal_side(side)
    if side == legal:
        return side
    length = span.length
    if isinstance(length, Weak):
        demand(trace, length)
    if side < ROUNDED or not (isinstance(length, int) and length <= side):
        raise illegal(trace, side)
    return legal


def grid(trace: Trace, owner: Tiling) -> tuple[object, ...]:
    """`A.grid`: tiles along each axis, the ragged one included; a tuple for joined axes."""
    counts = [
        arithmetic.ceil_div(trace, span.length, side)
        for span, side in zip(owner.view.spans, parted(owner.sides), strict=True)
    ]
    return _alike(counts, owner.sides)


def _alike(flat: list[object], shape: Sides) -> tuple[object, ...]:
    """One object for each axis of a view, in tuples where axes are joined."""
    left = iter(flat)
    return tuple(
        tuple(next(left) for _ in side) if isinstance(side, tuple) else next(left) for side in shape
    )


def _window(trace: Trace, owner: Tiling, key: object, *, step: bool = True) -> tuple[Value, ...]:
    """The operands that say where a tile lies: bases, first elements and extents.

    `key` counts tiles; where `step` is false, it counts elements and may be any integers.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if len(owner.sides) == 1 and isinstance(owner.sides[0], tuple) and len(keys) > 1:
        keys = (keys,)
    counts = [len(k) if isinstance(k, tuple) else 1 for k in keys]
    wanted = [len(s) if isinstance(s, tuple) else 1 for s in owner.sides]
    if counts != wanted:
        raise trace.fail(
            "E0208",
            f"{_shown(counts)} indices for {_shown(wanted)} axes of tiles",
            help="write `A[i, k]`, 0 along an axis that one tile holds, a tuple for joined axes",
        )
    flat = [one for k in keys for one in (k if isinstance(k, tuple) else (k,))]
    pairs = zip(flat, parted(owner.sides), strict=True)
    at = [_first(trace, k, side) if step else _place_of(trace, k) for k, side in pairs]
    return (*bases(trace, owner.view), *at, *extents(trace, owner.view))


def _shown(counts: list[int]) -> str:
    """`2`, or `(3, 1)` where some are joined."""
    return str(len(counts) if max(counts, default=1) == 1 else tuple(counts))


def _first(trace: Trace, k: object, side: int) -> Value:
    """The first element of tile `k`."""
    k = loaded(trace, k)
    if isinstance(k, int | np.integer) and k < 0:
        raise trace.fail("E0208", f"tile {k}", help="tiles count from 0, also from the end")
    return trace.emit("mul", _place_of(trace, k), trace.const(side, trace.index))


def _place_of(trace: Trace, k: object) -> Value:
    """An integer in the dtype of indices."""
    number = as_value(trace, loaded(trace, k), trace.index)
    if not (isinstance(number.type, DType) and number.type.is_integer):
        raise trace.fail(
            "E0208",
            f"a tile's index is {described(number)}, not an integer",
            help="convert it: `i32(x)`",
        )
    if number.type is not trace.index:
        number = trace.emit("cast", number, attrs=(trace.index,))
    return number


def bases(trace: Trace, view: View) -> list[Value]:
    """Where the view's first element lies along each axis of its buffer."""
    places = [a.offset if isinstance(a, Span) else a for a in view.axes]
    return [as_value(trace, p, trace.index) for p in places]


def extents(trace: Trace, view: View) -> list[Value]:
    """The elements of the view along each of its axes."""
    return [as_value(trace, s.length, trace.index) for s in view.spans]


def place(view: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The buffer's axis and the step of each axis of the view."""
    free = [(i, a.step) for i, a in enumerate(view.axes) if isinstance(a, Span)]
    return tuple(i for i, _ in free), tuple(step for _, step in free)


def read(trace: Trace, owner: Tiling, key: object) -> Value:
    """`A[i, k]`."""
    return _read(trace, owner, _window(trace, owner, key))


def at(trace: Trace, owner: Tiling, *key: object) -> Value:
    """`A.at(m, k)`: the tile whose first element is (m, k) of the view, inside or not."""
    return _read(trace, owner, _window(trace, owner, key, step=False))


def _read(trace: Trace, owner: Tiling, window: tuple[Value, ...]) -> Value:
    attrs = (owner.sides, *place(owner.view), trace.site())
    return trace.emit("tile_read", owner.view.buffer, *window, attrs=attrs)


def write(trace: Trace, owner: Tiling, key: object, x: object) -> None:
    """`A[i, k] = t`: a tile of the view's dtype, or a number."""
    view = owner.view
    _writable(trace, view)
    value = stored(trace, view, x, owner.shape)
    window = _window(trace, owner, key)
    attrs = (owner.sides, *place(view))
    trace.emit_all("tile_write", (view.buffer, *window, value), attrs)


def _writable(trace: Trace, view: View) -> None:
    t = view.buffer.type
    assert isinstance(t, Tensor)
    if t.space in ("in", "table"):
        what = "an `In` parameter" if t.space == "in" else "a table"
        raise trace.fail("E0401", f"{what} is read-only", help="declare it `Out` or `InOut`")


def stored(trace: Trace, view: View, x: object, shape: tuple[int, ...]) -> Value:
    """`x` as a tile of `shape` with the view's dtype."""
    value = as_value(trace, loaded(trace, x), view.elem)
    have = value.type
    elem = have.elem if isinstance(have, Tile) else have
    if elem is not view.elem:
        raise trace.fail(
            "E0201", f"{have} is stored into {view.elem}", help=f"convert it: `.to({view.elem})`"
        )
    if isinstance(have, Tile) and np.broadcast_shapes(*_meeting(have.shape, shape)) != shape:
        raise trace.fail("E0212", f"{have} is stored into tiles of shape {list(shape)}", help=SIDES)
    return arithmetic.spread(trace, value, shape)


def _meeting(have: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Both shapes, or one that no other equals where numpy would not broadcast."""
    fits = len(have) <= len(shape) and all(
        h in (1, s) for h, s in zip(have[::-1], shape[::-1], strict=False)
    )
    return (have, shape) if fits else ((),)


# --- gathers --------------------------------------------------------------------------------------


def gather(trace: Trace, owner: View, *indices: object, keep: object = None) -> Value:
    """`x.gather(i, j, keep=k)`."""
    at, kept = _indexed(trace, owner, indices, keep, ())
    attrs = (*place(owner), trace.site())
    operands = (*bases(trace, owner), *at, *extents(trace, owner), kept)
    return trace.emit("tile_gather", owner.buffer, *operands, attrs=attrs)


def scatter(
    trace: Trace, owner: View, *indices: object, value: object, keep: object = None
) -> None:
    """`x.scatter(i, j, value=t, keep=k)`."""
    _writable(trace, owner)
    given = as_value(trace, loaded(trace, value), owner.elem)
    at, kept = _indexed(trace, owner, indices, keep, held(given.type))
    tile = stored(trace, owner, given, held(kept.type))
    operands = (*bases(trace, owner), *at, *extents(trace, owner), kept, tile)
    trace.emit_all("tile_scatter", (owner.buffer, *operands), place(owner))


def _indexed(
    trace: Trace, view: View, indices: Sequence[object], keep: object, shape: tuple[int, ...]
) -> tuple[list[Value], Value]:
    """Indices and the tile of kept elements, all tiles of one shape; scalars stay scalars."""
    if len(indices) != len(view.spans):
        raise trace.fail("E0208", f"{len(indices)} indices for {len(view.spans)} axes")
    at = [as_value(trace, loaded(trace, i), trace.index) for i in indices]
    kept = as_value(trace, True if keep is None else loaded(trace, keep), bool_)
    try:
        shape = np.broadcast_shapes(shape, *(held(v.type) for v in (*at, kept)))
    except ValueError:
        shapes = [list(held(v.type)) for v in (*at, kept)]
        raise trace.fail("E0212", f"indices of shapes {shapes} meet") from None
    if not shape:
        raise trace.fail(
            "E0208", "no index is a tile", help="`x[i, j]` reads the element at scalars"
        )
    whole_ = [arithmetic.spread(trace, v, shape) if held(v.type) else v for v in at]
    return whole_, arithmetic.spread(trace, kept, shape)


# --- shapes, reductions, products -----------------------------------------------------------------


def of_tile(trace: Trace, owner: Value, key: object) -> Value:
    """`t[:, None]`: every axis whole, and new ones of size 1."""
    keys = key if isinstance(key, tuple) else (key,)
    t = owner.type
    assert isinstance(t, Tile)
    if any(k is not None and not (isinstance(k, slice) and k == slice(None)) for k in keys):
        raise trace.fail(
            "E0208",
            "a part of a tile",
            help="`t[:, None]` adds an axis; `stage(t)` gives an array with elements",
        )
    if sum(k is not None for k in keys) > len(t.shape):
        raise trace.fail("E0208", f"{len(keys)} indices for {t}")
    for axis, k in enumerate(keys):
        if k is None:
            owner = trace.emit("tile_expand", owner, attrs=(axis,))
    return owner


def reduced(trace: Trace, owner: Value, kind: str, axis: object) -> Value:
    """`t.max(axis=1)`; without an axis over all of them, to a scalar."""
    t = owner.type
    assert isinstance(t, Tile)
    rank = len(t.shape)
    if axis is None:
        for _ in range(rank):
            owner = trace.emit("tile_reduce", owner, attrs=(kind, 0))
        return owner
    number = const_int(trace, axis, "the axis of a reduction")
    if not -rank <= number < rank:
        raise trace.fail("E0208", f"axis {number} of {t}")
    return trace.emit("tile_reduce", owner, attrs=(kind, number % rank))


def transposed(trace: Trace, owner: Value) -> Value:
    """`t.T`."""
    t = owner.type
    assert isinstance(t, Tile)
    if len(t.shape) != 2:
        raise trace.fail("E0208", f"`.T` of {t}", help="a tile of two axes has rows and columns")
    return trace.emit("tile_transpose", owner)


def full(trace: Trace, shape: object, value: Value) -> Value:
    """A tile of equal elements. A zero fills up sides that are not legal; other values do not."""
    wanted = sides(trace, shape)
    return trace.emit("tile_full", value, attrs=(_exact(trace, wanted),))


def zeros(trace: Trace, shape: object, dtype: DType) -> Value:
    """A tile of zeros, which fill up the sides that are not legal."""
    wanted = rounded(trace, sides(trace, shape))
    return trace.emit("tile_full", trace.const(0, dtype), attrs=(wanted,))


def _exact(trace: Trace, shape: tuple[int, ...]) -> tuple[int, ...]:
    bad = next((n for n in shape if n != legal_side(n)), None)
    if bad is not None:
        raise illegal(trace, bad)
    return _fitting(trace, shape)


def iota(trace: Trace, n: object, dtype: DType) -> Value:
    """The numbers 0, 1, ..; a side that is not legal is rounded up."""
    (count,) = rounded(trace, sides(trace, (n,)))
    return trace.emit("tile_iota", attrs=(count, dtype))


OPERANDS = (
    "operands are both f32, f16 or bf16 with an f32 sum, or 8-bit integers with an i32 sum; "
    'with math="e4m3" or "e5m2" both are u8, with an f32 sum'
)


def mma(trace: Trace, x: object, y: object, acc: object, math: object = "strict") -> Value:
    """`mma(x, y, acc)`."""
    operands: list[Value] = []
    for v in (x, y, acc):
        if not isinstance(v, Value) or not isinstance(v.type, Tile):
            raise (
                not_a_value(trace, v)
                if not isinstance(v, Value)
                else trace.fail(
                    "E0201", f"`mma` of {described(v)}", help="it takes three tiles of two axes"
                )
            )
        operands.append(v)
    if math not in MATHS:
        raise trace.fail("E0113", f"`mma` with math={math!r}", help=f"one of {', '.join(MATHS)}")
    shapes = [held(v.type) for v in operands]
    if any(len(s) != 2 for s in shapes) or not _meet(*shapes):
        listed = ", ".join(str(list(s)) for s in shapes)
        raise trace.fail(
            "E0212",
            f"`mma` of tiles of shape {listed}",
            help="[M, K], [K, N] and [M, N]; `.T` turns a tile",
        )
    try:
        return trace.emit("mma", *operands, attrs=(math, trace.site()))
    except KernelError as wrong:
        raise trace.fail(wrong.id, wrong.diagnostic.message, help=OPERANDS) from None


def _meet(x: tuple[int, ...], y: tuple[int, ...], acc: tuple[int, ...]) -> bool:
    return x[1] == y[0] and acc == (x[0], y[1])


def stage(trace: Trace, t: object) -> View:
    """`stage(t)`."""
    if not isinstance(t, Value) or not isinstance(t.type, Tile):
        raise trace.fail("E0204", f"`stage` of {described(t)}", help="it takes a tile")
    return whole(trace.emit("tile_stage", t), t.type.shape)


EMITTERS: tuple[Handler, ...] = (mma, stage)
