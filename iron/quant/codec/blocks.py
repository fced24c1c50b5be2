"""The bodies of GGUF blocks: element e of block b from the bytes of row n, layouts as in ggml."""

from __future__ import annotations

from typing import Any

from iron.lang import inline, u32
from iron.quant.codec.element import byte_signed, half, unsigned
from iron.quant.format import Format

V = Any


@inline
def byte(w: V, n: V, at: V) -> V:
    """Byte `at` of row n as u32."""
    return u32(w.blocks[n, at])


@inline
def half_at(w: V, n: V, at: V) -> V:
    """The f16 at byte `at` of row n, in f32."""
    return half(w.blocks[n, at], w.blocks[n, at + 1])


@inline
def split(w: V, n: V, at: V, e: V, half_block: int) -> V:
    """Nibble e of 2 * half_block: low nibbles are the first half, high nibbles the second."""
    return (byte(w, n, at + e % half_block) >> u32(e // half_block * 4)) & 15


@inline
def q4_0_code(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; nibbles[16]}: q - 8."""
    return unsigned(split(w, n, b * 18 + 2, e, 16)) - 8


@inline
def q4_1_code(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; f16 m; nibbles[16]}: q."""
    return unsigned(split(w, n, b * 20 + 4, e, 16))


@inline
def q8_0_code(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Block {f16 d; i8 q[32]}: q."""
    return byte_signed(w.blocks[n, b * 34 + 2 + e])


@inline
def scale_first(fmt: Format, w: V, n: V, g: V) -> V:
    """d at byte 0 of the block."""
    return half_at(w, n, g * fmt.block_bytes), None


@inline
def scale_and_minimum(fmt: Format, w: V, n: V, g: V) -> V:
    """d at byte 0 and m at byte 2 of the block."""
    return half_at(w, n, g * fmt.block_bytes), half_at(w, n, g * fmt.block_bytes + 2)
