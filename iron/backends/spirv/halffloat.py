"""f16 bits to f32 and back: the device's conversions, or the same in integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iron.backends.spirv.words import Capability, Code

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder
    from iron.backends.spirv.module import Module


def to_f32(e: Encoder, bits: int) -> int:
    """The f32 of f16 bits in a word; exact."""
    m = e.m
    if not e.target.has("float16"):
        return _widened(m, bits)
    half, pair = types(m)
    both = m.put(Code.Bitcast, pair, bits)
    return m.put(Code.FConvert, m.f32, m.put(Code.CompositeExtract, half, both, 0))


def from_f32(e: Encoder, x: int) -> int:
    """The f16 bits of an f32, rounded to nearest even."""
    m = e.m
    if not e.target.has("float16"):
        return narrowed(m, x)
    half, pair = types(m)
    zero = m.once(Code.Constant, 0, of=half)
    both = m.put(Code.CompositeConstruct, pair, m.put(Code.FConvert, half, x), zero)
    return m.put(Code.Bitcast, m.u32, both)


def word_of(e: Encoder, low: int, high: int) -> int:
    """A word of the f16 of two f32, on a device that has them."""
    m = e.m
    _, pair = types(m)
    both = m.put(Code.CompositeConstruct, m.once(Code.TypeVector, m.f32, 2), low, high)
    return m.put(Code.Bitcast, m.u32, m.put(Code.FConvert, pair, both))


def types(m: Module) -> tuple[int, int]:
    """The types of an f16 and of two."""
    m.need(Capability.Float16)
    half = m.once(Code.TypeFloat, 16)
    return half, m.once(Code.TypeVector, half, 2)


def _widened(m: Module, bits: int) -> int:
    """Normal numbers move their exponent; below them the fraction counts 2^-24."""
    sign = m.op(Code.ShiftLeftLogical, m.op(Code.BitwiseAnd, bits, m.number(0x8000)), m.number(16))
    size = m.op(Code.BitwiseAnd, bits, m.number(0x7FFF))
    shifted = m.op(Code.ShiftLeftLogical, size, m.number(13))
    normal = m.op(Code.IAdd, shifted, m.number(112 << 23))
    beyond = m.op(Code.BitwiseOr, shifted, m.number(0x7F800000))
    tiny = m.exact(m.op(Code.FMul, m.put(Code.ConvertUToF, m.f32, size), m.real(2.0**-24)))
    small = m.test(Code.ULessThan, size, m.number(0x0400))
    large = m.test(Code.UGreaterThanEqual, size, m.number(0x7C00))
    value = m.select(large, beyond, normal)
    value = m.select(small, m.put(Code.Bitcast, m.u32, tiny), value)
    return m.put(Code.Bitcast, m.f32, m.op(Code.BitwiseOr, value, sign))


def narrowed(m: Module, x: int) -> int:
    """The f16 bits of an f32 in integers: no compiler takes them for x.

    Adding 0.5 leaves a small number's multiple of 2^-24 in the low bits, rounded."""
    whole = m.put(Code.Bitcast, m.u32, x)
    sign = m.op(
        Code.BitwiseAnd, m.op(Code.ShiftRightLogical, whole, m.number(16)), m.number(0x8000)
    )
    size = m.op(Code.BitwiseAnd, whole, m.number(0x7FFFFFFF))
    odd = m.op(Code.BitwiseAnd, m.op(Code.ShiftRightLogical, size, m.number(13)), m.number(1))
    moved = m.op(Code.IAdd, size, m.number((0xFFF - (112 << 23)) & 0xFFFFFFFF))
    normal = m.op(Code.ShiftRightLogical, m.op(Code.IAdd, moved, odd), m.number(13))
    summed = m.exact(m.op(Code.FAdd, m.put(Code.Bitcast, m.f32, size), m.real(0.5)))
    tiny = m.op(Code.ISub, m.put(Code.Bitcast, m.u32, summed), m.number(0x3F000000))
    nan = m.test(Code.UGreaterThan, size, m.number(0x7F800000))
    beyond = m.select(nan, m.number(0x7E00), m.number(0x7C00))
    large = m.test(Code.UGreaterThanEqual, size, m.number(0x47800000))
    small = m.test(Code.ULessThan, size, m.number(0x38800000))
    value = m.select(large, beyond, m.select(small, tiny, normal))
    return m.op(Code.BitwiseOr, value, sign)
