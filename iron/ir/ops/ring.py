"""Ring rows: slots of group memory that asynchronous copies fill while products read others.

These are ops of threads, made by `iron.tiles` for a target with bulk copies, mbarriers and
products of a warpgroup (128 neighbouring threads); no other backend spells them. A group is split
into roles: one thread of a producer fills slots, consumers of one warpgroup each read them.

**A part** is a matrix of group memory inside a slot. Its rows are cut into panels of 128 bytes, one
panel after the other; inside a panel the 16-byte chunks of a row are exchanged by
`targets.atoms.nvidia.swizzle(128)`. What lies where is known to copies and products alone: loads
and stores of threads never see a part.

**The protocol of a ring.** Slots are used in turn, and `phase` is 0 in the first round, 1 in the
second, 0 in the third. A producer claims a slot (which waits until each reader has freed it
`readers` times in all since the last claim; the first claim of a slot waits for nothing) and then
fills each part once. A consumer waits for the slot, reads it by products, awaits these, and frees
it once. Nothing is freed late: any number of slots works, one included.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from iron.dtypes import DType, bf16, bool_, f16, f32, i32, u8, u32, u64
from iron.ir.core import Block, Value
from iron.ir.floats8 import FLOATS8
from iron.ir.table import Infer, OpTypeError, Trait, defop
from iron.ir.types import Tensor, Type, tensor

PANEL_BYTES = 128
WARPGROUP = 128
EFFECT = Trait.READS | Trait.WRITES


def panel(t: Tensor) -> int:
    """Columns of a panel of a part."""
    return PANEL_BYTES // t.elem.bytes


def bytes_of(t: Tensor) -> int:
    """Bytes of an array whose shape is known."""
    return prod(t.shape) * t.elem.bytes


def _tensor(value: Value, space: str, rank: int) -> Tensor:
    t = value.type
    if not isinstance(t, Tensor) or t.space != space or t.rank != rank:
        raise OpTypeError(f"needs a {space} array of rank {rank}, got {t}")
    return t


def _whole(values: Sequence[Value]) -> None:
    for value in values:
        if not isinstance(value.type, DType) or not value.type.is_integer:
            raise OpTypeError(f"a place is an integer scalar, got {value.type}")


def _part(t: Any) -> Tensor:
    if not isinstance(t, Tensor) or t.space != "shared" or len(t.shape) != 2:
        raise OpTypeError(f"a part is a shared matrix of known size, not {t}")
    if t.shape[0] % 8 or t.shape[1] % panel(t):
        raise OpTypeError(f"a part has 8, 16, .. rows and whole panels of {panel(t)}, not {t}")
    return t


def _nothing(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    return ()


def _array(space: str, rank: int) -> Infer:
    def infer(
        args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]
    ) -> tuple[Type, ...]:
        t = attrs[0]
        if not isinstance(t, Tensor) or t.space != space or len(t.shape) != rank:
            raise OpTypeError(f"is a {space} array of rank {rank}, not {t}")
        return (t,)

    return infer


def _slots(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    (t,) = _array("shared", 3)(args, attrs, _)
    assert isinstance(t, Tensor)
    _part(tensor(t.elem, 2, "shared", t.shape[1:]))
    return (t,)


def _ring(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    parts, count, readers = attrs
    if count < 1 or readers < 1 or not parts:
        raise OpTypeError(f"{count} slots of {len(parts)} parts for {readers} readers")
    made = [_part(t) for t in parts]
    held = tuple(tensor(t.elem, 3, "shared", (count, *t.shape)) for t in made)
    return (tensor(u64, 1, "shared", (2 * count,)), *held)


def _turn(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    if args[0].op is None or args[0].op.name != "ring":
        raise OpTypeError("needs the barriers of a ring")
    if any(a.type is not i32 for a in args[1:]):
        raise OpTypeError("slot and phase are i32")
    return ()


def _box(part: Tensor, buffer: Value, attrs: tuple[Any, ...], place: Sequence[Value]) -> None:
    """A matrix of `buffer` whose columns are neighbours there, as a part."""
    t, (axes, sides, extents, ended) = buffer.type, attrs
    if not isinstance(t, Tensor) or t.space == "shared" or t.elem is not part.elem:
        raise OpTypeError(f"does not copy between {t} and {part}")
    if len(place) != t.rank + ended or len(extents) != t.rank:
        raise OpTypeError(f"{t.rank} axes, but a place of {len(place)} of {len(extents)}")
    if list(axes) != sorted(set(axes)) or axes[-1:] != (t.rank - 1,) or not t.packed:
        raise OpTypeError(f"axes {axes} are not rows and neighbours of {t}")
    if len(sides) != len(axes) - 1 or prod(sides) != part.shape[1] or (ended and len(sides) != 1):
        raise OpTypeError(f"rows of {sides} are not those of {part}")
    _whole(place)


def _copy(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    _turn(args[1:3], attrs, _)
    _box(_tensor(args[0], "shared", 3), args[3], attrs, args[4:])
    return ()


def _store(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    held = _tensor(args[0], "shared", 3)
    _whole(args[1:2])
    _box(held, args[2], attrs, args[3:])
    t = args[2].type
    if isinstance(t, Tensor) and t.space == "in":
        raise OpTypeError("cannot store to a read-only tensor")
    return ()


def _wgmma(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    total, a, b = args[0].type, _tensor(args[1], "shared", 3), _tensor(args[4], "shared", 3)
    _tensor(args[0], "registers", 1)
    assert isinstance(total, Tensor)
    *k_major, depth, floats = attrs
    whole = a.elem.is_integer and not floats
    if a.elem.bytes != b.elem.bytes or total.elem is not (i32 if whole else f32):
        raise OpTypeError(f"no product of {a} and {b} in {total}")
    if floats and (floats not in FLOATS8 or not a.elem is b.elem is u8):
        raise OpTypeError(f"{a} and {b} are no {floats!r}")
    if a.elem.bytes != 2 and k_major != [True, True]:
        raise OpTypeError(f"columns of {a} and {b} run along k")
    _whole([*args[2:4], args[5]])
    if args[6].type is not bool_:
        raise OpTypeError(f"`keep` is {args[6].type}, not bool")
    width = WARPGROUP // 64 * total.shape[0]
    meet = _holds(a, k_major[0], depth, 64) and _holds(b, k_major[1], depth, width)
    if not meet or depth * a.elem.bytes % 32:
        raise OpTypeError(f"shapes do not meet: {a} @ {b} in {total}, {depth} deep")
    return ()


def _holds(part: Tensor, k_major: bool, depth: int, width: int) -> bool:
    """True for a part that has `depth` along k and `width` along the sum; its last panel may have
    columns that are not read."""
    rows, columns = (width, depth) if k_major else (depth, width)
    return part.shape[1] >= rows and part.shape[2] >= columns


def _wgmma_a(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    total, words = (_tensor(a, "registers", 1) for a in args[:2])
    b = _tensor(args[2], "shared", 3)
    _whole(args[3:4])
    dtype, b_k = attrs
    if total.elem is not f32 or words.elem is not u32 or b.elem is not dtype:
        raise OpTypeError(f"no product of {words} as {dtype} and {b} in {total}")
    if not _holds(b, b_k, 4 * words.shape[0], WARPGROUP // 64 * total.shape[0]):
        raise OpTypeError(f"shapes do not meet: {words} @ {b} in {total}")
    if args[4].type is not bool_:
        raise OpTypeError(f"`keep` is {args[4].type}, not bool")
    return ()


def _pair(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    if any(a.type is not f32 for a in args) or attrs[0] not in (f16, bf16):
        raise OpTypeError(f"rounds two f32 to f16 or bf16, not {args} to {attrs[0]}")
    return (u32,)


def _compared(
    args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]
) -> tuple[Type, ...]:
    if any(a.type is not f32 for a in args):
        raise OpTypeError(f"compares two f32, not {args}")
    return (f32,)


def _neighbours(
    args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]
) -> tuple[Type, ...]:
    held = _tensor(args[0], "shared", 3)
    _whole(args[1:4])
    if len(args) not in (5, 6) or any(a.type is not held.elem for a in args[4:]):
        raise OpTypeError(f"stores one or two neighbours, not {args[4:]} into {held}")
    return ()


def _matrices(
    args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]
) -> tuple[Type, ...]:
    held = _tensor(args[0], "shared", 3)
    _whole(args[1:4])
    if held.elem.bytes != 2 or any(a.type is not u32 for a in args[4:]):
        raise OpTypeError(f"stores words of 16-bit pairs, not {args[4:]} into {held}")
    return ()


registers = defop(
    "registers",
    attrs="type",
    infer=_array("registers", 1),
    doc="An array of each thread's own that lies in registers; uninitialised. Every index is a "
    "constant once loops are written out.",
)
slots = defop(
    "slots",
    attrs="type",
    infer=_slots,
    doc="Group memory for parts that are copied in bulk: slots x rows x columns, uninitialised.",
)
ring = defop(
    "ring",
    attrs="parts slots readers",
    infer=_ring,
    doc="A ring of `slots` slots, each with one matrix for each of `parts`, that `readers` "
    "consumers read: its barriers, then the arrays of its parts. Every thread passes a `barrier` "
    "between this and its first use.",
)
ring_claim = defop(
    "ring_claim",
    "ring slot phase",
    infer=_turn,
    traits=EFFECT,
    doc="Waits until every reader has freed the slot, and promises the bytes of all its parts.",
)
ring_copy = defop(
    "ring_copy",
    "part ring slot source place*",
    attrs="axes sides extents ended",
    defaults=(False,),
    infer=_copy,
    traits=EFFECT,
    doc="Starts to fill a part of the slot with the matrix of `source` at `place`. `axes` are the "
    "axes of its rows, `sides` on each, the last fastest, and then that of its columns. "
    "`extents` gives the size of each axis of the source: the name of a dim, a number, or '' for "
    "the tensor's own; elements that are outside become 0. With `ended` an end follows the place, "
    "at most the axis' size: rows of the tensor from there on are outside; the place is 0 or more "
    "on that axis.",
)
ring_wait = defop(
    "ring_wait",
    "ring slot phase",
    infer=_turn,
    traits=EFFECT,
    doc="Waits until every part of the slot is filled.",
)
ring_free = defop(
    "ring_free",
    "ring slot",
    infer=_turn,
    traits=EFFECT,
    doc="This consumer reads the slot no more; every thread of its warpgroup gets here.",
)
wgmma = defop(
    "wgmma",
    "acc a a_slot a_row b b_slot keep",
    attrs="a_k b_k depth floats",
    defaults=("",),
    infer=_wgmma,
    traits=EFFECT,
    doc="Starts acc = a @ b + (acc where `keep`, else 0) in the warpgroup, acc 64 x n in the "
    "layout of `targets.atoms.nvidia.wgmma`. `a` is 64 of its rows from `a_row` on. `a_k` and "
    "`b_k` say that the columns of a part run along k, `depth` how many are read, of which the "
    "last panel may have more. `floats` names the 8-bit floats that "
    "bytes are. acc is not touched before the next `wgmma_wait`.",
)
wgmma_a = defop(
    "wgmma_a",
    "acc a b b_slot keep",
    attrs="dtype b_k",
    infer=_wgmma_a,
    traits=EFFECT,
    doc="`wgmma` whose `a` is 64 rows in registers: words of two elements of `dtype`, four for "
    "each 16 along k, in the layout of `targets.atoms.nvidia.wgmma`. They are not touched before "
    "the next `wgmma_wait`.",
)
wgmma_wait = defop(
    "wgmma_wait",
    attrs="pending",
    defaults=(0,),
    infer=_nothing,
    traits=EFFECT,
    doc="Waits until at most `pending` of the products that the warpgroup started run, the last.",
)
pair = defop(
    "pair",
    "low high",
    attrs="dtype",
    infer=_pair,
    traits=Trait.PURE,
    doc="Two f32 rounded to nearest even in `dtype`, in one word, `low` in its low half.",
)
greater = defop(
    "greater",
    "a b",
    infer=_compared,
    traits=Trait.PURE,
    doc="The greater of two f32; NaN if one is, and of two zeros either.",
)
lesser = defop(
    "lesser",
    "a b",
    infer=_compared,
    traits=Trait.PURE,
    doc="The lesser of two f32; NaN if one is, and of two zeros either.",
)
stmatrix = defop(
    "stmatrix",
    "to slot row column word0 word1 word2 word3",
    attrs="turned",
    defaults=(False,),
    infer=_matrices,
    traits=EFFECT,
    doc="A simdgroup writes 16 x 16 elements at (row, column) of a part, from words in the layout "
    "`targets.atoms.nvidia.STMATRIX_4`; their transpose if `turned`.",
)
part_store = defop(
    "part_store",
    "to slot row column value*",
    infer=_neighbours,
    traits=EFFECT,
    doc="Each thread writes one element, or two neighbours from an even column, at (row, column) "
    "of a part.",
)
fence_async = defop(
    "fence_async",
    infer=_nothing,
    traits=EFFECT,
    doc="What this thread wrote to group memory is seen by bulk copies that start after it.",
)
bulk_store = defop(
    "bulk_store",
    "from slot target place*",
    attrs="axes sides extents ended",
    defaults=(False,),
    infer=_store,
    traits=EFFECT,
    doc="One thread starts to write a part to `target`, as `ring_copy` reads; elements that are "
    "outside are dropped.",
)
bulk_wait = defop(
    "bulk_wait",
    attrs="pending read",
    infer=_nothing,
    traits=EFFECT,
    doc="Waits until at most `pending` of the bulk stores that this thread started are under way; "
    "with `read`, until they have read group memory.",
)
part_barrier = defop(
    "part_barrier",
    "number",
    attrs="threads",
    infer=_nothing,
    traits=EFFECT,
    doc="A barrier of `threads` threads, all those that come to this number (1 to 15).",
)
part_arrive = defop(
    "part_arrive",
    "number",
    attrs="threads",
    infer=_nothing,
    traits=EFFECT,
    doc="Comes to a barrier of `threads` threads without waiting there.",
)
register_limit = defop(
    "register_limit",
    attrs="count grow",
    infer=_nothing,
    traits=EFFECT,
    doc="From here on a thread of this warpgroup has `count` registers: more, or fewer.",
)
