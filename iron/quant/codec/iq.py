"""The bodies of the IQ1, IQ2 and IQ3 types: codebook vectors with signs. Source: ggml-common.h.

Eight neighbours (four in IQ3) are one row of a grid. Seven stored sign bits imply an eighth that
makes their number even.
"""

from __future__ import annotations

from typing import Any

from iron.lang import f32, i8, inline, popcount, table, u32, where
from iron.quant.codec.blocks import byte, half_at, word_at
from iron.quant.codec.element import half, unsigned
from iron.quant.codec.grids import grid
from iron.quant.format import Format

V = Any


@inline
def entry(name: str, row: V, size: int, e: V) -> V:
    """Entry e of row `row` of a grid of rows of `size`, in f32."""
    return f32(table(grid(name), i8)[row * size + u32(e % size)])


@inline
def signed_by(bits: V, e: V, x: V) -> V:
    """-x where bit e mod 8 is set, else x."""
    return where(((bits >> u32(e % 8)) & 1) == 1, -x, x)


@inline
def even(seven: V) -> V:
    """Seven sign bits and the eighth that makes the number of ones even."""
    return seven | ((popcount(seven) & 1) << 7)


@inline
def iq2_xxs(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; {u8 row[4]; u32 u}[8]}: u holds four times 7 signs, then a 4-bit scale."""
    at, k = b * 66 + 2 + e // 32 * 8, e % 32 // 8
    signs = even((word_at(w, n, at + 4) >> u32(7 * k)) & 127)
    return signed_by(signs, e, entry("iq2_xxs", byte(w, n, at + k), 8, e))


@inline
def iq2_xxs_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * (0.5 + u / 2^28) / 4."""
    at = g // 8 * 66
    s = unsigned(word_at(w, n, at + 2 + g % 8 * 8 + 4) >> 28)
    return half_at(w, n, at) * (s + 0.5) * 0.25, None


@inline
def iq2_xs(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; u16 q[32]; u8 scales[8]}: q holds a 9-bit row and 7 signs."""
    at = b * 74 + 2 + e // 8 * 2
    q = byte(w, n, at) | (byte(w, n, at + 1) << 8)
    return signed_by(even(q >> 9), e, entry("iq2_xs", q & 511, 8, e))


@inline
def nibble_scale(w: V, n: V, at: V, j: V) -> V:
    """Nibble j of the bytes from `at` on, in f32."""
    return unsigned((byte(w, n, at + j // 2) >> u32(j % 2 * 4)) & 15)


@inline
def iq2_xs_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * (0.5 + nibble) / 4 for 16 elements."""
    at = g // 16 * 74
    return half_at(w, n, at) * (nibble_scale(w, n, at + 66, g % 16) + 0.5) * 0.25, None


@inline
def iq2_s(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; u8 low[32]; u8 signs[32]; u8 high[8]; u8 scales[8]}: a 10-bit row."""
    at, k = b * 82, e // 8
    high = (byte(w, n, at + 66 + k // 4) >> u32(k % 4 * 2)) & 3
    row = byte(w, n, at + 2 + k) | (high << 8)
    return signed_by(byte(w, n, at + 34 + k), e, entry("iq2_s", row, 8, e))


@inline
def iq2_s_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * (0.5 + nibble) / 4 for 16 elements."""
    at = g // 16 * 82
    return half_at(w, n, at) * (nibble_scale(w, n, at + 74, g % 16) + 0.5) * 0.25, None


@inline
def iq3_xxs(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; u8 row[64]; u32 u[8]}: rows of four; u as in iq2_xxs."""
    at = b * 98
    u = word_at(w, n, at + 66 + e // 32 * 4)
    signs = even((u >> u32(e % 32 // 8 * 7)) & 127)
    return signed_by(signs, e, entry("iq3_xxs", byte(w, n, at + 2 + e // 4), 4, e))


@inline
def iq3_xxs_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * (0.5 + u / 2^28) / 2."""
    at = g // 8 * 98
    s = unsigned(word_at(w, n, at + 66 + g % 8 * 4) >> 28)
    return half_at(w, n, at) * (s + 0.5) * 0.5, None


@inline
def iq3_s(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; u8 low[64]; u8 high[8]; u8 signs[32]; u8 scales[4]}: a 9-bit row of four."""
    at, k = b * 110, e // 4
    high = (byte(w, n, at + 66 + k // 8) >> u32(k % 8)) & 1
    row = byte(w, n, at + 2 + k) | (high << 8)
    return signed_by(byte(w, n, at + 74 + e // 8), e, entry("iq3_s", row, 4, e))


@inline
def iq3_s_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * (1 + 2 nibble) for 32 elements."""
    at = g // 8 * 110
    return half_at(w, n, at) * (nibble_scale(w, n, at + 106, g % 8) * 2 + 1), None


@inline
def iq1_s(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; u8 low[32]; u16 high[8]}: an 11-bit row of -1, 0, 1, moved by an eighth.

    `high` of 32 elements: four times 3 bits of the row, a 3-bit scale, the sign of the move.
    """
    at = b * 50
    high = word_of_two(w, n, at + 34 + e // 32 * 2)
    top = (high >> u32(e % 32 // 8 * 3)) & 7
    row = byte(w, n, at + 2 + e // 8) | (top << 8)
    return entry("iq1", row, 8, e) + where((high >> 15) == 1, f32(-0.125), f32(0.125))


@inline
def word_of_two(w: V, n: V, at: V) -> V:
    """The u16 at byte `at` of row n, as u32."""
    return byte(w, n, at) | (byte(w, n, at + 1) << 8)


@inline
def iq1_s_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * (2 scale + 1) for 32 elements."""
    at = g // 8 * 50
    s = unsigned((word_of_two(w, n, at + 34 + g % 8 * 2) >> 12) & 7)
    return half_at(w, n, at) * (s * 2 + 1), None


@inline
def iq1_m(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {u8 low[32]; nibbles high[32]; u16 scales[4]}: as iq1_s, a nibble for 8 elements."""
    at, k = b * 56, e // 8
    high = (byte(w, n, at + 32 + k // 2) >> u32(k % 2 * 4)) & 15
    row = byte(w, n, at + k) | ((high & 7) << 8)
    return entry("iq1", row, 8, e) + where((high >> 3) == 1, f32(-0.125), f32(0.125))


@inline
def iq1_m_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * (2 scale + 1) for 16 elements; the f16 d is in the top nibbles of the four words."""
    at, j = g // 16 * 56 + 48, g % 16
    scales = word_of_two(w, n, at + j // 4 * 2)
    s = unsigned((scales >> u32(j % 4 * 3)) & 7)
    low = (byte(w, n, at + 1) >> 4) | (byte(w, n, at + 3) & 240)
    high = (byte(w, n, at + 5) >> 4) | (byte(w, n, at + 7) & 240)
    return half(low, high) * (s * 2 + 1), None
