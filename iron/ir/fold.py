"""Folding: what an op with these operands already is, without emitting it.

Only identities that hold for every bit pattern are here: a float `x + 0` is not one, since it
changes -0. Values are computed by the rows' `ref`, never by other code.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from iron.dtypes import DType, bool_
from iron.ir import scalar
from iron.ir.core import Value, const_of, is_const
from iron.ir.table import OpDef, Trait
from iron.ir.types import Tile, Vector, element, like

if TYPE_CHECKING:
    from iron.ir.build import Builder


def fold(b: Builder, row: OpDef, args: Sequence[Value], attrs: tuple[Any, ...]) -> Value | None:
    """The value that stands for the op, or None when it has to be emitted.

    Operands that the row does not take raise OpTypeError, folded or not.
    """
    if row.ref is not None and len(args) != len(row.operands):
        return None
    found = _fold(b, row, args, attrs)
    if found is not None:
        row.infer(args, attrs, ())
    return found


def _fold(b: Builder, row: OpDef, args: Sequence[Value], attrs: tuple[Any, ...]) -> Value | None:
    if row.ref is not None and _all_constant(args):
        return _computed(b, row, args, attrs)
    if row.unit:
        found = _identity(row, args)
        if found is not None:
            return found
    if row.name in _ZEROS and (zero := _absorbed(row, args)) is not None:
        return zero
    if len(args) == 2 and args[0] is args[1] and (same := _of_itself(b, row, args[0])) is not None:
        return same
    rule = _RULES.get(row.name)
    return rule(args, attrs) if rule else None


def _all_constant(args: Sequence[Value]) -> bool:
    """True where no operand is unknown; the first one nearly always decides."""
    if not args or _splat_const(args[0]) is None:
        return False
    return all(_splat_const(a) is not None for a in args[1:])


def _splat_const(value: Value) -> Any:
    """The scalar of a constant, or of a vector or tile of one; None for anything else."""
    op = value.op
    if op is None:
        return None
    if op.name == "const":
        return op.attrs[0]
    if op.name in _SPREADING and is_const(op.args[0]):
        return const_of(op.args[0])
    return None


_SPREADING = ("splat", "tile_full")


def _computed(
    b: Builder, row: OpDef, args: Sequence[Value], attrs: tuple[Any, ...]
) -> Value | None:
    assert row.ref is not None
    if row.name == "bitcast" and element(args[0].type).bits != attrs[0].bits:
        return None
    with scalar.quiet():
        result = row.ref(*[_splat_const(a) for a in args], *attrs)
    (t,) = row.infer(args, attrs, ())
    return b.const(np.asarray(result).astype(element(t).np)[()], t)


def _identity(row: OpDef, args: Sequence[Value]) -> Value | None:
    dtype = element(args[0].type)
    if dtype.kind not in row.unit:
        return None
    unit = _unit(row, dtype)
    if _is(args[1], unit):
        return args[0]
    if row.has(Trait.COMMUTATIVE) and _is(args[0], unit):
        return args[1]
    return None


@cache
def _unit(row: OpDef, dtype: DType) -> bytes:
    return scalar.cast(row.unit[dtype.kind], dtype).tobytes()


_ZEROS = {"mul": 0, "and": 0, "or": -1}
"""The constant that swallows the other operand, for integers and bool."""


def _absorbed(row: OpDef, args: Sequence[Value]) -> Value | None:
    dtype = element(args[0].type)
    if dtype.is_float:
        return None
    zero = _zero(row, dtype)
    return next((a for a in args if _is(a, zero)), None)


@cache
def _zero(row: OpDef, dtype: DType) -> bytes:
    return scalar.cast(_ZEROS[row.name], dtype).tobytes()


def _of_itself(b: Builder, row: OpDef, x: Value) -> Value | None:
    """x op x for integers and bool."""
    if element(x.type).is_float:
        return None
    if row.name in ("and", "or", "min", "max"):
        return x
    if row.name in ("sub", "xor"):
        return b.const(0, x.type)
    if row.name in _REFLEXIVE:
        return b.const(_REFLEXIVE[row.name], like(x.type, bool_))
    return None


_REFLEXIVE = {"eq": True, "le": True, "ge": True, "ne": False, "lt": False, "gt": False}


def _is(value: Value, wanted: bytes) -> bool:
    have = _splat_const(value)
    return have is not None and have.tobytes() == wanted


def _where(args: Sequence[Value], attrs: tuple[Any, ...]) -> Value | None:
    condition = _splat_const(args[0])
    if condition is None:
        return args[1] if args[1] is args[2] else None
    return args[1] if condition else args[2]


def _cast(args: Sequence[Value], attrs: tuple[Any, ...]) -> Value | None:
    return args[0] if element(args[0].type) is attrs[0] else None


def _bitcast(args: Sequence[Value], attrs: tuple[Any, ...]) -> Value | None:
    return args[0] if element(args[0].type) is attrs[0] else None


def _extract(args: Sequence[Value], attrs: tuple[Any, ...]) -> Value | None:
    op = args[0].op
    if op is None:
        return None
    if op.row.name == "pack":
        return op.args[attrs[0]]
    return op.args[0] if op.row.name == "splat" else None


def _pack(args: Sequence[Value], attrs: tuple[Any, ...]) -> Value | None:
    """Taking a vector apart and packing it again in order is that vector."""
    first = args[0].op
    if first is None or first.row.name != "extract":
        return None
    source = first.args[0]
    if not isinstance(source.type, Vector) or source.type.count != len(args):
        return None
    for i, arg in enumerate(args):
        op = arg.op
        if op is None or op.row.name != "extract" or op.args[0] is not source or op.attrs[0] != i:
            return None
    return source


def _reshaped(args: Sequence[Value], attrs: tuple[Any, ...]) -> Value | None:
    t = args[0].type
    return args[0] if isinstance(t, Tile) and t.shape == attrs[0] else None


def _transposed(args: Sequence[Value], attrs: tuple[Any, ...]) -> Value | None:
    op = args[0].op
    return op.args[0] if op is not None and op.row.name == "tile_transpose" else None


_RULES = {
    "where": _where,
    "cast": _cast,
    "bitcast": _bitcast,
    "extract": _extract,
    "pack": _pack,
    "tile_broadcast": _reshaped,
    "tile_transpose": _transposed,
}
