"""Weights with scales beside them: MLX, FP8 by row, tensor and tile, ModelOpt, MX and int8."""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.dtypes import of_numpy
from iron.quant.dialect.parts import Dialect, Parts
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]
FP8 = {"F8_E4M3": "e4m3", "F8_E5M2": "e5m2"}


def one_a_row(value: Array, rows: int) -> Array:
    """A factor of a tensor, or one of each expert, as an f32 plane with one cell a row."""
    flat = np.asarray(value, np.float32).reshape(-1, 1)
    return np.ascontiguousarray(np.repeat(flat, rows // len(flat), axis=0))


# --- MLX ------------------------------------------------------------------------------------------


def is_mlx(parts: Parts) -> bool:
    """u32 codes."""
    return parts.dtype(".weight") == "U32"


def mlx(parts: Parts) -> QTensor:
    """Affine, mxfp4, mxfp8 or nvfp4; bits and group follow from the shapes and the config."""
    codes, scales = parts.rows(".weight"), parts.rows(".scales")
    settings = mlx_settings(parts)
    group = int(settings.get("group_size", 0)) or guess_group(parts, codes, scales)
    k = scales.shape[1] * group
    bits = codes.shape[1] * 32 // k
    shape = (*parts.shape(".weight")[:-1], k)
    codes = parts.stream(".weight", bits)
    if parts.has(".biases"):
        planes = {"codes": codes, "scales": scales, "biases": parts.rows(".biases")}
        return QTensor(parts.format(f"mlx_int{bits}_g{group}"), planes, shape)
    mode = str(settings.get("mode", {(4, 32): "mxfp4", (8, 32): "mxfp8"}.get((bits, group), "")))
    planes = {"codes": codes, "scales": scales}
    if mode in ("mxfp4", "mxfp8"):
        return QTensor(parts.format(f"mlx_{mode}"), planes, shape)
    if mode == "nvfp4" or (bits, group) == (4, 16):
        whole = np.ones(1, np.float32)
        if parts.has(".global_scale"):
            whole = parts.array(".global_scale").astype(np.float32) / np.float32(2688)
        planes["outer"] = one_a_row(whole, len(codes))
        return QTensor(parts.format("nvfp4"), planes, shape)
    raise parts.fault(".weight", f"mode {mode!r} with {bits} bits and groups of {group}")


def mlx_settings(parts: Parts) -> dict[str, Any]:
    """The config's settings, with those of this layer on top."""
    own = parts.config.get(parts.stem)
    return {**parts.config, **(own if isinstance(own, dict) else {})}


def guess_group(parts: Parts, codes: Array, scales: Array) -> int:
    """The group size without a config: the one that gives a legal width; affine 64 first."""
    sizes = (64, 32, 128) if parts.has(".biases") else (32, 16)
    for group in sizes:
        bits = codes.shape[1] * 32 / (scales.shape[1] * group)
        legal = (1, 2, 3, 4, 5, 6, 8) if parts.has(".biases") else {32: (4, 8), 16: (4,)}[group]
        if bits in legal:
            return group
    raise parts.fault(".weight", "no group size explains the shapes of weight and scales")


# --- FP8 and int8 ---------------------------------------------------------------------------------


def scale_suffix(parts: Parts) -> str:
    """The suffix under which the scale stands; empty when it is missing."""
    found = [s for s in (".weight_scale_inv", ".weight_scale", ".scale") if parts.has(s)]
    return found[0] if found else ""


def is_fp8(parts: Parts) -> bool:
    """8-bit float codes."""
    return parts.dtype(".weight") in FP8


def fp8(parts: Parts) -> QTensor:
    """One scale a tensor, a row, a group of 32 (E8M0) or a tile, told by the scale's shape."""
    suffix = scale_suffix(parts)
    if not suffix:
        raise parts.fault(
            ".weight", "the scale tensor .weight_scale or .weight_scale_inv is missing"
        )
    refuse_zero_point(parts)
    shape = parts.shape(".weight")
    n, k = int(np.prod(shape[:-1])), shape[-1]
    elem, power = FP8[parts.dtype(".weight")], parts.dtype(suffix) == "F8_E8M0"
    power = power or parts.dtype(suffix) == "U8"
    scales, codes = parts.rows(suffix), parts.stream(".weight", 8)
    if power and scales.shape == (n, k // 32):
        return QTensor(parts.format(f"mxfp8_{elem}"), {"codes": codes, "scales": scales}, shape)
    a_row = parts.shape(suffix) in ((n,), (*shape[:-1], 1))
    if scales.size == 1 or a_row:
        plane = np.asarray(scales).reshape(-1, 1)
        name = f"fp8_{elem}_{'tensor' if scales.size == 1 else 'row'}"
        return QTensor(parts.format(name), {"codes": codes, "scales": plane}, shape)
    if len(shape) > 2 and scales.size == np.prod(shape[:-2]):
        plane = one_a_row(scales, n)
        return QTensor(parts.format(f"fp8_{elem}_row"), {"codes": codes, "scales": plane}, shape)
    rows, cols = tile(parts, suffix, shape)
    size = str(rows) if rows == cols else f"{rows}x{cols}"
    fmt = parts.format(f"fp8_{elem}_b{size}_{'e8m0' if power else 'f32'}")
    return QTensor(fmt, {"codes": codes, "scales": scales}, shape)


def tile(parts: Parts, suffix: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns that share a scale: from the config, else 128, else from the shapes."""
    held = parts.setting("weight_block_size")
    n, k = shape[-2], shape[-1]
    have = parts.shape(suffix)[-2:]
    for rows, cols in [tuple(held)] if held else [(128, 128), (1, 128), (1, 32)]:
        if have == (-(-n // rows), -(-k // cols)):
            return int(rows), int(cols)
    if n % have[0] == 0 and k % have[1] == 0 and not held:
        return n // have[0], k // have[1]
    raise parts.fault(
        suffix, f"a scale of shape {list(have)} does not tile a weight of {list(shape)}"
    )


def refuse_zero_point(parts: Parts) -> None:
    """E0801 for a zero point of small floats that is not zero; older files store zeros."""
    if parts.has(".weight_zero_point"):
        raw = np.ascontiguousarray(parts.array(".weight_zero_point")).view(np.uint8)
        if (raw & 0x7F).any():
            raise parts.fault(".weight_zero_point", "a zero point of FP8 weights that is not zero")


def is_int8(parts: Parts) -> bool:
    """Signed bytes with a scale, and not one of the dialects that pack into bytes."""
    return parts.dtype(".weight") == "I8" and parts.dtype(".weight_scale") != ""


def int8(parts: Parts) -> QTensor:
    """Two's complement with one scale a tensor, a row or a group, and signed zero points, if any.

    Zero points other than 0 move codes and zero points alike by 128, which costs a copy.
    """
    shape = parts.shape(".weight")
    n, k = int(np.prod(shape[:-1])), shape[-1]
    scales, codes = cells(parts.rows(".weight_scale"), n), parts.stream(".weight", 8)
    size = "row" if scales.shape[1] == 1 else f"g{k // scales.shape[1]}"
    planes = {"codes": codes, "scales": scales}
    if parts.has(".weight_zero_point") and parts.array(".weight_zero_point").any():
        zeros = cells(parts.rows(".weight_zero_point"), n).astype(np.int32) + 128
        planes |= {"codes": codes ^ np.uint8(128), "zeros": zeros.astype(np.uint16)}
        return QTensor(parts.format(f"int8_zp_{size}"), planes, shape)
    return QTensor(parts.format(f"int8_{size}_{of_numpy(scales.dtype)}"), planes, shape)


def cells(held: Array, rows: int) -> Array:
    """A factor of a tensor, of each row or of each group as a plane with a row for each row."""
    if held.size == 1:
        return np.ascontiguousarray(np.repeat(held.reshape(1, 1), rows, axis=0))
    return held.reshape(rows, 1) if held.size == rows else held


# --- FP4 ------------------------------------------------------------------------------------------


def is_modelopt(parts: Parts) -> bool:
    """Bytes with two E2M1 codes, E4M3 scales and a factor."""
    return parts.dtype(".weight") == "U8" and parts.dtype(".weight_scale") == "F8_E4M3"


def modelopt(parts: Parts) -> QTensor:
    """NVFP4 of ModelOpt: the factor multiplies."""
    held = parts.shape(".weight")
    shape = (*held[:-1], held[-1] * 2)
    codes = parts.stream(".weight", 4)
    outer = one_a_row(parts.array(".weight_scale_2"), len(codes))
    planes = {"codes": codes, "scales": parts.rows(".weight_scale"), "outer": outer}
    return QTensor(parts.format("nvfp4"), planes, shape)


def is_packed_mxfp4(parts: Parts) -> bool:
    """Bytes with two E2M1 codes and E8M0 scales, DeepSeek's names."""
    return parts.dtype(".weight") in ("I8", "U8") and parts.dtype(".scale") == "F8_E8M0"


def packed_mxfp4(parts: Parts) -> QTensor:
    """`.weight` I8 [N, K / 2] and `.scale` [N, K / 32]."""
    held = parts.shape(".weight")
    planes = {"codes": parts.stream(".weight", 4), "scales": parts.rows(".scale")}
    return QTensor(parts.format("mxfp4"), planes, (*held[:-1], held[-1] * 2))


def is_blocks(parts: Parts) -> bool:
    """gpt-oss: bytes in blocks of 16."""
    shape = parts.shape("_blocks")
    return parts.dtype("_blocks") == "U8" and len(shape) >= 3 and shape[-1] == 16


def blocks(parts: Parts) -> QTensor:
    """`_blocks` [.., N, K / 32, 16] and `_scales` [.., N, K / 32]."""
    held = parts.shape("_blocks")
    codes = np.ascontiguousarray(parts.array("_blocks")).reshape(-1, held[-2] * 16).view("<u4")
    shape = (*held[:-2], held[-2] * 32)
    planes = {"codes": codes, "scales": parts.rows("_scales")}
    return QTensor(parts.format("mxfp4"), planes, shape)


DIALECTS = (
    Dialect("MLX", (".weight", ".scales"), (".biases", ".global_scale"), is_mlx, mlx),
    Dialect(
        "ModelOpt NVFP4",
        (".weight", ".weight_scale", ".weight_scale_2"),
        (".input_scale",),
        is_modelopt,
        modelopt,
    ),
    Dialect("MXFP4 in bytes", (".weight", ".scale"), (), is_packed_mxfp4, packed_mxfp4),
    Dialect("MXFP4 in blocks", ("_blocks", "_scales"), (), is_blocks, blocks, ""),
    Dialect(
        "FP8",
        (".weight",),
        (".weight_scale_inv", ".weight_scale", ".scale", ".input_scale", ".weight_zero_point"),
        is_fp8,
        fp8,
    ),
    Dialect(
        "int8",
        (".weight", ".weight_scale"),
        (".weight_zero_point", ".input_scale"),
        is_int8,
        int8,
    ),
)
