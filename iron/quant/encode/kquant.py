"""Encoders of K-quants and IQ4: scales by weighted least squares from several starts.

For each group of a block the scale (and minimum) that leaves the least weighted square error is
sought; the group scales are then rounded to integers of one float a block, and the codes chosen
again for the rounded scales. The weight of an element is the rms of its group plus its magnitude.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.quant.encode.ggml import half_bytes, join_nibbles, planes32
from iron.quant.format.regular import NL4

Array = np.ndarray[Any, Any]
STARTS = np.arange(-1.0, 1.01, 0.25)
REFITS = 2
LEVELS = np.array(NL4, np.float32)
MIDDLES = (LEVELS[1:] + LEVELS[:-1]) / 2


def weights(x: Array) -> Array:
    """rms of the group plus |x|, in f32."""
    return np.sqrt((x * x).mean(-1, keepdims=True)) + np.abs(x)


def safe(x: Array) -> Array:
    """x, or 1 where it is 0."""
    return np.where(x == 0, np.float32(1), x)


def fit_range(x: Array, top: int) -> tuple[Array, Array]:
    """s >= 0 and m >= 0 with x ~ s q - m, q in 0 .. top; groups on the last axis."""
    weight = weights(x)
    low: Array = np.minimum(x.min(-1, keepdims=True), np.float32(0))
    span = x.max(-1, keepdims=True) - low
    best = np.full(low.shape, np.inf, np.float32)
    scale, minimum = np.zeros_like(low), -low
    for start in STARTS:
        s, m = span / np.float32(top + start), -low
        for _ in range(REFITS + 1):
            q: Array = np.rint((x + m) / safe(s)).clip(0, top)
            miss = (weight * (s * q - m - x) ** 2).sum(-1, keepdims=True)
            better = miss < best
            best = np.where(better, miss, best)
            scale, minimum = np.where(better, s, scale), np.where(better, m, minimum)
            s, m = _line(x, q, weight)
    return scale[..., 0], minimum[..., 0]


def _line(x: Array, q: Array, weight: Array) -> tuple[Array, Array]:
    """The weighted least-squares line x = s q - m with m >= 0."""
    total = weight.sum(-1, keepdims=True)
    one, two = (weight * q).sum(-1, keepdims=True), (weight * q * q).sum(-1, keepdims=True)
    plain, mixed = (weight * x).sum(-1, keepdims=True), (weight * x * q).sum(-1, keepdims=True)
    determinant = total * two - one * one
    usable = determinant > 0
    s = np.where(usable, (total * mixed - plain * one) / safe(determinant), np.float32(0))
    m = np.where(usable, (one * mixed - two * plain) / safe(determinant), np.float32(0))
    through_zero = (m < 0) | ~usable
    s = np.where(through_zero, mixed / safe(two), s)
    return np.maximum(s, 0), np.where(through_zero, np.float32(0), m)


def fit_signed(x: Array, least: int, top: int) -> Array:
    """s of either sign with x ~ s q, q in least .. top; groups on the last axis."""
    where = np.abs(x).argmax(-1)[..., None]
    extreme = np.take_along_axis(x, where, -1)

    def codes(s: Array) -> Array:
        return np.clip(np.rint(x / safe(s)), least, top)

    starts = [extreme / np.float32(least + t) for t in (*STARTS, *(-STARTS / 4))]
    return _refined(x, starts, codes)


def fit_levels(x: Array) -> Array:
    """s of either sign with x ~ s K[q], K the table of IQ4; groups on the last axis."""
    where = np.abs(x).argmax(-1)[..., None]
    extreme = np.take_along_axis(x, where, -1)

    def levels(s: Array) -> Array:
        return LEVELS[nearest_level(x, s)]

    starts = [extreme / np.float32(LEVELS[0] + 5 * t) for t in (*STARTS, *(STARTS * 2))]
    return _refined(x, [*starts, -extreme / np.float32(LEVELS[-1])], levels)


def nearest_level(x: Array, s: Array) -> Array:
    """The index of the level nearest to x / s."""
    return np.searchsorted(MIDDLES, x / safe(s)).astype(np.uint8)


def _refined(x: Array, starts: list[Array], codes: Any) -> Array:
    weight = weights(x)
    best = np.full(starts[0].shape, np.inf, np.float32)
    scale = np.zeros_like(starts[0])
    for s in starts:
        for _ in range(REFITS + 1):
            q = codes(s)
            miss = (weight * (s * q - x) ** 2).sum(-1, keepdims=True)
            better = miss < best
            best, scale = np.where(better, miss, best), np.where(better, s, scale)
            squares = (weight * q * q).sum(-1, keepdims=True)
            s = (weight * x * q).sum(-1, keepdims=True) / safe(squares)
    return scale[..., 0]


def integer_scales(s: Array, top: int) -> tuple[Array, Array, Array]:
    """Non-negative group scales as f16 bytes of d, integers 0 .. top, and their f32 products."""
    d = s.max(-1, keepdims=True) / np.float32(top)
    raw = half_bytes(d)
    stored = raw.view(np.float16).astype(np.float32)
    whole = np.clip(np.rint(s / safe(stored)), 0, top)
    return raw, whole.astype(np.uint8), stored * whole


def signed_scales(s: Array, least: int) -> tuple[Array, Array, Array]:
    """Signed group scales as f16 bytes of d, integers least .. -least - 1, and their products."""
    where = np.abs(s).argmax(-1)[..., None]
    d = np.take_along_axis(s, where, -1) / np.float32(least)
    raw = half_bytes(d)
    stored = raw.view(np.float16).astype(np.float32)
    whole = np.clip(np.rint(s / safe(stored)), least, -least - 1)
    return raw, whole.astype(np.int8), stored * whole


def ranged(blocks: Array, group: int, top: int, scale_top: int) -> tuple[Array, ...]:
    """Codes and both levels of scales and minima: (q, d, S, dmin, M)."""
    x = blocks.reshape(*blocks.shape[:-1], -1, group)
    s, m = fit_range(x, top)
    d, whole, s = integer_scales(s, scale_top)
    dmin, least, m = integer_scales(m, scale_top)
    q = np.clip(np.rint((x + m[..., None]) / safe(s[..., None])), 0, top)
    q = np.where(s[..., None] == 0, 0, q)
    return q.reshape(blocks.shape).astype(np.uint8), d, whole, dmin, least


def signed(blocks: Array, group: int, least: int, scale_least: int) -> tuple[Array, Array, Array]:
    """Codes (offset to 0 ..) and both levels of scales: (q, d, S)."""
    x = blocks.reshape(*blocks.shape[:-1], -1, group)
    d, whole, s = signed_scales(fit_signed(x, least, -least - 1), scale_least)
    q = np.clip(np.rint(x / safe(s[..., None])), least, -least - 1) - least
    q = np.where(s[..., None] == 0, -least, q)
    return q.reshape(blocks.shape).astype(np.uint8), d, whole


def six_bits(s: Array, m: Array) -> Array:
    """Eight pairs of 6-bit numbers as twelve bytes; see the decoder."""
    early = s[..., :4] | ((s[..., 4:] >> 4) << 6)
    middle = m[..., :4] | ((m[..., 4:] >> 4) << 6)
    late = (s[..., 4:] & 15) | ((m[..., 4:] & 15) << 4)
    return np.concatenate([early, middle, late], -1)


def nibbles64(q: Array) -> Array:
    """Low nibbles of 256 codes: 64 elements in 32 bytes, the later 32 in the high halves."""
    parts = q.reshape(*q.shape[:-1], 4, 64) & 15
    return join_nibbles(parts).reshape(*q.shape[:-1], 128)


def bit_plane(q: Array, at: int) -> Array:
    """Bit `at` of 256 codes: bit e / 32 of byte e mod 32."""
    parts = ((q >> at) & 1).reshape(*q.shape[:-1], 8, 32)
    return np.packbits(parts, axis=-2, bitorder="little").reshape(*q.shape[:-1], 32)


def q2_k(blocks: Array) -> Array:
    """{u8 scales[16]; 2-bit q[256]; f16 d; f16 dmin}."""
    q, d, s, dmin, m = ranged(blocks, 16, 3, 15)
    return np.concatenate([s | (m << 4), planes32(q), d, dmin], -1)


def q3_k(blocks: Array) -> Array:
    """{u8 high[32]; 2-bit low[256]; u8 scales[12]; f16 d}."""
    q, d, whole = signed(blocks, 16, -4, -32)
    s = (whole + 32).astype(np.uint8)
    low = (s[..., :8] & 15) | ((s[..., 8:] & 15) << 4)
    parts = (s >> 4).reshape(*s.shape[:-1], 4, 4) << np.array([[0], [2], [4], [6]], np.uint8)
    scales = np.concatenate([low, np.bitwise_or.reduce(parts, -2)], -1)
    return np.concatenate([bit_plane(q, 2), planes32(q & 3), scales, d], -1)


def q4_k(blocks: Array) -> Array:
    """{f16 d; f16 dmin; u8 scales[12]; nibbles[128]}."""
    q, d, s, dmin, m = ranged(blocks, 32, 15, 63)
    return np.concatenate([d, dmin, six_bits(s, m), nibbles64(q)], -1)


def q5_k(blocks: Array) -> Array:
    """{f16 d; f16 dmin; u8 scales[12]; u8 high[32]; nibbles[128]}."""
    q, d, s, dmin, m = ranged(blocks, 32, 31, 63)
    return np.concatenate([d, dmin, six_bits(s, m), bit_plane(q, 4), nibbles64(q)], -1)


def q6_k(blocks: Array) -> Array:
    """{nibbles low[128]; 2-bit high[64]; i8 scales[16]; f16 d}."""
    q, d, whole = signed(blocks, 16, -32, -128)
    halves = (q & 15).reshape(*q.shape[:-1], 2, 128)
    low = join_nibbles(halves).reshape(*q.shape[:-1], 128)
    return np.concatenate([low, planes32(q >> 4), whole.view(np.uint8), d], -1)


def iq4_nl(blocks: Array) -> Array:
    """{f16 d; nibbles[16]}."""
    raw = half_bytes(fit_levels(blocks)[..., None])
    d = raw.view(np.float16).astype(np.float32)
    return np.concatenate([raw, join_nibbles(nearest_level(blocks, d))], -1)


def iq4_xs(blocks: Array) -> Array:
    """{f16 d; u16 high; u8 low[4]; nibbles[128]}."""
    x = blocks.reshape(*blocks.shape[:-1], 8, 32)
    d, whole, s = signed_scales(fit_levels(x), -32)
    q = nearest_level(x, s[..., None])
    stored = (whole + 32).astype(np.uint8)
    low = (stored[..., ::2] & 15) | ((stored[..., 1::2] & 15) << 4)
    parts = (stored >> 4).reshape(*stored.shape[:-1], 2, 4) << np.array([0, 2, 4, 6], np.uint8)
    high = np.bitwise_or.reduce(parts, -1)
    nibbles = join_nibbles(q).reshape(*blocks.shape[:-1], 128)
    return np.concatenate([d, high, low, nibbles], -1)
