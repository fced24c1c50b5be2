"""Codes to and from little-endian bit streams: element j of a row is bits [j * bits, ...).

Source: the packing shared by MLX, compressed-tensors, GPTQ and OCP MX files.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def pack(codes: Array, bits: int) -> Array:
    """u8 codes [..., K] below 2^bits as u32 words [..., ceil(K * bits / 32)]; the rest is zero."""
    k = codes.shape[-1]
    size = -(-k * bits // 32) * 4
    octets = -(-k // 8)
    wide = np.zeros((*codes.shape[:-1], octets * 8), np.uint8)
    wide[..., :k] = codes
    wide = wide.reshape(*codes.shape[:-1], octets, 8)
    total = np.zeros(wide.shape[:-1], np.uint64)
    for j in range(8):
        total |= wide[..., j].astype(np.uint64) << np.uint64(j * bits)
    stream = total[..., None].view(np.uint8)[..., :bits].reshape(*codes.shape[:-1], octets * bits)
    out = np.zeros((*codes.shape[:-1], size), np.uint8)
    out[..., : stream.shape[-1]] = stream[..., :size]
    return out.view("<u4")


def stream(codes: Array, bits: int) -> Array:
    """The plane `codes` of u8 codes [..., K]: words of a bit stream; at 8 bits the bytes alone."""
    return np.ascontiguousarray(codes) if bits == 8 else pack(codes, bits)


def unpack_whole(words: Array, bits: int, k: int) -> Array:
    """The first k codes of each row of u32 words that hold whole codes only, as u8 [..., K].

    Each word has floor(32 / bits) codes from bit 0 up and its top bits unused, as older
    compressed-tensors packed 3, 5, 6 and 7 bits.
    """
    shifts = np.arange(32 // bits, dtype=np.uint32) * np.uint32(bits)
    codes = (words[..., None] >> shifts) & np.uint32((1 << bits) - 1)
    return codes.reshape(*words.shape[:-1], -1)[..., :k].astype(np.uint8)


def unpack(words: Array, bits: int, k: int) -> Array:
    """The first k codes of each row of u32 words, or of bytes, as u8 [..., K]."""
    stream = np.ascontiguousarray(words).view(np.uint8)
    octets = -(-k // 8)
    wide = np.zeros((*stream.shape[:-1], octets * bits), np.uint8)
    held = min(wide.shape[-1], stream.shape[-1])
    wide[..., :held] = stream[..., :held]
    total = np.zeros((*stream.shape[:-1], octets, 8), np.uint8)
    total[..., :bits] = wide.reshape(*stream.shape[:-1], octets, bits)
    joined = total.view("<u8")
    shifts = np.arange(8, dtype=np.uint64) * np.uint64(bits)
    codes = (joined >> shifts) & np.uint64((1 << bits) - 1)
    return codes.astype(np.uint8).reshape(*stream.shape[:-1], octets * 8)[..., :k]
