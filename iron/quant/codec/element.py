"""One code to one number: minifloats, scales, tables and bit fields, as inlined arithmetic.

Every body works on scalars in a kernel and on numpy arrays outside. The integer forms need no
subnormal f16 or f32 on the target, except E8M0 code 0, whose value 2^-127 is one.
"""

from __future__ import annotations

from typing import Any

from iron.lang import bitcast, f16, f32, i8, i32, inline, table, u16, u32, where

V = Any


@inline
def signed(code: V, bits: int) -> V:
    """The low `bits` bits of a u32 read as two's complement, in f32."""
    return f32(bitcast(code << (32 - bits), i32) >> (32 - bits))


@inline
def unsigned(code: V) -> V:
    """A u32 below 2^31 in f32."""
    return f32(i32(code))


@inline
def byte_signed(byte: V) -> V:
    """A u8 read as two's complement, in f32."""
    return f32(bitcast(byte, i8))


@inline
def half(low: V, high: V) -> V:
    """The f16 of two bytes, low one first, in f32."""
    return f32(bitcast(u16(low) | (u16(high) << 8), f16))


@inline
def table_entry(entries: tuple[float, ...], code: V) -> V:
    """Entry `code` of a constant table, in f32."""
    return table(entries, f32)[code]


@inline
def minifloat(code: V, exponent: int, mantissa: int, bias: int) -> V:
    """sign * 2^(e - bias) * 1.m, or sign * 2^(1 - bias) * 0.m where e is 0, in f32.

    `code` is a u32 whose low 1 + exponent + mantissa bits are sign, e and m. No specials.
    Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.3.
    """
    magnitude = code & ((1 << (exponent + mantissa)) - 1)
    tiny = f32(i32(magnitude)) * 2.0 ** (1 - bias - mantissa)
    normal = (magnitude << (23 - mantissa)) + ((127 - bias) << 23)
    bits = where(magnitude < (1 << mantissa), bitcast(tiny, u32), normal)
    sign = (code >> (exponent + mantissa)) << 31
    return bitcast(bits | sign, f32)


@inline
def e4m3(code: V) -> V:
    """OCP E4M3FN of a u32 below 256; 0x7F and 0xFF are NaN."""
    return where((code & 0x7F) == 0x7F, f32(float("nan")), minifloat(code, 4, 3, 7))


@inline
def e5m2(code: V) -> V:
    """OCP E5M2 of a u32 below 256: the high byte of an f16, infinities and NaN included."""
    return f32(bitcast(u16(code) << 8, f16))


@inline
def unsigned_e4m3(code: V) -> V:
    """E4M3 of the low 7 bits of a u32 below 256, without NaN: 0x7F is 0, 0xFF is 480.

    Source: ggml, NVFP4 blocks.
    """
    return where(code == 0x7F, f32(0), minifloat(code & 0x7F, 4, 3, 7))


@inline
def e8m0(code: V) -> V:
    """2^(code - 127) for a u32 below 255; NaN for 255."""
    bits = where(code == 0, u32(0x00400000), code << 23)
    return bitcast(where(code == 255, u32(0x7FC00000), bits), f32)


@inline
def half_e8m0(code: V) -> V:
    """2^(code - 128) for every u32 below 256, 255 included. Source: ggml, MXFP4 blocks."""
    return bitcast(where(code < 2, u32(0x00200000) << code, (code - 1) << 23), f32)
