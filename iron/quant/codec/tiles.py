"""The body of formats with rows side by side: word i of row n is [n // 32, 32 i + n % 32]."""

from __future__ import annotations

from typing import Any

from iron.lang import inline, u32
from iron.quant.codec import stream
from iron.quant.format import Elem, Format
from iron.quant.format.tiled import TILE

V = Any


@inline
def word(fmt: Format, w: V, n: V, i: V) -> V:
    """Word i of the codes of row n, as u32."""
    return w.codes[n // TILE, i * TILE + n % TILE]


@inline
def bytes_of(fmt: Format, held: V, part: int) -> V:
    """Codes 4 part to 4 part + 3 of a word, one in each byte."""
    if fmt.bits == 8:
        return held
    return (held >> (part * fmt.bits)) & (((1 << fmt.bits) - 1) * 0x01010101)


@inline
def code(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Element e of block b of row n."""
    each = 32 // fmt.bits
    held = word(fmt, w, n, b * (fmt.block // each) + e // each)
    raw = held >> u32(e % 4 * 8 + e % each // 4 * fmt.bits)
    return stream.element(fmt, raw & ((1 << fmt.bits) - 1))


@inline
def factors(fmt: Format, w: V, n: V, g: V) -> V:
    """Scale and, where the algebra has one, bias of group g of row n."""
    return stream.factors(fmt, w, n // TILE, g * TILE + n % TILE)


@inline
def offset(fmt: Format) -> V:
    """What is taken from each code to give its element."""
    return 1 << (fmt.bits - 1) if fmt.elem is Elem.OFFSET else 0
