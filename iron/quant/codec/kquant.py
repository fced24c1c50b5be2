"""The bodies of K-quants: blocks of 256 with integer scales inside. Source: ggml-common.h."""

from __future__ import annotations

from typing import Any

from iron.lang import bitcast, f32, i8, inline, u32, where
from iron.quant.codec.blocks import byte, half_at, shift32
from iron.quant.codec.element import unsigned
from iron.quant.format import Format

V = Any


@inline
def plane_bit(w: V, n: V, at: V, e: V) -> V:
    """Bit e / 32 of byte e mod 32: one bit plane of 256 elements in 32 bytes."""
    return (byte(w, n, at + e % 32) >> u32(e // 32)) & 1


@inline
def nibble64(w: V, n: V, at: V, e: V) -> V:
    """Nibble e of 256: each 32 bytes hold 64 elements, the later 32 in the high nibbles."""
    r = e % 64
    return (byte(w, n, at + e // 64 * 32 + r % 32) >> u32(r // 32 * 4)) & 15


@inline
def q2_k(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {u8 scales[16]; 2-bit q[256]; f16 d; f16 dmin}: q."""
    return unsigned(shift32(w, n, b * 84 + 16, e))


@inline
def q2_k_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * low nibble, -(dmin * high nibble) of the scale of 16 elements."""
    at = g // 16 * 84
    both = byte(w, n, at + g % 16)
    s = half_at(w, n, at + 80) * unsigned(both & 15)
    return s, -(half_at(w, n, at + 82) * unsigned(both >> 4))


@inline
def q3_k(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {u8 high[32]; 2-bit low[256]; u8 scales[12]; f16 d}: q - 4."""
    high = plane_bit(w, n, b * 110, e)
    return unsigned(shift32(w, n, b * 110 + 32, e) | (high << 2)) - 4


@inline
def q3_k_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * (6-bit scale - 32): a nibble of the first 8 bytes, two bits of the last 4 above it."""
    at, j = g // 16 * 110, g % 16
    low = (byte(w, n, at + 96 + j % 8) >> u32(j // 8 * 4)) & 15
    high = (byte(w, n, at + 104 + j % 4) >> u32(j // 4 * 2)) & 3
    return half_at(w, n, at + 108) * (unsigned(low | (high << 4)) - 32), None


@inline
def q4_k(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; f16 dmin; u8 scales[12]; nibbles[128]}: q."""
    return unsigned(nibble64(w, n, b * 144 + 16, e))


@inline
def q5_k(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; f16 dmin; u8 scales[12]; u8 high[32]; nibbles[128]}: q."""
    high = plane_bit(w, n, b * 176 + 16, e)
    return unsigned(nibble64(w, n, b * 176 + 48, e) | (high << 4))


@inline
def six_bit_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * S, -(dmin * M), where S and M are 6 bits each, eight pairs in twelve bytes.

    Pairs 0 to 3 are the low 6 bits of bytes j and j + 4. Pairs 4 to 7 take four bits from byte
    j + 4 and the top two of bytes j - 4 (S) and j (M).
    """
    at, j = g // 8 * fmt.block_bytes, g % 8
    late = j >= 4
    first = where(late, j - 4, j)
    a = byte(w, n, at + 4 + first)
    b = byte(w, n, at + 8 + first)
    c = byte(w, n, at + 12 + first)
    s = where(late, (c & 15) | ((a >> 6) << 4), a & 63)
    m = where(late, (c >> 4) | ((b >> 6) << 4), b & 63)
    return half_at(w, n, at) * unsigned(s), -(half_at(w, n, at + 2) * unsigned(m))


@inline
def q6_k(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {nibbles low[128]; 2-bit high[64]; i8 scales[16]; f16 d}: q - 32."""
    r = e % 128
    at = b * 210 + e // 128 * 64 + r % 64
    low = (byte(w, n, at) >> u32(r // 64 * 4)) & 15
    high = shift32(w, n, b * 210 + 128, e)
    return unsigned(low | (high << 4)) - 32


@inline
def q6_k_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * the i8 scale of 16 elements."""
    at = g // 16 * 210
    s = f32(bitcast(w.blocks[n, at + 192 + g % 16], i8))
    return half_at(w, n, at + 208) * s, None
