"""Tile rows: immutable arrays that a group holds together, without place, layout or threads.

A kernel with tile ops is a tile kernel. Its `threads` is 1: the group acts as one, every value of
the body is the same in the whole group, and `iron.tiles` decides how many threads share the work.
The count is the op `threads`; `thread` and collectives are legal beside it (a `strided` loop runs
from `thread * step` by `threads * step`), so what such a loop computes differs between threads
until a collective joins it. Tile ops are collective: control around them is uniform. A `store`
or `atomic` of a tile kernel outside such a loop is done once for the group.

Elementwise rows of the table take tiles whose types have one shape, element by element. What was
broadcast in the source is explicit here: a scalar becomes a tile by `tile_full`, an axis is added
by `tile_expand` and an axis of size 1 repeated by `tile_broadcast`.

**The window of an access.** `tile_read`, `tile_write`, `tile_gather` and `tile_scatter` address
the elements of a view: `base` has one integer scalar for each axis of `buffer`, `axes` names the
buffer axis behind each of the view's axes (different ones), `steps` holds the view's step along
each, and `extent` has one integer scalar for each of the view's axes, its number of elements.
Element (u_0, u_1, ..) of the view lies in the buffer at `base`, moved along `axes[j]` by
`steps[j] * u_j`. It is outside when some u_j is below 0 or not below `extent_j`. An element that
is not outside must lie in the buffer: the front end makes extents so, the interpreter checks it
(E0404), and passes may rely on it.

* `tile_read`: view axis j has the tile axis j, and `at` holds the first u of each; element
  (r_0, ..) of the result is the view's element `at_j + r_j`, or 0 where that is outside. Its
  operands are `buffer`, `rank` bases, then for the view's axes all `at`, then all `extent`.
  `shape` is the tile's. Any integer dtypes; they are not mixed by arithmetic. A side of `shape`
  that is a tuple joins as many axes of the view, the last of them fastest, into one of the tile:
  with ((2, 8, 8), 64) element (r, c) of 128 x 64 is the view's element
  (at_0 + r // 64, at_1 + r // 8 % 8, at_2 + r % 8, at_3 + c).
* `tile_write` has the operands and attributes of `tile_read` and last the tile; elements that are
  outside are dropped. Two groups that write one element race.
* `tile_gather`: after `buffer` and the bases come one index for each of the view's axes, integer
  scalars or integer tiles of one shape, then all `extent`, then `keep`, a bool tile of that
  shape. Element r of the result is the view's element (index_0[r], ..), or 0 where that is outside
  or `keep[r]` is false.
* `tile_scatter` has the operands of `tile_gather` and last a tile of that shape, whose elements
  are written where they are neither outside nor dropped by `keep`. Two elements of one tile that
  are written to one place race, as two groups do.

`site` numbers the accesses that read and the products of one kernel, from 0 in the order of the
source: a copy that a pass makes (skew, peel, unroll) keeps the number of its original.

Order in group memory: a tile op sees every element that the group wrote before it, and an access
of a later op sees what a tile op wrote, where a `barrier` stands between the writes of threads
(`store`, `atomic`) and a tile op that reads them, or between a tile op that reads and writes of
threads after it. `tile_stage` holds a barrier at both ends.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from iron.dtypes import DType, bf16, bool_, f16, f32, i32, u8
from iron.ir.core import Block, Value
from iron.ir.floats8 import FLOATS8
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import Tensor, Tile, Type, tensor, tile

TOGETHER = Trait.COLLECTIVE | Trait.TILE
PURE = Trait.PURE | TOGETHER

MATHS = ("strict", "tf32", "split", *FLOATS8)
REDUCTIONS = ("add", "max", "min", "and", "or", "mul")
FLOATS = (f32, f16, bf16)


def _made(elem: DType, shape: tuple[int, ...]) -> Tile:
    try:
        return tile(elem, shape)
    except ValueError as wrong:
        raise OpTypeError(str(wrong)) from None


def _tile(value: Value) -> Tile:
    if not isinstance(value.type, Tile):
        raise OpTypeError(f"needs a tile, got {value.type}")
    return value.type


Sides = tuple[int | tuple[int, ...], ...]
"""Sides of a tile; a tuple joins axes of its view."""


def joined(shape: Sides) -> tuple[int, ...]:
    """The sides of the tile of an access.

    >>> joined(((2, 8, 8), 64))
    (128, 64)
    """
    return tuple(prod(s) if isinstance(s, tuple) else s for s in shape)


def parted(shape: Sides) -> tuple[int, ...]:
    """The sides of an access along each axis of its view.

    >>> parted(((2, 8, 8), 64))
    (2, 8, 8, 64)
    """
    return tuple(n for s in shape for n in (s if isinstance(s, tuple) else (s,)))


# --- accesses -------------------------------------------------------------------------------------


def _view(args: Sequence[Value], axes: tuple[int, ...], steps: tuple[int, ...]) -> Tensor:
    """The buffer of a window, whose axes, steps and bases are checked."""
    t = args[0].type
    if not isinstance(t, Tensor):
        raise OpTypeError(f"needs a tensor, got {t}")
    if not axes or len(set(axes)) != len(axes) or not all(0 <= a < t.rank for a in axes):
        raise OpTypeError(f"axes {axes} of a tensor of rank {t.rank}")
    if len(steps) != len(axes) or 0 in steps:
        raise OpTypeError(f"steps {steps} along {len(axes)} axes")
    _integers(args[1 : 1 + t.rank])
    return t


def _integers(values: Sequence[Value]) -> None:
    for value in values:
        if not isinstance(value.type, DType) or not value.type.is_integer:
            raise OpTypeError(f"a place is an integer scalar, got {value.type}")


def _count(args: Sequence[Value], wanted: int) -> None:
    if len(args) != wanted:
        raise OpTypeError(f"takes {wanted} operands here, got {len(args)}")


def _read(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    shape, axes, steps = attrs[:3]
    t = _view(args, axes, steps)
    if len(parted(shape)) != len(axes):
        raise OpTypeError(f"a tile of shape {shape} on {len(axes)} axes")
    if any(isinstance(s, tuple) and (len(s) < 2 or min(s) < 1) for s in shape):
        raise OpTypeError(f"a side of {shape} joins no two axes")
    _count(args, 1 + t.rank + 2 * len(axes))
    _integers(args[1 + t.rank :])
    return (_made(t.elem, joined(shape)),)


def _write(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    held = _tile(args[-1])
    (place,) = _read(args[:-1], attrs, _)
    assert isinstance(place, Tile)
    if held.shape != place.shape:
        raise OpTypeError(f"{held} is written to a place of shape {place.shape}")
    _stored(args, held)
    return ()


def _stored(args: Sequence[Value], held: Tile) -> None:
    t = args[0].type
    assert isinstance(t, Tensor)
    if t.space in ("in", "table"):
        raise OpTypeError("cannot store to a read-only tensor")
    if held.elem is not t.elem:
        raise OpTypeError(f"cannot store {held} into {t.elem}; write .to({t.elem})")


def _gather(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    axes, steps = attrs[:2]
    t = _view(args, axes, steps)
    many = len(axes)
    _count(args, 2 + t.rank + 2 * many)
    keep = _tile(args[-1])
    if keep.elem is not bool_:
        raise OpTypeError(f"`keep` is {keep}, not bool")
    _integers(args[1 + t.rank + many : -1])
    for index in args[1 + t.rank : 1 + t.rank + many]:
        if isinstance(index.type, Tile) and index.type.shape == keep.shape:
            if index.type.elem.is_integer:
                continue
        elif isinstance(index.type, DType) and index.type.is_integer:
            continue
        raise OpTypeError(f"an index is {index.type}, not integers of shape {keep.shape}")
    return (_made(t.elem, keep.shape),)


def _scatter(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    held = _tile(args[-1])
    (result,) = _gather(args[:-1], attrs, _)
    assert isinstance(result, Tile)
    if held.shape != result.shape:
        raise OpTypeError(f"{held} is scattered through indices of shape {result.shape}")
    _stored(args, held)
    return ()


def _stage(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    t = _tile(args[0])
    return (tensor(t.elem, len(t.shape), "shared", t.shape),)


# --- values ---------------------------------------------------------------------------------------


def _full(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    if not isinstance(args[0].type, DType):
        raise OpTypeError(f"repeats a scalar, got {args[0].type}")
    return (_made(args[0].type, attrs[0]),)


def _iota(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    count, dtype = attrs
    if not dtype.is_integer and dtype is not f32:
        raise OpTypeError(f"counts in an integer dtype or f32, not {dtype}")
    return (_made(dtype, (count,)),)


def _expand(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    t, axis = _tile(args[0]), attrs[0]
    if not 0 <= axis <= len(t.shape):
        raise OpTypeError(f"no axis {axis} can be added to {t}")
    return (_made(t.elem, (*t.shape[:axis], 1, *t.shape[axis:])),)


def _broadcast(
    args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]
) -> tuple[Type, ...]:
    t, shape = _tile(args[0]), attrs[0]
    if len(shape) != len(t.shape):
        raise OpTypeError(f"{t} has not as many axes as {shape}")
    if any(have not in (1, want) for have, want in zip(t.shape, shape, strict=True)):
        raise OpTypeError(f"{t} does not repeat to {shape}")
    return (_made(t.elem, shape),)


def _transpose(
    args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]
) -> tuple[Type, ...]:
    t = _tile(args[0])
    if len(t.shape) != 2:
        raise OpTypeError(f"transposes two axes, got {t}")
    return (_made(t.elem, t.shape[::-1]),)


def _reduce(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    t, (kind, axis) = _tile(args[0]), attrs
    kinds = {"and": "iub", "or": "iub"}.get(kind, "fiu")
    if kind not in REDUCTIONS:
        raise OpTypeError(f"no reduction called {kind}")
    if t.elem.kind not in kinds:
        hint = "; widen with .to(f32)" if t.elem.kind == "s" else ""
        raise OpTypeError(f"no `{kind}` of {t.elem}{hint}")
    if not 0 <= axis < len(t.shape):
        raise OpTypeError(f"no axis {axis} in {t}")
    rest = (*t.shape[:axis], *t.shape[axis + 1 :])
    return (_made(t.elem, rest) if rest else t.elem,)


def _mma(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    x, y, acc = (_tile(a) for a in args)
    if any(len(t.shape) != 2 for t in (x, y, acc)):
        raise OpTypeError(f"multiplies matrices, got {x}, {y} and {acc}")
    if x.shape[1] != y.shape[0] or acc.shape != (x.shape[0], y.shape[1]):
        raise OpTypeError(f"shapes do not meet: {x} @ {y} + {acc}")
    bytes8 = attrs[0] in FLOATS8 and x.elem is y.elem is u8
    total = f32 if bytes8 else total_of(x.elem, y.elem)
    if total is None:
        raise OpTypeError(f"no product of {x.elem} and {y.elem}")
    if acc.elem is not total:
        raise OpTypeError(f"{x.elem} products are summed in {total}, not in {acc.elem}")
    if attrs[0] not in MATHS or not (attrs[0] == "strict" or bytes8 or x.elem is f32):
        raise OpTypeError(f"no math {attrs[0]!r} for {x.elem}")
    return (acc,)


def total_of(x: DType, y: DType) -> DType | None:
    """The dtype in which products of `x` and `y` are summed; None where they do not multiply."""
    if x is y and x in FLOATS:
        return f32
    if x.is_integer and y.is_integer and x.bits == y.bits == 8:
        return i32
    return None


# --- rows -----------------------------------------------------------------------------------------


def _threads(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    return (attrs[0],)


threads = defop(
    "threads",
    attrs="dtype",
    infer=_threads,
    traits=Trait.PURE | Trait.TILE,
    doc="The number of threads that share the work of a tile kernel's group; 1 before it is known.",
)
tile_read = defop(
    "tile_read",
    "buffer place*",
    attrs="shape axes steps site",
    infer=_read,
    traits=TOGETHER | Trait.READS,
    doc="The tile at a place of a view; elements outside the view are 0.",
)
tile_write = defop(
    "tile_write",
    "buffer place* value",
    attrs="shape axes steps",
    infer=_write,
    traits=TOGETHER | Trait.WRITES,
    doc="Writes a tile at a place of a view; elements outside the view are dropped.",
)
tile_gather = defop(
    "tile_gather",
    "buffer place* keep",
    attrs="axes steps site",
    infer=_gather,
    traits=TOGETHER | Trait.READS,
    doc="The elements of a view at tiles of indices; 0 where outside or not kept.",
)
tile_scatter = defop(
    "tile_scatter",
    "buffer place* keep value",
    attrs="axes steps",
    infer=_scatter,
    traits=TOGETHER | Trait.WRITES,
    doc="Writes elements of a view at tiles of indices, except where outside or not kept.",
)
tile_stage = defop(
    "tile_stage",
    "x",
    infer=_stage,
    traits=TOGETHER | Trait.READS | Trait.WRITES,
    doc="Group memory that holds the tile, seen by every thread; a new array each time it runs.",
)
tile_full = defop(
    "tile_full",
    "x",
    attrs="shape",
    infer=_full,
    traits=PURE,
    doc="A tile of equal elements.",
)
tile_iota = defop(
    "tile_iota",
    attrs="count dtype",
    infer=_iota,
    traits=PURE,
    doc="The numbers 0, 1, .. as a tile of one axis.",
)
tile_expand = defop(
    "tile_expand",
    "x",
    attrs="axis",
    infer=_expand,
    traits=PURE,
    doc="The tile with an axis of size 1 put before `axis`.",
)
tile_broadcast = defop(
    "tile_broadcast",
    "x",
    attrs="shape",
    infer=_broadcast,
    traits=PURE,
    doc="The tile with axes of size 1 repeated to `shape`, which has as many axes.",
)
tile_transpose = defop(
    "tile_transpose", "x", infer=_transpose, traits=PURE, doc="Rows become columns."
)
tile_reduce = defop(
    "tile_reduce",
    "x",
    attrs="kind axis",
    infer=_reduce,
    traits=PURE,
    doc="One axis combined by the row `kind` (add, mul, max, min, and, or) and gone, in no stated "
    "order; a tile of one axis becomes a scalar.",
)
mma = defop(
    "mma",
    "a b acc",
    attrs="math site",
    infer=_mma,
    traits=PURE,
    doc="acc + a @ b. Operands f32, f16 or bf16 are summed in f32, in no stated order and "
    "with products that are rounded at most once, i8 and u8 in i32, wrapping. `math` is for f32 "
    "operands: `strict` keeps them, `tf32` may drop all but 10 bits of their fractions, `split` "
    "may compute each product as three bf16 ones and make NaN of infinite operands. With `e4m3` or "
    "`e5m2` both operands are u8 whose bytes are such floats, and the sum is f32, of which a unit "
    "may keep 13 bits of fraction while it adds.",
)
