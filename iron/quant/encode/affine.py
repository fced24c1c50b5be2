"""Encoders of integer codes with float factors: MLX's edge rule, minimum and maximum, zero points.

All arithmetic is f32. A code is `rint((w - b) / s)` (ties to even) clamped to its range.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.dtypes import DType, f32
from iron.quant.encode.options import Options
from iron.quant.format import Elem, Format, Rule
from iron.quant.pack import pack, stream

Array = np.ndarray[Any, Any]
TINY = np.float32(1e-7)


def edge(fmt: Format, w: Array, options: Options) -> dict[str, Array]:
    """Affine codes by MLX's rule: the end of larger magnitude of a group is exact.

    s = max((max - min) / (2^b - 1), 1e-7), negated when the maximum is that end; s is then
    adjusted so that the end falls on a whole code. Factors are rounded to their dtype afterwards.
    One bit is special: s = max - min, b = min. Source: `mlx.core.quantize`, mode affine.
    """
    dtype = options.dtype or fmt.plane("scales").dtypes[0]
    top = np.float32((1 << fmt.bits) - 1)
    groups = w.reshape(len(w), -1, fmt.group)
    low, high = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
    if fmt.bits == 1:
        scale, bias = np.maximum(high - low, TINY), low
    else:
        scale, bias = _edge_factors(low, high, top)
    q = np.clip(np.rint((groups - bias) / scale), 0, top).astype(np.uint8)
    return {
        "codes": stream(q.reshape(w.shape), fmt.bits),
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


def minmax(fmt: Format, w: Array, options: Options) -> dict[str, Array]:
    """s = (max - min) / (2^b - 1), b = min, q = floor((w - b) / s + 0.5) against the stored s, b.

    s is 1 where the group is constant. This is the rule of key and value caches.
    """
    dtype = options.dtype or fmt.plane("scales").dtypes[0]
    top = np.float32((1 << fmt.bits) - 1)
    groups = w.reshape(len(w), -1, fmt.group)
    low = groups.min(-1, keepdims=True)
    span = groups.max(-1, keepdims=True) - low
    scale = dtype(np.where(span == 0, np.float32(1), span / top))
    bias = dtype(low)
    q = np.floor((groups - f32(bias)) / f32(scale) + np.float32(0.5))
    codes = np.clip(q, 0, top).astype(np.uint8).reshape(w.shape)
    return {"codes": stream(codes, fmt.bits), "scales": scale[..., 0], "biases": bias[..., 0]}


def zero_point(fmt: Format, w: Array, options: Options) -> dict[str, Array]:
    """s = (max - min) / (2^b - 1) with 0 in the range, z = rint(-min / s), q = rint(w / s) + z.

    compressed-tensors packs the zero points down N.
    """
    dtype = options.dtype or fmt.plane("scales").dtypes[0]
    top = np.float32((1 << fmt.bits) - 1)
    groups = w.reshape(len(w), -1, fmt.group or w.shape[1])
    low = np.minimum(groups.min(-1, keepdims=True), np.float32(0))
    high = np.maximum(groups.max(-1, keepdims=True), np.float32(0))
    span = high - low
    scale = round_up(np.where(span == 0, np.float32(1), span / top), dtype)
    zero = np.clip(np.rint(-low / f32(scale)), 0, top)
    codes = np.clip(np.rint(groups / f32(scale)) + zero, 0, top).astype(np.uint8)
    zeros = zero[..., 0].astype(np.uint16)
    if fmt.body == "ct_asym":
        zeros = np.ascontiguousarray(pack(zeros.astype(np.uint8).T, fmt.bits).T)
    return {
        "codes": stream(codes.reshape(w.shape), fmt.bits),
        "scales": scale[..., 0],
        "zeros": zeros,
    }


def symmetric(fmt: Format, w: Array, options: Options) -> dict[str, Array]:
    """s = amax / (2^(b - 1) - 1), rounded up in the scale's dtype; codes against the stored s.

    The rule FULL is that of compressed-tensors: s = 2 amax / (2^b - 1), and the least code is used.
    A group of zeros has scale 1 and codes 0, so that nothing is divided by zero.
    """
    groups = w.reshape(len(w), -1, fmt.group or w.shape[1])
    amax = np.abs(groups).max(-1, keepdims=True)
    top = (1 << (fmt.bits - 1)) - 1
    full = (options.rule or fmt.rule) is Rule.FULL
    least = -top - 1 if full else -top
    dtype = fmt.plane("scales").dtypes[0]
    if full:
        stored = np.asarray(dtype(amax * np.float32(2) / np.float32((1 << fmt.bits) - 1)))
    else:
        stored = round_up(amax / np.float32(top), dtype)
    stored = np.where(amax == 0, np.ones_like(stored), stored)
    q = np.clip(np.rint(groups / f32(stored)), least, top).astype(np.int64)
    if fmt.elem is Elem.OFFSET:
        q = q + (1 << (fmt.bits - 1))
    codes = (q & ((1 << fmt.bits) - 1)).astype(np.uint8).reshape(w.shape)
    return {"codes": stream(codes, fmt.bits), "scales": stored[..., 0]}


def round_up(x: Array, dtype: DType) -> Array:
    """Non-negative f32 as `dtype`, never smaller."""
    if dtype is f32:
        return x
    out = np.asarray(dtype(x))
    raised = (out.view(np.uint16) + np.uint16(1)).view(dtype.np)
    return np.where(f32(out) < x, raised, out)
