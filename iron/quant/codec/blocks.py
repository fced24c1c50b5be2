"""The bodies of GGUF blocks with plain codes: element e of block b from the bytes of row n.

Source: the block structures of ggml (ggml-common.h), described in docs/formats.md.
"""

from __future__ import annotations

from typing import Any, Final

from iron.lang import bitcast, f32, inline, u32, where
from iron.quant.codec.element import (
    byte_signed,
    half,
    half_e8m0,
    table_entry,
    unsigned,
    unsigned_e4m3,
)
from iron.quant.format import Format
from iron.quant.format.regular import NL4

V = Any

# ggml has no negative zero among the values of E2M1
TWICE_E2M1: Final = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


@inline
def byte(w: V, n: V, at: V) -> V:
    """Byte `at` of row n as u32."""
    return u32(w.blocks[n, at])


@inline
def half_at(w: V, n: V, at: V) -> V:
    """The f16 at byte `at` of row n, in f32."""
    return half(w.blocks[n, at], w.blocks[n, at + 1])


@inline
def word_at(w: V, n: V, at: V) -> V:
    """The u32 at byte `at` of row n."""
    low = byte(w, n, at) | (byte(w, n, at + 1) << 8)
    return low | (byte(w, n, at + 2) << 16) | (byte(w, n, at + 3) << 24)


@inline
def split(w: V, n: V, at: V, e: V, half_block: int) -> V:
    """Nibble e of 2 * half_block: low nibbles are the first half, high nibbles the second."""
    return (byte(w, n, at + e % half_block) >> u32(e // half_block * 4)) & 15


@inline
def bit(w: V, n: V, at: V, e: V) -> V:
    """Bit e of the bytes from `at` on, as u32."""
    return (byte(w, n, at + e // 8) >> u32(e % 8)) & 1


@inline
def q4_0(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; nibbles[16]}: q - 8."""
    return unsigned(split(w, n, b * 18 + 2, e, 16)) - 8


@inline
def q4_1(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; f16 m; nibbles[16]}: q."""
    return unsigned(split(w, n, b * 20 + 4, e, 16))


@inline
def q5_0(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; u32 high; nibbles[16]}: q - 16."""
    return unsigned(split(w, n, b * 22 + 6, e, 16) | (bit(w, n, b * 22 + 2, e) << 4)) - 16


@inline
def q5_1(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; f16 m; u32 high; nibbles[16]}: q."""
    return unsigned(split(w, n, b * 24 + 8, e, 16) | (bit(w, n, b * 24 + 4, e) << 4))


@inline
def q8_0(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; i8 q[32]}: q."""
    return byte_signed(w.blocks[n, b * 34 + 2 + e])


@inline
def q8_1(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; f16 d * sum(q); i8 q[32]}: q."""
    return byte_signed(w.blocks[n, b * 36 + 4 + e])


@inline
def q8_k(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f32 d; i8 q[256]; i16 sums[16]}: q."""
    return byte_signed(w.blocks[n, b * 292 + 4 + e])


@inline
def q8_k_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """The f32 d at byte 0."""
    return bitcast(word_at(w, n, g * 292), f32), None


@inline
def iq4_nl(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; nibbles[16]}: an entry of a table of 16 levels, denser near zero."""
    return table_entry(NL4, split(w, n, b * 18 + 2, e, 16))


@inline
def iq4_xs(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; u16 high; u8 low[4]; nibbles[128]}: the same table, halves within 32."""
    return table_entry(NL4, split(w, n, b * 136 + 8 + e // 32 * 16, e % 32, 16))


@inline
def iq4_xs_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """d * (6-bit scale - 32): nibble g of `low`, two bits of `high` above it."""
    at, j = g // 8 * 136, g % 8
    low = (byte(w, n, at + 4 + j // 2) >> u32(j % 2 * 4)) & 15
    high = (byte(w, n, at + 2 + j // 4) >> u32(j % 4 * 2)) & 3
    return half_at(w, n, at) * (unsigned(low | (high << 4)) - 32), None


@inline
def mxfp4(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {u8 exponent; nibbles[16]}: twice the E2M1 value, as the scale is half of E8M0."""
    return table_entry(TWICE_E2M1, split(w, n, b * 17 + 1, e, 16))


@inline
def mxfp4_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """2^(exponent - 128); 255 is a power of two here, not NaN."""
    return half_e8m0(byte(w, n, g * 17)), None


@inline
def nvfp4(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {UE4M3 scale[4]; nibbles[4][8]}: E2M1, halves within 16."""
    return table_entry(TWICE_E2M1, split(w, n, b * 36 + 4 + e // 16 * 8, e % 16, 8)) * 0.5


@inline
def nvfp4_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """The scale of 16 elements."""
    return unsigned_e4m3(byte(w, n, g // 4 * 36 + g % 4)), None


@inline
def q1_0(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; bits[16]}: 1 where the bit is set, else -1."""
    return unsigned(bit(w, n, b * 18 + 2, e)) * 2 - 1


@inline
def q2_0(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; 2-bit q[64]}: q - 1."""
    return unsigned((byte(w, n, b * 18 + 2 + e // 4) >> u32(e % 4 * 2)) & 3) - 1


@inline
def tq2_0(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {2-bit q[2][4][32] as planes of 32 bytes; f16 d}: q - 1."""
    return unsigned(shift32(w, n, b * 66, e)) - 1


@inline
def shift32(w: V, n: V, at: V, e: V) -> V:
    """Two-bit code e of 256: bits 2j of 32 bytes hold part j of 32 elements, twice 128."""
    r = e % 128
    return (byte(w, n, at + e // 128 * 32 + r % 32) >> u32(r // 32 * 2)) & 3


@inline
def tq1_0(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {u8 q[48]; u8 tail[4]; f16 d}: base-3 digits of fixed-point bytes, less 1.

    Digit t of byte y is the integer part of 3 * (y * 3^t mod 256) / 256. Elements 0 to 159 are
    five digits of 32 bytes, 160 to 239 five of 16, the rest four of the tail.
    """
    r, tail = where(e < 160, 0, e - 160), where(e < 240, 0, e - 240)
    at = where(e < 160, e % 32, where(e < 240, 32 + r % 16, 48 + tail % 4))
    digit = where(e < 160, e // 32, where(e < 240, r // 16, tail // 4))
    power = u32(1)
    for step in (1, 2, 3, 4):
        power = where(digit >= step, power * 3, power)
    kept = (byte(w, n, b * 54 + at) * power) & 255
    return unsigned((kept * 3) >> 8) - 1


@inline
def scale_first(fmt: Format, w: V, n: V, g: V) -> V:
    """The f16 d at byte 0 of the block."""
    return half_at(w, n, g * fmt.block_bytes), None


@inline
def scale_last(fmt: Format, w: V, n: V, g: V) -> V:
    """The f16 d in the last two bytes of the block."""
    return half_at(w, n, (g + 1) * fmt.block_bytes - 2), None


@inline
def scale_and_minimum(fmt: Format, w: V, n: V, g: V) -> V:
    """The f16 d at byte 0 and m at byte 2 of the block."""
    return half_at(w, n, g * fmt.block_bytes), half_at(w, n, g * fmt.block_bytes + 2)
