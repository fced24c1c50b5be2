"""The body of every format whose codes are a bit stream of u32 words with factors beside it."""

from __future__ import annotations

from typing import Any

from iron.lang import f32, inline, u32, where
from iron.quant.codec.element import signed, unsigned
from iron.quant.format import Algebra, Elem, Format

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
    raw = bits_at(w.codes, n, b * (fmt.block * fmt.bits // 32), e, fmt.bits)
    if fmt.elem is Elem.OFFSET:
        return unsigned(raw) - (1 << (fmt.bits - 1))
    if fmt.elem is Elem.INT:
        return signed(raw, fmt.bits)
    return unsigned(raw)


@inline
def factors(fmt: Format, w: V, n: V, g: V) -> V:
    """Scale and, where the algebra has one, bias of group g of row n."""
    scale = f32(w.scales[n, g])
    if fmt.algebra is Algebra.AFFINE:
        return scale, f32(w.biases[n, g])
    return scale, None
