"""The body of every format whose codes are a bit stream of u32 words with factors beside it."""

from __future__ import annotations

from typing import Any

from iron.lang import f32, inline, u32, where
from iron.quant.codec.element import e4m3, e5m2, e8m0, minifloat, signed, table_entry, unsigned
from iron.quant.format import Algebra, Elem, Format, Outer, Scale

V = Any


@inline
def bits_at(words: V, n: V, first: V, e: V, bits: int) -> V:
    """Code e of a block that starts on word `first` of row n, as u32.

    A code may straddle two words when `bits` does not divide 32; the second word is read only
    where it does, so the last word of a row is never passed.
    """
    bit = e * bits
    i = first + bit // 32
    low = words[n, i] >> u32(bit % 32)
    if 32 % bits == 0:
        return low & ((1 << bits) - 1)
    spills = bit % 32 + bits > 32
    high = words[n, where(spills, i + 1, i)] << u32((32 - bit % 32) % 32)
    return where(spills, low | high, low) & ((1 << bits) - 1)


@inline
def code(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Element e of block b of row n."""
    raw = raw_code(fmt, w, n, b, e)
    if fmt.elem is Elem.CODEBOOK:
        return f32(w.codebook[0, raw])
    return element(fmt, raw)


@inline
def raw_code(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Code e of block b of row n, as u32."""
    if fmt.bits == 8:
        return u32(w.codes[n, b * fmt.block + e])
    return bits_at(w.codes, n, b * (fmt.block * fmt.bits // 32), e, fmt.bits)


@inline
def element(fmt: Format, raw: V) -> V:
    """The number of a u32 code."""
    if fmt.elem is Elem.OFFSET:
        return unsigned(raw) - (1 << (fmt.bits - 1))
    if fmt.elem is Elem.INT:
        return signed(raw, fmt.bits)
    if fmt.elem is Elem.FIXED:
        return signed(raw, fmt.bits) * 2.0 ** (2 - fmt.bits)
    if fmt.elem is Elem.TABLE:
        return table_entry(fmt.table, raw)
    if fmt.elem is Elem.UINT:
        return unsigned(raw)
    return small_float(fmt, raw)


@inline
def small_float(fmt: Format, raw: V) -> V:
    """The number of a u32 code of an OCP float."""
    if fmt.elem is Elem.E2M1:
        return minifloat(raw, 2, 1, 1)
    if fmt.elem is Elem.E2M3:
        return minifloat(raw, 2, 3, 1)
    if fmt.elem is Elem.E3M2:
        return minifloat(raw, 3, 2, 3)
    if fmt.elem is Elem.E4M3:
        return e4m3(raw)
    return e5m2(raw)


@inline
def factors(fmt: Format, w: V, n: V, g: V) -> V:
    """Scale and, where the algebra has one, bias or zero point of group g of row n."""
    if fmt.scale is Scale.SUPER:
        return super_factors(fmt, w, n, g)
    s = scale(fmt, w, n, g)
    if fmt.outer is Outer.MULTIPLY:
        s = s * w.outer[n, 0]
    if fmt.outer is Outer.DIVIDE:
        s = s / w.outer[n, 0]
    if fmt.algebra is Algebra.AFFINE:
        return s, f32(w.biases[n, g])
    if fmt.algebra is Algebra.ZERO:
        return s, f32(w.zeros[n, g])
    return s, None


@inline
def scale(fmt: Format, w: V, n: V, g: V) -> V:
    """The scale of group g of row n, in f32."""
    row = scale_row(fmt, n)
    if fmt.scale is Scale.E8M0:
        return e8m0(u32(w.scales[row, g]))
    if fmt.scale is Scale.E4M3:
        return e4m3(u32(w.scales[row, g]))
    return f32(w.scales[row, g])


@inline
def scale_row(fmt: Format, n: V) -> V:
    """The row of the scale plane that serves row n of the weight."""
    if fmt.scale_rows == 0:
        return 0
    if fmt.scale_rows == 1:
        return n
    return n // fmt.scale_rows


@inline
def super_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """An integer of the group times the float of its super-block, for scale and minimum alike."""
    s = f32(w.supers[n, g // fmt.supers]) * f32(w.scales[n, g])
    if fmt.algebra is Algebra.AFFINE:
        return s, -(f32(w.super_mins[n, g // fmt.supers]) * f32(w.mins[n, g]))
    return s, None
