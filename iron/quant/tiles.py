"""Rows side by side: the planes of a stream format laid out as `format.tiled` says, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from iron.quant.format.tiled import BASES, SUFFIX, TILE
from iron.quant.pack import stream, unpack
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]


def beside(plane: Array) -> Array:
    """[N, C] as [tiles, C * 32]: 32 rows side by side, the last tile padded with zeros."""
    n, cols = plane.shape
    padded = np.pad(plane, ((0, -n % TILE), (0, 0)))
    parts = padded.reshape(-1, TILE, cols).swapaxes(1, 2)
    return np.ascontiguousarray(parts).reshape(len(parts), cols * TILE)


def apart(plane: Array, n: int) -> Array:
    """The rows of `beside`, n of them."""
    parts = plane.reshape(len(plane), -1, TILE).swapaxes(1, 2)
    return np.ascontiguousarray(parts.reshape(-1, parts.shape[2])[:n])


def words_of(codes: Array, bits: int) -> Array:
    """u8 codes [N, K] as words that hold them four by four, one in each byte."""
    each = 32 // bits
    parts = codes.reshape(len(codes), -1, each // 4, 4)
    held = np.ascontiguousarray(parts[:, :, 0])
    for part in range(1, each // 4):
        held = held | (parts[:, :, part] << np.uint8(part * bits))
    return held.view("<u4")[..., 0]


def codes_of(words: Array, bits: int) -> Array:
    """The u8 codes [N, K] of `words_of`."""
    held = np.ascontiguousarray(words)[..., None].view(np.uint8)
    mask = np.uint8((1 << bits) - 1)
    parts = [(held >> np.uint8(part * bits)) & mask for part in range(8 // bits)]
    return np.stack(parts, -2).reshape(len(words), -1)


def side_by_side(w: QTensor) -> dict[str, Array]:
    """The planes of a stream format as those of its tiled form."""
    codes = unpack(w.planes["codes"], w.fmt.bits, w.cols)
    factors = {name: beside(p) for name, p in w.planes.items() if name != "codes"}
    return {"codes": beside(words_of(codes, w.fmt.bits)), **factors}


def one_by_one(w: QTensor) -> dict[str, Array]:
    """The planes of a tiled format as those of the stream format."""
    codes = codes_of(apart(w.planes["codes"], w.rows), w.fmt.bits)
    factors = {name: apart(p, w.rows) for name, p in w.planes.items() if name != "codes"}
    return {"codes": stream(codes, w.fmt.bits), **factors}


def other_sign(w: QTensor) -> dict[str, Array]:
    """Two's complement as the code plus half its range, and back: the sign bit flipped."""
    return {**w.planes, "codes": w.planes["codes"] ^ np.uint8(0x80)}


EDGES: Final[Mapping[tuple[str, str], Callable[[QTensor], dict[str, Array]]]] = MappingProxyType(
    {(name, name + SUFFIX): side_by_side for name in BASES}
    | {(name + SUFFIX, name): one_by_one for name in BASES}
    | {
        ("int8_g32_f16", "int8_sym_g32_f16"): other_sign,
        ("int8_sym_g32_f16", "int8_g32_f16"): other_sign,
    }
)
