"""Encoding, one element at a time: what kernels that write quantised data inline.

The same functions run eagerly on numpy. Nothing raises here: a NaN becomes zero and what lies
beyond the range takes the largest magnitude, as a kernel cannot refuse.
"""

from __future__ import annotations

from typing import Any

from iron.lang import bitcast, f32, floor, i32, inline, maximum, minimum, rint, u32, where

V = Any


@inline
def small_float(x: V, exponent: int, mantissa: int, bias: int, largest: float) -> V:
    """The nearest code of a small float, ties to even, saturating at `largest`, as u32."""
    raw = bitcast(x, u32)
    size = raw & 0x7FFFFFFF
    size = where(size > 0x7F800000, u32(0), size)
    size = minimum(size, bitcast(f32(largest), u32))
    half = (1 << (22 - mantissa)) - 1
    kept = (size + half + ((size >> (23 - mantissa)) & 1)) >> (23 - mantissa)
    normal = kept - ((127 - bias) << mantissa)
    steps = rint(bitcast(size, f32) * 2.0 ** (bias - 1 + mantissa))
    tiny = u32(minimum(steps, f32(1 << mantissa)))
    code = where(size < ((128 - bias) << 23), tiny, normal)
    return code | ((raw >> 31) << (exponent + mantissa))


@inline
def e2m1_code(x: V) -> V:
    """OCP E2M1."""
    return small_float(x, 2, 1, 1, 6.0)


@inline
def e4m3_code(x: V) -> V:
    """OCP E4M3FN; never NaN."""
    return small_float(x, 4, 3, 7, 448.0)


@inline
def e5m2_code(x: V) -> V:
    """OCP E5M2; infinities stay infinite."""
    code = small_float(x, 5, 2, 15, 57344.0)
    infinite = (bitcast(x, u32) & 0x7FFFFFFF) == 0x7F800000
    return where(infinite, (code & 128) | 0x7C, code)


@inline
def power_floor(amax: V, emax: int) -> V:
    """The E8M0 code of floor(log2 amax) - emax, at least 0, as u32; 127 for 0."""
    field = i32(bitcast(amax, u32) >> 23) - emax
    return where(amax == 0, u32(127), u32(maximum(field, i32(0))))


@inline
def power_ceil(amax: V, largest: float) -> V:
    """The E8M0 code of ceil(log2(amax / largest)), at least 0, as u32; 127 for 0."""
    ratio = amax / f32(largest)
    raw = bitcast(ratio, u32)
    code = (raw >> 23) + where((raw & 0x7FFFFF) == 0, u32(0), u32(1))
    code = where(ratio <= 2.0**-127, u32(0), code)
    return where(amax == 0, u32(127), code)


@inline
def span_scale(low: V, high: V, bits: int) -> V:
    """(high - low) / (2^bits - 1), 1 where both are equal: the scale of a cache's group."""
    span = high - low
    return where(span == 0, f32(1), span / f32((1 << bits) - 1))


@inline
def span_code(x: V, scale: V, bias: V, bits: int) -> V:
    """floor((x - bias) / scale + 0.5) within 0 .. 2^bits - 1, as u32."""
    q = floor((x - bias) / scale + 0.5)
    return u32(minimum(maximum(q, f32(0)), f32((1 << bits) - 1)))


@inline
def symmetric_code(x: V, scale: V, bits: int) -> V:
    """rint(x / scale) within +-(2^(bits - 1) - 1), as i32."""
    top = f32((1 << (bits - 1)) - 1)
    return i32(minimum(maximum(rint(x / scale), -top), top))
