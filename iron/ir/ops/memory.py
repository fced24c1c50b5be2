"""Memory rows: loads, stores, atomics, shared arrays and constant tables.

Indices are given one per axis and have an integer dtype; a vector access takes neighbours along
the last axis, starting at its index.
"""

from collections.abc import Sequence
from typing import Any

from iron.dtypes import DType, i32, u32
from iron.ir.core import Block, Value
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import Matrix, Tensor, Tile, Type, element, vector

ATOMICS = ("add", "min", "max", "and", "or", "xor")


def _buffer(args: Sequence[Value], indices: Sequence[Value]) -> Tensor:
    t = args[0].type
    if not isinstance(t, Tensor):
        raise OpTypeError(f"needs a tensor, got {t}")
    if len(indices) != t.rank:
        raise OpTypeError(f"{t.rank} axes but {len(indices)} indices")
    for index in indices:
        if not isinstance(index.type, DType) or not index.type.is_integer:
            raise OpTypeError(f"an index is an integer scalar, got {index.type}")
    return t


def _load(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    t = _buffer(args, args[1:])
    return (vector(t.elem, attrs[0]) if attrs[0] else t.elem,)


def _store(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    t = _buffer(args, args[1:-1])
    value = args[-1].type
    if t.space in ("in", "table"):
        raise OpTypeError("cannot store to a read-only tensor")
    if isinstance(value, Tile):
        raise OpTypeError(f"{value} is written by `tile_write`")
    if isinstance(value, Matrix):
        raise OpTypeError(f"{value} is written by `matrix_store`")
    if isinstance(value, Tensor) or element(value) is not t.elem:
        raise OpTypeError(f"cannot store {value} into {t.elem}; write .to({t.elem})")
    return ()


def _atomic(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    t = _buffer(args, args[1:-1])
    if t.space not in ("shared", "inout") or t.elem not in (i32, u32):
        raise OpTypeError(f"atomics need u32 or i32 in shared or InOut memory, got {t}")
    if args[-1].type is not t.elem:
        raise OpTypeError(f"operand is {args[-1].type}, memory holds {t.elem}")
    if attrs[0] not in ATOMICS:
        raise OpTypeError(f"no atomic called {attrs[0]}")
    return (t.elem,)


def _prefetch(
    args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]
) -> tuple[Type, ...]:
    _buffer(args, args[1:])
    return ()


def _place(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    return (attrs[0],)


load = defop(
    "load",
    "buffer index*",
    attrs="count",
    infer=_load,
    traits=Trait.READS,
    doc="The element at the indices, or `count` neighbours along the last axis (0: one scalar).",
)
store = defop(
    "store",
    "buffer index* value",
    infer=_store,
    traits=Trait.WRITES,
    doc="Writes the value at the indices; a vector writes neighbours along the last axis.",
)
atomic = defop(
    "atomic",
    "buffer index* value",
    attrs="kind",
    infer=_atomic,
    traits=Trait.READS | Trait.WRITES,
    doc="Combines the value into one element without interruption, relaxed; the old element.",
)
prefetch = defop(
    "prefetch",
    "buffer index*",
    infer=_prefetch,
    traits=Trait.HINT,
    doc="The element at the indices will be read soon; it may lie outside of the buffer.",
)
shared = defop(
    "shared",
    attrs="type",
    infer=_place,
    traits=Trait.NONE,
    doc="An array that belongs to the group; its elements start uninitialised.",
)
table = defop(
    "table",
    attrs="type data",
    infer=_place,
    traits=Trait.PURE,
    doc="A constant array; `data` holds its elements in memory order as bytes.",
)
