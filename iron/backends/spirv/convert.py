"""Conversions as SPIR-V. A 16-bit float is its bits; conversions pass through f32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iron.backends.spirv import bfloat, halffloat, pairs
from iron.backends.spirv.register import joined, wrapped
from iron.backends.spirv.words import Code
from iron.dtypes import DType, f16, f32
from iron.ir.core import Op
from iron.ir.types import Vector, element

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder, Rule


def const(e: Encoder, op: Op) -> None:
    """Constants are declared where they are first used."""


def cast(e: Encoder, op: Op) -> None:
    """x converted: floats round to nearest even, float to integer saturates, NaN becomes 0.

    Some compilers take f16(x) back in f32 for x, in some kernels only: an f16 that is used is
    rounded in integers.
    """
    have, to = element(op.args[0].type), op.attrs[0]
    if op.args[0] in e.pairs.held:
        x, have = pairs.widened(e, op.args[0]), f32
    else:
        x = e.id(op.args[0])
    if op.results[0] in e.pairs.narrowed:
        e.pairs.source[op.results[0]] = converted(e, x, have, f32)
        return
    if op.results[0] in e.read_back and have is not f16:
        e.set(op, halffloat.narrowed(e.m, converted(e, x, have, f32)))
        return
    e.set(op, converted(e, x, have, to))


def converted(e: Encoder, x: int, have: DType, to: DType) -> int:
    """`x` of dtype `have` as `to`."""
    m = e.m
    if have is to:
        return x
    if have.kind == "s":
        return converted(e, _widened(e, x, have), f32, to)
    if have.kind == "b":
        one, none = (e.constant(_number(v, to), to) for v in (1, 0))
        return m.select(x, one, none)
    if have.kind == "f":
        return _from_f32(e, x, to)
    if to.kind == "b":
        return m.test(Code.INotEqual, x, e.constant(0, have))
    if to.is_float:
        code = Code.ConvertSToF if have.kind == "i" else Code.ConvertUToF
        return converted(e, m.put(code, m.f32, x), f32, to)
    return _resized(e, x, have, to)


def _number(value: int, to: DType) -> object:
    return to.np.type(value)


def _resized(e: Encoder, x: int, have: DType, to: DType) -> int:
    """An integer at another width or sign; the lower bits are kept."""
    m = e.m
    if have.bits == 64 and to.bits < 64:
        x = m.put(Code.UConvert, m.u32, x)
    elif have.bits < 64 and to.bits == 64:
        if have.kind == "i" and have.bits < 32:
            # Mesa 22.3 compares a byte that SConvert made 64 bits wide with 0 as if it were above.
            return joined(m, x, m.put(Code.ShiftRightArithmetic, m.u32, x, m.number(31)))
        return m.put(Code.SConvert if have.kind == "i" else Code.UConvert, m.u64, x)
    return wrapped(m, to, x)


def _widened(e: Encoder, x: int, have: DType) -> int:
    if have is f16:
        return halffloat.to_f32(e, x)
    return bfloat.to_f32(e.m, x)


def _from_f32(e: Encoder, x: int, to: DType) -> int:
    m = e.m
    if to is f32:
        return x
    if to.kind == "b":
        return m.test(Code.FUnordNotEqual, x, m.real(0.0))
    if to.kind == "s":
        return halffloat.from_f32(e, x) if to is f16 else bfloat.from_f32(e, x)
    return _saturated(e, x, to)


def _saturated(e: Encoder, x: int, to: DType) -> int:
    """Beyond the range the nearest end, NaN to 0; the ends are exact powers of two.

    Mesa takes an integer that became a float and an integer again for what it was.
    """
    m, x = e.m, e.hidden(x)
    signed = to.kind == "i"
    code = Code.ConvertFToS if signed else Code.ConvertFToU
    inside = m.put(code, e.held(to), x)
    high = m.real(2.0 ** (to.bits - signed))
    low = m.real(-(2.0 ** (to.bits - 1)) if signed else 0.0)
    most, least, zero = (e.constant(_number(v, to), to) for v in (to.max, to.min, 0))
    out = m.select(m.test(Code.FOrdGreaterThanEqual, x, high), most, inside)
    out = m.select(m.test(Code.FOrdLessThanEqual, x, low), least, out)
    return m.select(m.test(Code.FUnordNotEqual, x, x), zero, out)


def bitcast(e: Encoder, op: Op) -> None:
    """The same bits as another dtype of the same width."""
    m, (x,) = e.m, [e.id(a) for a in op.args]
    have, to = element(op.args[0].type), op.attrs[0]
    if (have is f32) != (to is f32):
        made = m.put(Code.Bitcast, e.held(to), x)
    else:
        made = x if have is f32 else wrapped(m, to, x)
    e.set(op, made)


def pack(e: Encoder, op: Op) -> None:
    """The scalars, for the store that writes them."""
    if op in e.pairs.packs:
        return
    e.parts[op.results[0]] = [e.id(a) for a in op.args]


def extract(e: Encoder, op: Op) -> None:
    """An element of a wide load."""
    assert isinstance(op.args[0].type, Vector)
    if op.args[0] in e.pairs.words:
        e.pairs.held[op.results[0]] = e.pairs.words[op.args[0]][op.attrs[0] // 2], op.attrs[0] % 2
        return
    e.set(op, e.parts[op.args[0]][op.attrs[0]])


RULES: dict[str, Rule] = {
    "const": const,
    "cast": cast,
    "bitcast": bitcast,
    "pack": pack,
    "extract": extract,
}
