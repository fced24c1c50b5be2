"""Encoders that pick the nearest entry of a table: NF4 and FP4 of bitsandbytes.

The scale of a block is its greatest magnitude over that of the table; ties take the lower entry of
the sorted table, except where the source's thresholds say otherwise.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from iron.quant.format import Format
from iron.quant.pack import stream

Array = np.ndarray[Any, Any]

# Quantiles of N(0, 1) scaled to [-1, 1]. Source: Dettmers et al., "QLoRA", 2023, appendix E.
NF4: Final = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
# bitsandbytes' FP4: sign bit 3, values in twelfths, not in the order of E2M1.
FP4: Final = tuple(sign * v / 12 for sign in (1, -1) for v in (0, 0.0625, 8, 12, 4, 6, 2, 3))


def book_codes(x: Array, book: Array) -> Array:
    """The index of the entry nearest to each x; of two at one distance the smaller value."""
    order = np.argsort(book, kind="stable")
    ranked = book[order]
    middles = (ranked[1:] + ranked[:-1]) / np.float32(2)
    return order[np.searchsorted(middles, x, side="left")].astype(np.uint8)


def bitsandbytes(fmt: Format, w: Array) -> dict[str, Array]:
    """Blocks of a flat row; the earlier element in the high nibble."""
    book = np.array(NF4 if "nf4" in fmt.name else FP4, np.float32)
    groups = w.reshape(len(w), -1, fmt.group)
    amax = np.abs(groups).max(-1, keepdims=True)
    scaled = groups * (np.float32(1) / np.where(amax == 0, np.float32(1), amax))
    code = book_codes(scaled, book).reshape(len(w), -1, 2)
    return {
        "codes": (code[..., 0] << 4) | code[..., 1],
        "absmax": amax[..., 0],
        "codebook": book[None],
    }


def planes(fmt: Format, w: Array) -> dict[str, Array]:
    """The same choice from NF4 in the stream layout; the stored scale is never too small."""
    book = np.array(NF4, np.float32)
    groups = w.reshape(len(w), -1, fmt.group)
    scale = np.abs(groups).max(-1, keepdims=True)
    scale = np.where(scale == 0, np.float32(1), scale)
    code = book_codes(groups / scale, book).reshape(w.shape)
    return {"codes": stream(code, fmt.bits), "scales": scale[..., 0], "codebook": book[None]}
