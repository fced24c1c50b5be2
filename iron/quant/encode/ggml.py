"""Encoders of the simple GGUF blocks, byte for byte as ggml writes them.

Codes come from the f32 scale before it is rounded to f16, in ggml's order of operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.errors import error
from iron.quant.format import Format

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


def signed_codes(groups: Array, bits: int) -> tuple[Array, Array]:
    """Codes and d of q4_0 and q5_0: the signed extreme becomes code 0."""
    middle = 1 << (bits - 1)
    where = np.abs(groups).argmax(-1)[..., None]
    d = np.take_along_axis(groups, where, -1) / np.float32(-middle)
    scaled = groups.astype(np.float64) * inverse(d).astype(np.float64) + (middle + 0.5)
    return np.trunc(scaled).clip(0, 2 * middle - 1).astype(np.uint8), d


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


def q4_0(fmt: Format, groups: Array) -> Array:
    """{f16 d; nibbles[16]}."""
    q, d = signed_codes(groups, 4)
    return np.concatenate([half_bytes(d), join_nibbles(q)], -1)


def q4_1(fmt: Format, groups: Array) -> Array:
    """{f16 d; f16 m; nibbles[16]}."""
    q, d, m = ranged_codes(groups, 4)
    return np.concatenate([half_bytes(d), half_bytes(m), join_nibbles(q)], -1)


def q8_0(fmt: Format, groups: Array) -> Array:
    """{f16 d; i8 q[32]}."""
    d = np.abs(groups).max(-1, keepdims=True) / np.float32(127)
    q = round_away(groups * inverse(d)).astype(np.int8).view(np.uint8)
    return np.concatenate([half_bytes(d), q], -1)
