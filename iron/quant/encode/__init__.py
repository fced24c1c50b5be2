"""Encoding on the host: weights in, planes of a format out, by the format's named rule.

Non-finite weights and factors that do not fit their stored type are errors, never silent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from iron.dtypes import DType
from iron.errors import error
from iron.quant.encode import affine, ggml
from iron.quant.format import Algebra, Encode, Format, Rule, by_name
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]


def quantize(w: Any, fmt: Format | str, dtype: DType | None = None) -> QTensor:
    """The weights [..., N, K] in a format; see `encode`."""
    fmt = by_name(fmt) if isinstance(fmt, str) else fmt
    w = np.asarray(w)
    if w.ndim < 2:
        raise error("E0701", f"a weight has at least two axes, not shape {w.shape}")
    return QTensor(fmt, encode(fmt, w, dtype), w.shape)


def encode(fmt: Format, w: Array, dtype: DType | None = None) -> dict[str, Array]:
    """The planes of weights [..., N, K] (any float type, taken as f32).

    `dtype` is the type of float factors where the format leaves it open. Raises E0804 when the
    format is not encoded, K does not divide into groups, a weight is NaN or infinite, or a factor
    overflows its type.
    """
    if fmt.encode is Encode.DECODE_ONLY:
        raise error("E0804", f"{fmt} is not encoded: {fmt.reason}")
    k = w.shape[-1]
    if k % fmt.multiple:
        raise error("E0804", f"{fmt}: K = {k} is not a multiple of {fmt.multiple}")
    flat = np.ascontiguousarray(w, np.float32).reshape(math.prod(w.shape[:-1]), k)
    refuse_non_finite(fmt, flat)
    with np.errstate(all="ignore"):
        planes = _planes(fmt, flat, dtype)
    _refuse_overflow(fmt, planes)
    return planes


def refuse_non_finite(fmt: Format, flat: Array) -> None:
    """E0804 that names the first weight that is NaN or infinite."""
    bad = ~np.isfinite(flat)
    if bad.any():
        n, k = (int(i) for i in np.argwhere(bad)[0])
        raise error("E0804", f"{fmt}: the weight [{n}, {k}] is {flat[n, k]}")


def _planes(fmt: Format, flat: Array, dtype: DType | None) -> dict[str, Array]:
    if fmt.algebra is Algebra.DENSE:
        return {"values": np.asarray(fmt.planes[0].dtypes[0](flat))}
    if fmt.name in BLOCKS:
        blocks = BLOCKS[fmt.name](fmt, flat.reshape(len(flat), -1, fmt.block))
        return {"blocks": blocks.reshape(len(flat), -1)}
    if fmt.rule is Rule.EDGE:
        return affine.edge(fmt, flat, dtype or fmt.plane("scales").dtypes[0])
    return affine.symmetric(fmt, flat)


def _refuse_overflow(fmt: Format, planes: Mapping[str, Array]) -> None:
    for plane in fmt.planes:
        held = planes[plane.name]
        if plane.name != "blocks" and held.dtype.kind in "fV" and not np.isfinite(held).all():
            raise error("E0804", f"{fmt}: a factor in {plane.name} overflows {held.dtype}")


BLOCKS: Final[Mapping[str, Callable[[Format, Array], Array]]] = MappingProxyType(
    {"gguf_q4_0": ggml.q4_0, "gguf_q4_1": ggml.q4_1, "gguf_q8_0": ggml.q8_0}
)
