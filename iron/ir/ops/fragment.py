"""Matrices that a simdgroup holds in an order of its own: from group memory, multiplied, and back.

They are ops of threads, made by `iron.tiles` for targets whose matrices are opaque: which lane
holds which element is nobody's business but the device's.
"""

from collections.abc import Sequence
from typing import Any

from iron.dtypes import u32
from iron.ir.core import Block, Value
from iron.ir.ops.matrix import TOTALS
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import DType, Matrix, Tensor, Type


def _of(type: Any) -> Matrix:
    if not isinstance(type, Matrix):
        raise OpTypeError(f"needs the type of a matrix, got {type}")
    return type


def _full(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    made = _of(attrs[0])
    if args[0].type is not made.elem:
        raise OpTypeError(f"needs {made.elem}, got {args[0].type}")
    return (made,)


def _place(args: Sequence[Value], held: Matrix) -> None:
    """An array of group memory and its indices."""
    t = args[0].type
    words = isinstance(t, Tensor) and t.elem is u32 and held.elem.bytes < u32.bytes
    if not isinstance(t, Tensor) or t.space != "shared" or (t.elem is not held.elem and not words):
        raise OpTypeError(f"needs group memory of {held.elem}, got {t}")
    if len(args) - 1 != t.rank or t.rank < 2:
        raise OpTypeError(f"{t.rank} axes but {len(args) - 1} indices")
    for index in args[1:]:
        if not isinstance(index.type, DType) or not index.type.is_integer:
            raise OpTypeError(f"an index is an integer scalar, got {index.type}")


def _load(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    made = _of(attrs[0])
    _place(args, made)
    return (made,)


def _store(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    _place(args[:-1], _of(args[-1].type))
    return ()


def _mma(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    a, b, acc = (_of(v.type) for v in args)
    uses = tuple(m.use for m in (a, b, acc))
    if uses != ("a", "b", "acc") or a.elem is not b.elem:
        raise OpTypeError(f"no product of {a} and {b} on {acc}")
    if (a.rows, a.columns, b.columns) != (acc.rows, b.rows, acc.columns):
        raise OpTypeError(f"the sides of {a}, {b} and {acc} do not meet")
    if TOTALS.get(a.elem.name, a.elem) is not acc.elem:
        raise OpTypeError(f"products of {a.elem} are not summed in {acc.elem}")
    return (acc,)


matrix_full = defop(
    "matrix_full",
    "value",
    attrs="type",
    infer=_full,
    traits=Trait.COLLECTIVE,
    doc="A matrix of copies of a number.",
)
matrix_load = defop(
    "matrix_load",
    "buffer index*",
    attrs="type turned",
    infer=_load,
    traits=Trait.READS | Trait.COLLECTIVE,
    doc="The matrix in group memory whose first element is at the indices; its rows lie along the "
    "last axis, `turned` its columns. Words of u32 hold two or four narrow elements each. All "
    "lanes of a simdgroup give the same place.",
)
matrix_store = defop(
    "matrix_store",
    "buffer index* value",
    infer=_store,
    traits=Trait.WRITES | Trait.COLLECTIVE,
    doc="Writes a matrix to group memory from the element at the indices on, rows along the last "
    "axis.",
)
matrix_mma = defop(
    "matrix_mma",
    "a b acc",
    infer=_mma,
    traits=Trait.COLLECTIVE,
    doc="acc + a @ b by a simdgroup. Floats are summed in no stated order.",
)
