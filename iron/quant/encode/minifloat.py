"""Encoders of small floats: OCP elements, MX powers of two, NVFP4's two levels, float scales.

Elements round to nearest, ties to even, and saturate; division by the scale is one f32 operation.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from iron.dtypes import f32
from iron.quant.encode.affine import round_up
from iron.quant.encode.options import Options
from iron.quant.format import Elem, Format, Outer, Rule, Scale
from iron.quant.format.regular import LARGEST
from iron.quant.pack import stream

Array = np.ndarray[Any, Any]

# exponent bits, mantissa bits, bias
SHAPES: Final = {
    Elem.E2M1: (2, 1, 1),
    Elem.E2M3: (2, 3, 1),
    Elem.E3M2: (3, 2, 3),
    Elem.E4M3: (4, 3, 7),
    Elem.E5M2: (5, 2, 15),
}


def element(elem: Elem, x: Array, signed_zero: bool = True) -> Array:
    """f32 as u8 codes of `elem`: nearest even, saturating; E5M2 keeps infinities.

    Without `signed_zero`, what rounds to zero from below becomes code 0. x must not be NaN.
    """
    exponent, mantissa, bias = SHAPES[elem]
    size = np.minimum(np.abs(x), np.float32(LARGEST[elem]))
    power = np.where(size == 0, 1 - bias, np.maximum(np.frexp(size)[1] - 1, 1 - bias))
    steps = np.rint(np.ldexp(size, mantissa - power)).astype(np.int32)
    code = steps + ((power + bias - 1) << mantissa)
    if elem is Elem.E5M2:
        code = np.where(np.isinf(x), 0x7C, code)
    sign = np.signbit(x) if signed_zero else np.signbit(x) & (code != 0)
    return (code | (sign.astype(np.int32) << (exponent + mantissa))).astype(np.uint8)


def floor_log2(x: Array) -> Array:
    """The exponent of a positive f32, subnormals included."""
    return np.frexp(x)[1].astype(np.int32) - 1


def power_code(fmt: Format, amax: Array, options: Options) -> Array:
    """The E8M0 code of a group by the rule; 127 for a group of zeros."""
    rule, largest = options.rule or fmt.rule, fmt_largest(fmt)
    if rule is Rule.CEIL:
        ratio = amax / np.float32(largest)
        exponent = floor_log2(ratio)
        exponent = exponent + (np.ldexp(np.float32(1), exponent) < ratio)
        exponent = np.where(ratio == 0, -127, exponent)
    else:
        emax = math.frexp(largest)[1] - 1
        if rule is Rule.EVEN:
            kept = SHAPES[fmt.elem][1] if options.kept is None else options.kept
            bits = amax.view(np.uint32) + np.uint32(1 << (22 - kept))
            amax = (bits & np.uint32(0x7F800000)).view(np.float32)
        exponent = floor_log2(amax) - emax
    code = np.clip(exponent + 127, 0, 254)
    return np.where(amax == 0, 127, code).astype(np.uint8)


def power_value(code: Array) -> Array:
    """2^(code - 127) in f32."""
    return np.ldexp(np.float32(1), code.astype(np.int32) - 127)


def powers(fmt: Format, w: Array, options: Options) -> dict[str, Array]:
    """A power of two for each group: MX elements and integers."""
    groups = w.reshape(len(w), -1, fmt.group)
    amax = np.abs(groups).max(-1, keepdims=True)
    code = power_code(fmt, amax, options)
    scaled = groups / power_value(code)
    codes = codes_of(fmt, scaled, options).reshape(w.shape)
    return {"codes": stream(codes, fmt.bits), "scales": code[..., 0]}


def fmt_largest(fmt: Format) -> float:
    """The greatest magnitude that an encoder of this format gives an element."""
    if fmt.elem in LARGEST:
        return LARGEST[fmt.elem]
    top = float((1 << (fmt.bits - 1)) - 1)
    return top * 2.0 ** (2 - fmt.bits) if fmt.elem is Elem.FIXED else top


def codes_of(fmt: Format, scaled: Array, options: Options) -> Array:
    """u8 codes of weights already divided by their scale."""
    if fmt.elem in SHAPES:
        return element(fmt.elem, scaled, options.signed_zero)
    top = (1 << (fmt.bits - 1)) - 1
    if fmt.elem is Elem.FIXED:
        scaled = scaled * np.float32(2.0 ** (fmt.bits - 2))
    q = np.clip(np.rint(scaled), -top, top).astype(np.int64)
    if fmt.elem is Elem.OFFSET:
        q = q + (1 << (fmt.bits - 1))
    return (q & ((1 << fmt.bits) - 1)).astype(np.uint8)


def two_level(fmt: Format, w: Array, options: Options) -> dict[str, Array]:
    """NVFP4: g = amax(tensor) / 2688, s = E4M3(amax / 6 / g), codes against s * g.

    `options.outer` fixes g; `options.least` is the least code of s for a group that is not zero.
    Where the format divides, 2688 / amax is stored instead and used in every step.
    """
    divides = fmt.outer is Outer.DIVIDE
    stored = np.float32(options.outer) if options.outer is not None else _outer(w, divides)
    groups = w.reshape(len(w), -1, fmt.group)
    amax = np.abs(groups).max(-1, keepdims=True)
    wanted = amax / np.float32(6)
    code = element(Elem.E4M3, wanted * stored if divides else wanted / stored)
    raised = (amax > 0) | options.floor_zero
    code = np.where(raised, np.maximum(code, options.least), code).astype(np.uint8)
    level = e4m3_value(code)
    scale = level / stored if divides else level * stored
    scaled = np.where(scale == 0, np.float32(0), groups / np.where(scale == 0, 1, scale))
    codes = element(Elem.E2M1, scaled, options.signed_zero).reshape(w.shape)
    outer = np.full((len(w), 1), stored, np.float32)
    return {"codes": stream(codes, 4), "scales": code[..., 0], "outer": outer}


def _outer(w: Array, divides: bool) -> np.float32:
    total = np.abs(w).max(initial=np.float32(0))
    if total == 0:
        return np.float32(1)
    largest = np.float32(2688)
    return (np.float32(1) / total) * largest if divides else total / largest


def e4m3_value(code: Array) -> Array:
    """The value of E4M3 codes below 0x7F."""
    exponent, rest = code.astype(np.int32) >> 3, code.astype(np.int32) & 7
    steps = np.where(exponent == 0, rest, rest + 8)
    return np.ldexp(steps.astype(np.float32), np.maximum(exponent, 1) - 10)


def float_scaled(fmt: Format, w: Array, options: Options) -> dict[str, Array]:
    """s = amax / largest, rounded up in the scale's dtype; codes against the stored s.

    A group of zeros has scale 1. Tiles, rows and whole tensors are groups of another shape.
    """
    n, k = w.shape
    rows, cols = fmt.scale_rows or n, fmt.group or k
    tiles = -(-n // rows), -(-k // cols)
    padded = np.zeros((tiles[0] * rows, tiles[1] * cols), np.float32)
    padded[:n, :k] = w
    blocks = padded.reshape(tiles[0], rows, tiles[1], cols)
    amax = np.abs(blocks).max((1, 3))
    if fmt.scale is Scale.E8M0:
        stored = power_code(fmt, amax, options)
        s = power_value(stored)
    else:
        dtype = options.dtype or fmt.plane("scales").dtypes[0]
        wanted = full_range(fmt, amax) if options.rule is Rule.FULL else amax / fmt_largest(fmt)
        stored = round_up(wanted.astype(np.float32), dtype)
        stored = np.where(amax == 0, np.ones_like(stored), stored)
        s = np.asarray(f32(stored))
    codes = codes_of(fmt, (blocks / s[:, None, :, None]).reshape(padded.shape)[:n, :k], options)
    return {"codes": stream(codes, fmt.bits), "scales": stored}


def full_range(fmt: Format, amax: Array) -> Array:
    """compressed-tensors' scale: 2 amax over the whole range of the codes."""
    return amax * np.float32(2) / np.float32((1 << fmt.bits) - 1)
