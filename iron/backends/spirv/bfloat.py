"""bf16 bits from f32: by the device's conversion where it rounds to nearest even, or in integers.

The upper half of an f32 is its bf16, so the way back is a shift or a mask on every device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iron.backends.spirv.words import BFLOAT16, Capability, Code

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder
    from iron.backends.spirv.module import Module

EXTENSION = "SPV_KHR_bfloat16"
UPPER = 0xFFFF0000


def to_f32(m: Module, bits: int) -> int:
    """The f32 of bf16 bits in a word; exact."""
    return m.put(Code.Bitcast, m.f32, m.op(Code.ShiftLeftLogical, bits, m.number(16)))


def half_to_f32(m: Module, word: int, half: int) -> int:
    """The f32 of the bf16 in the lower or upper half of a word."""
    if not half:
        return to_f32(m, word)
    return m.put(Code.Bitcast, m.f32, m.op(Code.BitwiseAnd, word, m.number(UPPER)))


def from_f32(e: Encoder, x: int) -> int:
    """The bf16 bits of an f32 in a word, rounded to nearest even; NaN stays one."""
    m = e.m
    if e.target.has("exact_bfloat"):
        return _converted(m, x, m.real(0.0))
    return m.op(Code.ShiftRightLogical, _rounded(m, x), m.number(16))


def word_of(e: Encoder, low: int, high: int) -> int:
    """A word of the bf16 of two f32."""
    m = e.m
    if e.target.has("exact_bfloat"):
        return _converted(m, low, high)
    lower = m.op(Code.ShiftRightLogical, _rounded(m, low), m.number(16))
    upper = m.op(Code.BitwiseAnd, _rounded(m, high), m.number(UPPER))
    return m.op(Code.BitwiseOr, upper, lower)


def _converted(m: Module, low: int, high: int) -> int:
    m.need(Capability.BFloat16Type)
    m.extend(EXTENSION)
    half = m.once(Code.TypeFloat, 16, BFLOAT16)
    both = m.put(Code.CompositeConstruct, m.once(Code.TypeVector, m.f32, 2), low, high)
    narrow = m.put(Code.FConvert, m.once(Code.TypeVector, half, 2), both)
    return m.put(Code.Bitcast, m.u32, narrow)


def _rounded(m: Module, x: int) -> int:
    """The bits of x, of which the upper half is the bf16."""
    bits = m.put(Code.Bitcast, m.u32, x)
    odd = m.op(Code.BitwiseAnd, m.op(Code.ShiftRightLogical, bits, m.number(16)), m.number(1))
    moved = m.op(Code.IAdd, m.op(Code.IAdd, bits, m.number(0x7FFF)), odd)
    return m.select(m.test(Code.FUnordNotEqual, x, x), m.number(0x7FC00000), moved)
