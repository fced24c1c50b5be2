"""Encoders of the simple GGUF blocks, byte for byte as ggml writes them.

Codes come from the f32 scale before it is rounded to f16, in ggml's order of operations.
Source: the `quantize_row_*_ref` functions of ggml, described in docs/formats.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.errors import error
from iron.quant.codec.blocks import TWICE_E2M1

Array = np.ndarray[Any, Any]


def half_bytes(x: Array) -> Array:
    """f32 [..., 1] as the two bytes of an f16, [..., 2]; E0804 when one overflows."""
    narrow = np.ascontiguousarray(x.astype("<f2"))
    if not np.isfinite(narrow).all():
        raise error("E0804", f"the scale {np.abs(x).max()} of a block overflows f16")
    return narrow.view(np.uint8)


def inverse(d: Array) -> Array:
    """1 / d, 0 where d is 0."""
    zero = d == 0
    return np.where(zero, np.float32(0), np.float32(1) / np.where(zero, np.float32(1), d))


def join_nibbles(q: Array) -> Array:
    """Codes [..., 2n] as n bytes whose low nibbles are the first half."""
    middle = q.shape[-1] // 2
    return q[..., :middle] | (q[..., middle:] << 4)


def high_bits(q: Array) -> Array:
    """Bit 4 of 32 codes as four bytes, element 0 in the lowest bit."""
    return np.packbits(q >> 4, axis=-1, bitorder="little")


def signed_codes(groups: Array, bits: int) -> tuple[Array, Array]:
    """Codes and d of q4_0 and q5_0: the signed extreme becomes code 0."""
    middle = 1 << (bits - 1)
    where = np.abs(groups).argmax(-1)[..., None]
    d = np.take_along_axis(groups, where, -1) / np.float32(-middle)
    scaled = groups.astype(np.float64) * inverse(d).astype(np.float64) + (middle + 0.5)
    return np.trunc(scaled.astype(np.float32)).clip(0, 2 * middle - 1).astype(np.uint8), d


def ranged_codes(groups: Array, bits: int) -> tuple[Array, Array, Array]:
    """Codes, d and m of q4_1 and q5_1: the range of the block in 2^bits - 1 steps."""
    top = (1 << bits) - 1
    low, high = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
    d = (high - low) / np.float32(top)
    q = np.trunc((groups - low) * inverse(d) + np.float32(0.5)).clip(0, top)
    return q.astype(np.uint8), d, low


def round_away(x: Array) -> Array:
    """The nearest integer, ties away from zero."""
    size = np.abs(x)
    floor = np.floor(size)
    return np.sign(x) * (floor + np.floor(2 * (size - floor)))


def q4_0(groups: Array) -> Array:
    """{f16 d; nibbles[16]}."""
    q, d = signed_codes(groups, 4)
    return np.concatenate([half_bytes(d), join_nibbles(q)], -1)


def q4_1(groups: Array) -> Array:
    """{f16 d; f16 m; nibbles[16]}."""
    q, d, m = ranged_codes(groups, 4)
    return np.concatenate([half_bytes(d), half_bytes(m), join_nibbles(q)], -1)


def q5_0(groups: Array) -> Array:
    """{f16 d; u32 high; nibbles[16]}."""
    q, d = signed_codes(groups, 5)
    return np.concatenate([half_bytes(d), high_bits(q), join_nibbles(q & 15)], -1)


def q5_1(groups: Array) -> Array:
    """{f16 d; f16 m; u32 high; nibbles[16]}."""
    q, d, m = ranged_codes(groups, 5)
    return np.concatenate([half_bytes(d), half_bytes(m), high_bits(q), join_nibbles(q & 15)], -1)


def q8_0(groups: Array) -> Array:
    """{f16 d; i8 q[32]}."""
    d = np.abs(groups).max(-1, keepdims=True) / np.float32(127)
    q = round_away(groups * inverse(d)).astype(np.int8).view(np.uint8)
    return np.concatenate([half_bytes(d), q], -1)


def ternary(groups: Array) -> tuple[Array, Array]:
    """Codes round(w / amax) + 1 and amax."""
    d = np.abs(groups).max(-1, keepdims=True)
    return (round_away(groups * inverse(d)) + 1).astype(np.uint8), d


def q1_0(groups: Array) -> Array:
    """{f16 d; bits[16]}: d is the mean magnitude, a bit is set where w >= 0."""
    d = np.abs(groups).mean(-1, keepdims=True, dtype=np.float32)
    bits = np.packbits(groups >= 0, axis=-1, bitorder="little")
    return np.concatenate([half_bytes(d), bits], -1)


def q2_0(groups: Array) -> Array:
    """{f16 d; 2-bit q[64]} in element order."""
    q, d = ternary(groups)
    parts = q.reshape(*q.shape[:-1], -1, 4) << np.array([0, 2, 4, 6], np.uint8)
    return np.concatenate([half_bytes(d), np.bitwise_or.reduce(parts, -1)], -1)


def planes32(q: Array) -> Array:
    """2-bit codes [..., 256] as two runs of 32 bytes, each with four planes of 32 elements."""
    parts = q.reshape(*q.shape[:-1], 2, 4, 32) << np.array([[0], [2], [4], [6]], np.uint8)
    return np.bitwise_or.reduce(parts, -2).reshape(*q.shape[:-1], 64)


def tq2_0(groups: Array) -> Array:
    """{2-bit q[256]; f16 d}."""
    q, d = ternary(groups)
    return np.concatenate([planes32(q), half_bytes(d)], -1)


def base3(digits: Array) -> Array:
    """Digits [..., 5 or 4, n], first one highest, as the bytes ceil(256 value / 243)."""
    weights = np.array([81, 27, 9, 3, 1][: digits.shape[-2]], np.uint32)[:, None]
    value = (digits.astype(np.uint32) * weights).sum(-2)
    return ((value * 256 + 242) // 243).astype(np.uint8)


def tq1_0(groups: Array) -> Array:
    """{u8 q[48]; u8 tail[4]; f16 d}: five base-3 digits a byte, four in the tail."""
    q, d = ternary(groups)
    lead = q.shape[:-1]
    parts = (
        base3(q[..., :160].reshape(*lead, 5, 32)),
        base3(q[..., 160:240].reshape(*lead, 5, 16)),
        base3(q[..., 240:].reshape(*lead, 4, 4)),
    )
    return np.concatenate([*parts, half_bytes(d)], -1)


def nearest(x: Array, d: Array, levels: tuple[int, ...]) -> Array:
    """The first of the levels whose product with d is nearest to x, as u8."""
    best = np.abs(d * np.float32(levels[0]) - x)
    code = np.zeros(x.shape, np.uint8)
    for i, level in enumerate(levels[1:], 1):
        miss = np.abs(d * np.float32(level) - x)
        code = np.where(miss < best, np.uint8(i), code)
        best = np.minimum(miss, best)
    return code


def mxfp4(groups: Array) -> Array:
    """{u8 exponent; nibbles[16]}: exponent floor(log2 amax) - 2 + 127, 0 for a block of zeros."""
    amax = np.abs(groups).max(-1, keepdims=True)
    exponent = np.frexp(amax)[1] - 1
    code = np.where(amax > 0, np.clip(exponent - 2 + 127, 0, 254), 0)
    d = np.ldexp(np.float32(1), code.astype(np.int32) - 128)
    q = nearest(groups, d, TWICE_E2M1)
    return np.concatenate([code.astype(np.uint8), join_nibbles(q)], -1)


def unsigned_e4m3(x: Array) -> Array:
    """Non-negative f32 as ggml's UE4M3: ties up, 448 for everything from 256 on."""
    x = np.minimum(x, np.float32(448))
    exponent = np.frexp(x)[1] - 1
    tiny = np.floor(x * np.float32(512) + np.float32(0.5)).clip(0, 7)
    steps = np.floor(np.ldexp(x, 3 - exponent) + np.float32(0.5))
    code = ((exponent + 6) << 3) + steps.astype(np.int64)
    code = np.where(exponent + 7 <= 0, tiny, np.where(code >= 0x78, 0x7E, code))
    return np.where(x <= 0, 0, code).astype(np.uint8)


def nvfp4(groups: Array) -> Array:
    """{UE4M3 scale[4]; nibbles[4][8]}: scale amax / 6 of 16 elements."""
    parts = groups.reshape(*groups.shape[:-1], 4, 16)
    scale = unsigned_e4m3(np.abs(parts).max(-1) / np.float32(6))
    exponent, rest = scale.astype(np.int32) >> 3, scale.astype(np.int32) & 7
    steps = np.where(exponent == 0, rest, rest + 8).astype(np.float32)
    d = np.ldexp(steps, np.maximum(exponent, 1) - 11)
    q = join_nibbles(nearest(parts, d[..., None], TWICE_E2M1))
    return np.concatenate([scale, q.reshape(*groups.shape[:-1], 32)], -1)
