"""Encoders of integer codes with float factors: the edge rule of MLX and symmetric scales.

All arithmetic is f32. A code is `rint(w / s)` (ties to even) clamped to its range.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.dtypes import DType, f32
from iron.quant.format import Elem, Format
from iron.quant.pack import pack

Array = np.ndarray[Any, Any]
TINY = np.float32(1e-7)


def edge(fmt: Format, w: Array, dtype: DType) -> dict[str, Array]:
    """Affine codes by MLX's rule: the end of larger magnitude of a group is exact.

    s = max((max - min) / (2^b - 1), 1e-7), negated when the maximum is that end; s is then
    adjusted so that the end falls on a whole code. Factors are rounded to `dtype` afterwards.
    One bit is special: s = max - min, b = min. Source: `mlx.core.quantize`, mode affine.
    """
    top = np.float32((1 << fmt.bits) - 1)
    groups = w.reshape(len(w), -1, fmt.group)
    low, high = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
    if fmt.bits == 1:
        scale, bias = high - low, low
        scale = np.maximum(scale, TINY)
    else:
        scale, bias = _edge_factors(low, high, top)
    q = np.clip(np.rint((groups - bias) / scale), 0, top).astype(np.uint8)
    return {
        "codes": pack(q.reshape(w.shape), fmt.bits),
        "scales": dtype(scale[..., 0]),
        "biases": dtype(bias[..., 0]),
    }


def _edge_factors(low: Array, high: Array, top: np.float32) -> tuple[Array, Array]:
    at_low = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / top, TINY)
    scale = np.where(at_low, scale, -scale)
    end = np.where(at_low, low, high)
    steps = np.rint(end / scale)
    exact = steps != 0
    scale = np.where(exact, end / np.where(exact, steps, np.float32(1)), scale)
    return scale, np.where(exact, end, np.float32(0))


def symmetric(fmt: Format, w: Array) -> dict[str, Array]:
    """s = amax / (2^(b - 1) - 1), rounded up in the scale's dtype; codes against the stored s.

    A group of zeros has scale 1 and codes 0, so that nothing is divided by zero.
    """
    top = np.float32((1 << (fmt.bits - 1)) - 1)
    groups = w.reshape(len(w), -1, fmt.group or w.shape[1])
    wanted = np.abs(groups).max(-1, keepdims=True) / top
    stored = round_up(wanted, fmt.plane("scales").dtypes[0])
    stored = np.where(wanted == 0, np.ones_like(stored), stored)
    q = np.clip(np.rint(groups / f32(stored)), -top, top).astype(np.int64)
    if fmt.elem is Elem.OFFSET:
        q = q + (1 << (fmt.bits - 1))
    codes = (q & ((1 << fmt.bits) - 1)).astype(np.uint8).reshape(w.shape)
    return {"codes": pack(codes, fmt.bits), "scales": stored[..., 0]}


def round_up(x: Array, dtype: DType) -> Array:
    """Non-negative f32 as `dtype`, never smaller."""
    out = np.asarray(dtype(x))
    short = f32(out) < x
    raised = (out.view(np.uint16 if dtype.bits == 16 else np.uint32) + 1).astype(
        np.uint16 if dtype.bits == 16 else np.uint32
    )
    return np.where(short, raised.view(dtype.np), out)
