"""Lossless changes of layout: the weights stay the same bit for bit, only their places change.

`to_planes` turns raw blocks of a file into a stream of codes and planes of factors, which kernels
read in whole words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from iron.errors import error
from iron.quant.format import FORMATS, Format
from iron.quant.pack import pack
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]


def to_planes(weight: QTensor) -> QTensor:
    """The same weights as a stream of codes with factors beside it; itself if it is one already.

    Raises E0601 when the format has no such form.
    """
    if weight.fmt.body in ("stream", "dense"):
        return weight
    edge = EDGES.get(weight.fmt.name)
    if edge is None:
        raise error("E0601", f"{weight.fmt} has no lossless form as planes")
    name, split = edge
    return QTensor(FORMATS[name], split(_blocks(weight), weight.fmt), weight.shape)


def _blocks(weight: QTensor) -> Array:
    """The raw blocks as [N, blocks, bytes]."""
    raw = weight.planes["blocks"]
    return raw.reshape(len(raw), -1, weight.fmt.block_bytes)


def _codes(codes: Array, bits: int) -> Array:
    """[N, blocks, elements] codes as the stream of each row."""
    return pack(codes.reshape(len(codes), -1), bits)


def _half(blocks: Array, at: int) -> Array:
    """The f16 at byte `at` of each block, as a plane [N, blocks]."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0]


def _split_nibbles(quants: Array) -> Array:
    """Bytes whose low nibbles are the first half of the elements, as elements."""
    return np.concatenate([quants & 15, quants >> 4], axis=-1)


def _q4_0(blocks: Array, fmt: Format) -> dict[str, Array]:
    codes = _codes(_split_nibbles(blocks[..., 2:]), 4)
    return {"codes": codes, "scales": _half(blocks, 0)}


def _q4_1(blocks: Array, fmt: Format) -> dict[str, Array]:
    codes = _codes(_split_nibbles(blocks[..., 4:]), 4)
    return {"codes": codes, "scales": _half(blocks, 0), "biases": _half(blocks, 2)}


def _q8_0(blocks: Array, fmt: Format) -> dict[str, Array]:
    return {"codes": _codes(blocks[..., 2:], 8), "scales": _half(blocks, 0)}


Split = Callable[[Array, Format], dict[str, Array]]
EDGES: Final[Mapping[str, tuple[str, Split]]] = MappingProxyType(
    {
        "gguf_q4_0": ("int4_sym_g32_f16", _q4_0),
        "gguf_q4_1": ("mlx_int4_g32", _q4_1),
        "gguf_q8_0": ("int8_g32_f16", _q8_0),
    }
)
