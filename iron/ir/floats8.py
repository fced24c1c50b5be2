"""Floats of 8 bits: what a byte stands for where a product takes it as one.

Source: OCP 8-bit Floating Point Specification (OFP8) 1.0. E4M3 has no infinity, 0x7F and 0xFF are
NaN; E5M2 is the high byte of an f16.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

FLOATS8 = ("e4m3", "e5m2")

Array = np.ndarray[Any, Any]


def decoded(codes: Array, name: str) -> Array:
    """The numbers of u8 `codes` in f32, exactly.

    >>> decoded(np.array([0x00, 0x01, 0x38, 0xFE], np.uint8), "e4m3").tolist()
    [0.0, 0.001953125, 1.0, -448.0]
    """
    return _table(name)[codes]


@cache
def _table(name: str) -> Array:
    codes = np.arange(256, dtype=np.uint16)
    if name == "e5m2":
        return (codes << np.uint16(8)).view(np.float16).astype(np.float32)
    magnitude = codes & np.uint16(0x7F)
    half = ((magnitude << np.uint16(7)) | ((codes & np.uint16(0x80)) << np.uint16(8))).view(
        np.float16
    )
    made = half.astype(np.float32) * np.float32(256)  # of the exponents' biases, 15 and 7
    return np.where(magnitude == 0x7F, np.float32(np.nan), made)
