"""Foreign checkpoint layouts as streams along K: the codes of each row laid out anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from iron.dtypes import of_numpy
from iron.errors import error
from iron.quant.format import by_name
from iron.quant.pack import pack, stream, unpack
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]


def _down(words: Array, bits: int, count: int) -> Array:
    """Codes of bit streams that run down the columns of u32 words: [count, columns] as u8."""
    return unpack(np.ascontiguousarray(words.T), bits, count).T


def _zeros(zeros: Array, step: int) -> Array:
    """Zero points [groups, N] as a plane [N, groups]."""
    return np.ascontiguousarray(zeros.T.astype(np.uint16) + np.uint16(step))


def gptq(w: QTensor) -> dict[str, Array]:
    """Codes and zero points from their packing down K and along N; one added in version 1."""
    bits = w.fmt.bits
    codes = _down(w.planes["qweight"], bits, w.cols)
    zeros = unpack(w.planes["qzeros"], bits, w.rows)
    return {
        "codes": stream(np.ascontiguousarray(codes.T), bits),
        "scales": np.ascontiguousarray(w.planes["scales"].T),
        "zeros": _zeros(zeros, w.fmt.zero_step),
    }


def _awq_columns(words: Array) -> Array:
    """Eight columns of N from each word, in their own order."""
    shifts = np.array([0, 16, 4, 20, 8, 24, 12, 28], np.uint32)
    return ((words[..., None] >> shifts) & 15).astype(np.uint8).reshape(len(words), -1)


def awq(w: QTensor) -> dict[str, Array]:
    """Codes and zero points from eight columns a word."""
    codes = _awq_columns(w.planes["qweight"]).T
    return {
        "codes": stream(np.ascontiguousarray(codes), 4),
        "scales": np.ascontiguousarray(w.planes["scales"].T),
        "zeros": _zeros(_awq_columns(w.planes["qzeros"]), 0),
    }


def ct_asym(w: QTensor) -> dict[str, Array]:
    """The codes as they are; zero points from their packing down N."""
    zeros = _down(w.planes["zeros"], w.fmt.bits, w.rows)
    scales = w.planes["scales"]
    return {"codes": w.planes["codes"], "scales": scales, "zeros": zeros.astype(np.uint16)}


def hqq(w: QTensor) -> dict[str, Array]:
    """Groups from the parts of their cells."""
    bits, held = w.fmt.bits, w.planes["codes"]
    cells = 10 if bits == 3 else 8 // bits
    shifts = [held.dtype.type(bits * (cells - 1 - part)) for part in range(cells)]
    parts = [(held >> s) & held.dtype.type((1 << bits) - 1) for s in shifts]
    groups = np.concatenate(parts)[: w.rows * w.cols // w.fmt.group].astype(np.uint8)
    codes = stream(groups.reshape(w.rows, w.cols), bits)
    return {"codes": codes, "scales": w.planes["scales"], "zeros": w.planes["zeros"]}


def bitsandbytes(w: QTensor) -> dict[str, Array]:
    """Nibbles exchanged; block maxima in f32."""
    codes, absmax = w.planes["codes"], w.planes["absmax"]
    swapped = (codes << 4) | (codes >> 4)
    swapped = np.pad(swapped, ((0, 0), (0, -swapped.shape[1] % 4)))
    if w.fmt.body == "bnb_dq":
        each = np.arange(absmax.size) // 256
        level = w.planes["nested_codebook"][0, absmax.reshape(-1)]
        flat = level * w.planes["nested_absmax"][0, each] + w.planes["nested_offset"][0, 0]
        absmax = flat.reshape(absmax.shape)
    return {
        "codes": swapped.view("<u4"),
        "scales": absmax,
        "codebook": w.planes["codebook"],
    }


def bitnet(w: QTensor) -> dict[str, Array]:
    """Rows from the parts of their bytes; the reciprocal of the stored factor."""
    held = w.planes["codes"]
    codes = np.concatenate([(held >> s) & 3 for s in (0, 2, 4, 6)])
    scale = np.float32(1) / w.planes["scales"].astype(np.float32)
    return {"codes": stream(codes, 2), "scales": np.full((w.rows, 1), scale[0, 0], np.float32)}


def sort(weight: QTensor) -> tuple[QTensor, Array]:
    """A weight with reordered columns as one without, and the order of its columns.

    `decode(result) == decode(weight)[:, order]` bit for bit, so a product with `x[order]` is the
    same sum. The order is stable: columns of one group keep theirs. E0601 for a format that is not
    reordered, and for an index that does not name every group equally often.
    """
    fmt, planes = weight.fmt, weight.planes
    if not fmt.reordered:
        raise error("E0601", f"the columns of {fmt} are not reordered")
    index = planes["g_idx"][0]
    order = np.argsort(index, kind="stable")
    if not np.array_equal(index[order], np.arange(weight.cols) // fmt.multiple):
        raise error("E0601", f"{fmt}: the index does not name each group {fmt.multiple} times")
    kept = {name: plane for name, plane in planes.items() if name != "g_idx"}
    if fmt.body == "gptq_act":
        codes = _down(planes["qweight"], fmt.bits, weight.cols)[order]
        kept["qweight"] = np.ascontiguousarray(pack(np.ascontiguousarray(codes.T), fmt.bits).T)
    else:
        codes = unpack(planes["codes"], fmt.bits, weight.cols)[:, order]
        kept["codes"] = stream(np.ascontiguousarray(codes), fmt.bits)
    return QTensor(by_name(_sorted_name(weight)), kept, weight.shape), order


def _sorted_name(weight: QTensor) -> str:
    """The format of the same planes without an index."""
    fmt = weight.fmt
    if fmt.body == "ct_sym_act":
        dtype = of_numpy(weight.planes["scales"].dtype)
        return f"int{fmt.bits}_sym_g{fmt.multiple}_{dtype}"
    return fmt.name.removesuffix("_act")


EDGES: Final[Mapping[str, Callable[[QTensor], dict[str, Array]]]] = MappingProxyType(
    {
        "gptq": gptq,
        "awq": awq,
        "ct_asym": ct_asym,
        "hqq": hqq,
        "bnb": bitsandbytes,
        "bnb_dq": bitsandbytes,
        "bitnet": bitnet,
    }
)
