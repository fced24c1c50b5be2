"""compressed-tensors' packed formats: integers of 1 to 8 bits, NVFP4, MXFP4 and MXFP6."""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.dtypes import of_numpy
from iron.quant.dialect.parts import Dialect, Parts
from iron.quant.dialect.scaled import one_a_row
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]


def group_config(parts: Parts) -> dict[str, Any]:
    """The `weights` settings of the first config group."""
    groups = parts.setting("config_groups", {})
    for group in groups.values() if isinstance(groups, dict) else ():
        if isinstance(group, dict) and isinstance(group.get("weights"), dict):
            return group["weights"]
    return {}


def logical_shape(parts: Parts) -> tuple[int, int] | None:
    """The shape stored beside the codes, if any."""
    if not parts.has(".weight_shape"):
        return None
    n, k = (int(v) for v in parts.array(".weight_shape").reshape(-1))
    return n, k


def is_integer(parts: Parts) -> bool:
    """Words of codes."""
    return parts.dtype(".weight_packed") in ("I32", "U32")


def integer(parts: Parts) -> QTensor:
    """Codes plus half their range in dense words; zero points packed along N, if any.

    The width follows from the config, else from the stored shape.
    """
    packed = parts.rows(".weight_packed").view("<u4")
    scales = parts.rows(".weight_scale")
    shape = logical_shape(parts)
    bits = int(group_config(parts).get("num_bits", 0))
    if shape is None:
        bits = bits or 4
        shape = (len(packed), packed.shape[1] * 32 // bits)
    bits = bits or packed.shape[1] * 32 // shape[1]
    n, k = shape
    if bits == 8:
        packed = np.ascontiguousarray(packed).view(np.uint8)[:, :k]
    if scales.size == n or scales.size == 1:
        scales = np.ascontiguousarray(np.broadcast_to(scales.reshape(-1, 1), (n, 1)))
    groups = scales.shape[1]
    size = "row" if groups == 1 else f"g{k // groups}"
    refuse_reordered(parts, k, groups)
    if parts.has(".weight_zero_point"):
        zeros = parts.rows(".weight_zero_point").view("<u4")
        planes = {"codes": packed, "scales": scales, "zeros": zeros}
        return QTensor(parts.format(f"ct_pack_int{bits}_asym_{size}"), planes, (n, k))
    name = f"int{bits}_sym_{size}_{of_numpy(scales.dtype)}"
    return QTensor(parts.format(name), {"codes": packed, "scales": scales}, (n, k))


def refuse_reordered(parts: Parts, k: int, groups: int) -> None:
    """E0801 for a group index that is not the plain order of columns."""
    if not parts.has(".weight_g_idx"):
        return
    index = parts.array(".weight_g_idx").reshape(-1)
    plain = np.arange(k) // max(1, k // groups)
    if index.size == k and (index >= 0).all() and not np.array_equal(index, plain):
        raise parts.fault(".weight_g_idx", "reordered columns (actorder) are not read here")


def is_float(parts: Parts) -> bool:
    """Bytes of codes."""
    return parts.dtype(".weight_packed") == "U8"


def float_codes(parts: Parts) -> QTensor:
    """NVFP4 (a global scale divides), MXFP4 or MXFP6, told by the global scale and the shapes."""
    codes, scales = parts.stream(".weight_packed", 4), parts.rows(".weight_scale")
    held = parts.shape(".weight_packed")
    planes = {"codes": codes, "scales": scales}
    if parts.has(".weight_global_scale"):
        outer = one_a_row(parts.array(".weight_global_scale"), len(codes))
        shape = (*held[:-1], held[-1] * 2)
        return QTensor(parts.format("nvfp4_ct"), planes | {"outer": outer}, shape)
    k = scales.shape[1] * 32
    bits = held[-1] * 8 // k
    name = {4: "mxfp4", 6: "mxfp6_e2m3"}.get(bits)
    if name is None:
        raise parts.fault(".weight_packed", f"{bits} bits a code with groups of 32")
    return QTensor(parts.format(name), planes, (*held[:-1], k))


PACKED = (".weight_packed", ".weight_scale")
DIALECTS = (
    Dialect(
        "compressed-tensors integers",
        PACKED,
        (".weight_zero_point", ".weight_shape", ".weight_g_idx"),
        is_integer,
        integer,
    ),
    Dialect(
        "compressed-tensors floats",
        PACKED,
        (".weight_global_scale", ".input_global_scale"),
        is_float,
        float_codes,
    ),
)
