"""Encoding, one element or one group at a time: what kernels that write quantised data inline.

All but the last two run eagerly on numpy too. Nothing raises here: a NaN becomes zero and what lies
beyond the range takes the largest magnitude, as a kernel cannot refuse.
"""

from __future__ import annotations

from math import frexp
from typing import Any

from iron.lang import (
    absolute,
    bitcast,
    f32,
    floor,
    group_max,
    group_min,
    i32,
    inf,
    inline,
    maximum,
    minimum,
    rint,
    strided,
    u8,
    u16,
    u32,
    unrolled,
    where,
)
from iron.quant.codec.element import e8m0
from iron.quant.format import Elem, Format, Rule, Scale
from iron.quant.format.regular import LARGEST

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


# --- a group of neighbours ------------------------------------------------------------------------

TINY = 1e-7


def top(fmt: Format) -> float:
    """The greatest magnitude that an encoder of this format gives an element."""
    if fmt.elem in LARGEST:
        return LARGEST[fmt.elem]
    whole = float((1 << (fmt.bits - 1)) - 1)
    return whole * 2.0 ** (2 - fmt.bits) if fmt.elem is Elem.FIXED else whole


def layout(fmt: Format) -> tuple[int, int, int]:
    """Exponent bits, mantissa bits and bias of a small float; zeros for other elements."""
    known = {
        Elem.E2M1: (2, 1, 1),
        Elem.E2M3: (2, 3, 1),
        Elem.E3M2: (3, 2, 3),
        Elem.E4M3: (4, 3, 7),
        Elem.E5M2: (5, 2, 15),
    }
    return known.get(fmt.elem, (0, 0, 0))


@inline
def not_below(x: V, dtype: V) -> V:
    """A non-negative f32 in a float type, never smaller; NaN and infinity stay what they are."""
    held = x.to(dtype)
    if dtype is f32:
        return held
    raw = bitcast(held, u16)
    return bitcast(where(held.to(f32) < x, raw + 1, raw), dtype)


@inline
def group_scale(fmt: Format, low: V, high: V, dtype: V) -> V:
    """(stored, f32) scale of a group with these extremes, for formats without a bias.

    A group with NaN or infinity has a scale that is not finite: NaN, infinity or E8M0 255.
    """
    amax = maximum(absolute(low), absolute(high))
    if fmt.scale is Scale.E8M0:
        emax = frexp(top(fmt))[1] - 1
        code = power_floor(amax, emax) if fmt.rule is Rule.FLOOR else power_ceil(amax, top(fmt))
        code = where(amax < inf, minimum(code, u32(254)), u32(255))
        return code.to(dtype), e8m0(code)
    held = not_below(where(amax == 0, f32(1), amax / f32(top(fmt))), dtype)
    return held, held.to(f32)


@inline
def group_bias(fmt: Format, low: V, high: V, dtype: V) -> V:
    """(stored scale, stored bias, scale, bias) of a group with these extremes, for affine formats.

    MINMAX codes against the stored factors; EDGE, MLX's rule, against those in f32.
    """
    if fmt.rule is Rule.MINMAX:
        scale, bias = span_scale(low, high, fmt.bits).to(dtype), low.to(dtype)
        return scale, bias, scale.to(f32), bias.to(f32)
    at_low = absolute(low) > absolute(high)
    size = maximum((high - low) / f32((1 << fmt.bits) - 1), f32(TINY))
    scale = where(at_low, size, -size)
    end = where(at_low, low, high)
    steps = rint(end / scale)
    scale = where(steps != 0, end / where(steps != 0, steps, f32(1)), scale)
    bias = where(steps != 0, end, f32(0))
    return scale.to(dtype), bias.to(dtype), scale, bias


@inline
def affine_code(fmt: Format, x: V, scale: V, bias: V) -> V:
    """The code of x in a format with a bias, as u32; 0 for NaN."""
    if fmt.rule is Rule.MINMAX:
        return span_code(x, scale, bias, fmt.bits)
    q = rint((x - bias) / scale)
    return u32(minimum(maximum(q, f32(0)), f32((1 << fmt.bits) - 1)))


@inline
def scaled_code(fmt: Format, x: V, scale: V) -> V:
    """The code of x in a format without a bias, as u32; zero for what is not finite."""
    share = x / scale
    share = where(share == share, share, f32(0))
    exponent, mantissa, bias = layout(fmt)
    if exponent:
        return small_float(share, exponent, mantissa, bias, top(fmt))
    if fmt.elem is Elem.FIXED:
        share = share * 2.0 ** (fmt.bits - 2)
    most = f32((1 << (fmt.bits - 1)) - 1)
    q = i32(minimum(maximum(rint(share), -most), most))
    if fmt.elem is Elem.OFFSET:
        q = q + (1 << (fmt.bits - 1))
    return u32(q) & ((1 << fmt.bits) - 1)


@inline
def word_of(code: V, bits: int, j: V) -> V:
    """Word j of a stream of whole words, whose code e `code(e)` gives, as u32.

    A code that straddles two words is made once for each.
    """
    first = j * 32 // bits
    word = u32(0)
    if 32 % bits == 0:
        for n in unrolled(32 // bits):
            word = word | (code(first + n) << (n * bits))
        return word
    for n in unrolled(32 // bits + 2):
        at = (first + n) * bits - j * 32
        if at < 32:
            held = code(first + n)
            word = word | where(at < 0, held >> u32(-at), held << u32(maximum(at, 0)))
    return word


@inline
def extremes(x: V, at: V, count: int) -> V:
    """Least and greatest of `count` elements of the row x from `at` on, for every thread."""
    low, high = f32(inf), f32(-inf)
    for i in strided(count):
        v = x[at + i].to(f32)
        low, high = minimum(low, v), maximum(high, v)
    return group_min(low), group_max(high)


@inline
def put_codes(fmt: Format, codes: V, g: V, code: V) -> None:
    """Writes the codes of group g of a row, `code(i)` for element i: bytes, or u32 words.

    The threads of a group share the work.
    """
    if fmt.bits == 8:
        for i in strided(fmt.group):
            codes[g * fmt.group + i] = code(i).to(u8)
    else:
        words = fmt.group * fmt.bits // 32
        for j in strided(words):
            codes[g * words + j] = word_of(code, fmt.bits, j)
