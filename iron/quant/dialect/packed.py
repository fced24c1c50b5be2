"""compressed-tensors' packed formats: integers of 1 to 8 bits, NVFP4, MXFP4 and MXFP6."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iron.dtypes import of_numpy
from iron.quant.dialect.integer import reordered, size_of
from iron.quant.dialect.parts import Dialect, Parts
from iron.quant.dialect.scaled import one_a_row
from iron.quant.pack import pack, stream, unpack_whole
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]


def widths(parts: Parts) -> list[int]:
    """The widths that the groups of the config name, in its order."""
    groups = parts.setting("config_groups", {})
    found: list[int] = []
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        bits = weights.get("num_bits") if isinstance(weights, dict) else None
        found += [bits] if isinstance(bits, int) and 1 <= bits <= 8 else []
    return found


def logical_shape(parts: Parts) -> tuple[int, ...]:
    """The shape stored beside the codes; empty when there is none."""
    if not parts.has(".weight_shape"):
        return ()
    return tuple(int(v) for v in parts.array(".weight_shape").reshape(-1))


def is_integer(parts: Parts) -> bool:
    """Words of codes."""
    return parts.dtype(".weight_packed") in ("I32", "U32")


def integer(parts: Parts) -> QTensor:
    """Codes plus half their range in words; zero points packed along N and an index, if any.

    The width is the one of the config's that explains the shapes, else the only one that does.
    """
    packed = parts.rows(".weight_packed").view("<u4")
    scales = parts.rows(".weight_scale")
    shape = logical_shape(parts)
    if shape:
        bits, dense = width(parts, packed.shape[1], shape[-1])
    else:
        bits, dense = (widths(parts) or [4])[0], True
        shape = (*parts.shape(".weight_packed")[:-1], packed.shape[1] * 32 // bits)
    n, k = math.prod(shape[:-1]), shape[-1]
    if scales.size == n or scales.size == 1:
        scales = np.ascontiguousarray(np.broadcast_to(scales.reshape(-1, 1), (n, 1)))
    groups = scales.shape[1]
    planes = {"codes": code_plane(packed, bits, k, dense), "scales": scales}
    if parts.has(".weight_zero_point"):
        planes["zeros"] = zero_plane(parts, shape, bits, dense)
    act = groups > 1 and parts.has(".weight_g_idx") and is_reordered(parts, k, groups)
    if act:
        planes["g_idx"] = parts.array(".weight_g_idx").astype(np.int32).reshape(1, -1)
    kind = "asym" if "zeros" in planes else "sym"
    name = f"ct_pack_int{bits}_{kind}_{size_of(groups, k)}{'_act' * act}"
    if kind == "sym" and not act:
        name = f"int{bits}_sym_{size_of(groups, k)}_{of_numpy(scales.dtype)}"
    return QTensor(parts.format(name), planes, shape)


def width(parts: Parts, words: int, k: int) -> tuple[int, bool]:
    """Bits of a code, and whether codes may straddle words; E0801 when no width fits."""
    dense = [b for b in range(1, 9) if -(-k * b // 32) == words]
    whole = [b for b in (3, 5, 6, 7) if -(-k // (32 // b)) == words]
    wanted = widths(parts)
    for bits in wanted:
        if bits in dense or bits in whole:
            return bits, bits in dense
    if len(dense) == 1 and not wanted:
        return dense[0], True
    said = " or ".join(map(str, wanted)) or "1 to 8"
    raise parts.fault(".weight_packed", f"{words} words a row for K = {k} are not {said} bits")


def code_plane(words: Array, bits: int, k: int, dense: bool) -> Array:
    """The codes as a dense stream: a view of the file unless its words hold whole codes only."""
    if not dense:
        return stream(unpack_whole(words, bits, k), bits)
    return np.ascontiguousarray(words).view(np.uint8)[:, :k] if bits == 8 else words


def zero_plane(parts: Parts, shape: tuple[int, ...], bits: int, dense: bool) -> Array:
    """Zero points as a dense stream along N; experts of a stack must fill whole words."""
    words = parts.rows(".weight_zero_point").view("<u4")
    if len(shape) > 2 and shape[-2] * bits % 32:
        message = f"the zero points of {shape[-2]} rows an expert do not fill whole words"
        raise parts.fault(".weight_zero_point", message)
    if dense:
        return words
    codes = unpack_whole(np.ascontiguousarray(words.T), bits, math.prod(shape[:-1]))
    return np.ascontiguousarray(pack(codes, bits).T)


def is_reordered(parts: Parts, k: int, groups: int) -> bool:
    """Whether columns name their groups in another order; E0801 for an index out of range.

    Columns that were never reordered may have the index -1.
    """
    index = parts.array(".weight_g_idx").reshape(-1)
    if index.size == k and (index == -1).all():
        return False
    return reordered(parts, ".weight_g_idx", k, groups)


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
