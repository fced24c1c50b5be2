"""Conversion and vector rows: constants, casts, bit casts, packing and taking apart."""

from collections.abc import Sequence
from typing import Any

from iron.dtypes import DType
from iron.ir import scalar
from iron.ir.core import Block, Value
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import MAX_VECTOR, Tensor, Tile, Type, Vector, element, tile, vector

PURE = Trait.PURE


def _const(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    return (attrs[1],)


def _splat(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    if not isinstance(args[0].type, DType):
        raise OpTypeError(f"spreads a scalar, got {args[0].type}")
    return (vector(args[0].type, attrs[0]),)


def _pack(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    first = args[0].type
    if not isinstance(first, DType) or any(a.type is not first for a in args):
        raise OpTypeError(f"needs scalars of one dtype, got {[str(a.type) for a in args]}")
    if len(args) > MAX_VECTOR:
        raise OpTypeError(f"a vector has at most {MAX_VECTOR} elements, not {len(args)}")
    return (vector(first, len(args)),)


def _extract(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    t = args[0].type
    if not isinstance(t, Vector):
        raise OpTypeError(f"takes an element of a vector, got {t}")
    if not 0 <= attrs[0] < t.count:
        raise OpTypeError(f"element {attrs[0]} of a vector of {t.count}")
    return (t.elem,)


def _bitcast(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    t, to = args[0].type, attrs[0]
    if isinstance(t, Tensor) or element(t).kind == "b" or to.kind == "b":
        raise OpTypeError(f"no bit cast from {t} to {to}")
    if isinstance(t, Tile):
        if to.bits != t.elem.bits:
            raise OpTypeError(f"{t} keeps its elements' width: {to} has another")
        return (tile(to, t.shape),)
    total = element(t).bits * (t.count if isinstance(t, Vector) else 1)
    if total % to.bits:
        raise OpTypeError(f"{t} does not divide into elements of {to}")
    if isinstance(t, DType) and to.bits == t.bits:
        return (to,)
    return (vector(to, total // to.bits),)


const = defop(
    "const",
    attrs="value dtype",
    infer=_const,
    traits=PURE,
    doc="A compile-time scalar, held as a numpy scalar of its dtype.",
)
cast = defop(
    "cast",
    "x",
    attrs="to",
    sig="T->x",
    kinds="fiubs",
    traits=PURE | Trait.ELEMENTWISE,
    ref=scalar.cast,
    doc="x converted: floats round to nearest even, float to integer saturates, NaN becomes 0.",
)
bitcast = defop(
    "bitcast",
    "x",
    attrs="to",
    infer=_bitcast,
    traits=PURE,
    ref=scalar.bitcast,
    doc="The same bits as other elements; the sign and payload of a NaN are unspecified.",
)
splat = defop(
    "splat", "x", attrs="count", infer=_splat, traits=PURE, doc="A vector of equal elements."
)
pack = defop("pack", "x*", infer=_pack, traits=PURE, doc="A vector of the given scalars.")
extract = defop(
    "extract", "x", attrs="at", infer=_extract, traits=PURE, doc="One element of a vector."
)
