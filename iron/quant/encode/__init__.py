"""Encoding on the host: weights in, planes of a format out, by the format's named rule.

Non-finite weights and factors that do not fit their stored type are errors, never silent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from iron.errors import error
from iron.quant.encode import affine, aura, ggml, kquant, minifloat, nearest
from iron.quant.encode.options import Options
from iron.quant.format import Algebra, Elem, Encode, Format, Outer, Rule, Scale, by_name
from iron.quant.tensor import QTensor

__all__ = ["Options", "encode", "quantize"]

Array = np.ndarray[Any, Any]
TILE = 1 << 20  # weights encoded at once where a rule works group by group


def quantize(w: Any, fmt: Format | str, options: Options | None = None) -> QTensor:
    """The weights [..., N, K] in a format; see `encode`."""
    fmt = by_name(fmt) if isinstance(fmt, str) else fmt
    w = np.asarray(w)
    if w.ndim < 2:
        raise error("E0701", f"a weight has at least two axes, not shape {w.shape}")
    return QTensor(fmt, encode(fmt, w, options), w.shape)


def encode(fmt: Format, w: Array, options: Options | None = None) -> dict[str, Array]:
    """The planes of weights [..., N, K] (any float type, taken as f32).

    Raises E0804 when the format is not encoded, K does not divide into groups, a weight is NaN or
    infinite, or a factor overflows its type.
    """
    if fmt.encode is Encode.DECODE_ONLY:
        raise error("E0804", f"{fmt} is not encoded: {fmt.reason}")
    k = w.shape[-1]
    if k % fmt.multiple:
        raise error("E0804", f"{fmt}: K = {k} is not a multiple of {fmt.multiple}")
    flat = np.ascontiguousarray(w, np.float32).reshape(math.prod(w.shape[:-1]), k)
    refuse_non_finite(fmt, flat)
    with np.errstate(all="ignore"):
        planes = _planes(fmt, flat, options or Options())
    _refuse_overflow(fmt, planes)
    return planes


def refuse_non_finite(fmt: Format, flat: Array) -> None:
    """E0804 that names the first weight that is NaN or infinite."""
    bad = ~np.isfinite(flat)
    if bad.any():
        n, k = (int(i) for i in np.argwhere(bad)[0])
        raise error("E0804", f"{fmt}: the weight [{n}, {k}] is {flat[n, k]}")


def _planes(fmt: Format, flat: Array, options: Options) -> dict[str, Array]:
    if fmt.algebra is Algebra.DENSE:
        return {"values": np.asarray(fmt.planes[0].dtypes[0](flat))}
    if fmt.block_bytes:
        return {"blocks": _blocks(fmt, flat)}
    if fmt.body == "bnb":
        return nearest.bitsandbytes(fmt, flat)
    return _stream(fmt)(fmt, flat, options)


def _stream(fmt: Format) -> Callable[[Format, Array, Options], dict[str, Array]]:
    if fmt.rule is Rule.LLOYD:
        return aura.encode
    if fmt.rule is Rule.NEAREST:
        return lambda f, w, _: nearest.planes(f, w)
    if fmt.outer is not Outer.NONE:
        return minifloat.two_level
    if fmt.algebra is Algebra.AFFINE:
        return affine.edge if fmt.rule is Rule.EDGE else affine.minmax
    if fmt.algebra is Algebra.ZERO:
        return affine.zero_point
    if fmt.scale is Scale.E8M0 and fmt.scale_rows == 1:
        return minifloat.powers
    integer = fmt.elem in (Elem.INT, Elem.OFFSET)
    return affine.symmetric if integer else minifloat.float_scaled


def _blocks(fmt: Format, flat: Array) -> Array:
    encoder = BLOCKS[fmt.name]
    out = np.empty((len(flat), flat.shape[1] // fmt.block * fmt.block_bytes), np.uint8)
    step = max(1, TILE // max(1, flat.shape[1]))
    for low in range(0, len(flat), step):
        part = flat[low : low + step]
        blocks = part.reshape(len(part), -1, fmt.block)
        out[low : low + step] = encoder(blocks).reshape(len(part), -1)
    return out


def _refuse_overflow(fmt: Format, planes: Mapping[str, Array]) -> None:
    for plane in fmt.planes:
        held = planes[plane.name]
        if held.dtype.kind in "fV" and not np.isfinite(held).all():
            raise error("E0804", f"{fmt}: a factor in {plane.name} overflows {held.dtype}")


BLOCKS: Final[Mapping[str, Callable[[Array], Array]]] = MappingProxyType(
    {
        f"gguf_{encoder.__name__}": encoder
        for encoder in (
            ggml.q4_0,
            ggml.q4_1,
            ggml.q5_0,
            ggml.q5_1,
            ggml.q8_0,
            ggml.q1_0,
            ggml.q2_0,
            ggml.tq1_0,
            ggml.tq2_0,
            ggml.mxfp4,
            ggml.nvfp4,
            kquant.q2_k,
            kquant.q3_k,
            kquant.q4_k,
            kquant.q5_k,
            kquant.q6_k,
            kquant.iq4_nl,
            kquant.iq4_xs,
        )
    }
)
