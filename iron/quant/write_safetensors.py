"""Writes packed weights as safetensors, each format in the dialect of the software that has it.

MLX's names for affine and MX formats, ModelOpt's for NVFP4, compressed-tensors' for packed
integers, and the names of FP8 checkpoints; what Iron writes, `read_safetensors` reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from iron.errors import error
from iron.quant.format import Algebra, Elem, Format, Outer, Rule, Scale
from iron.quant.layout import FileLayout, Piece
from iron.quant.read_safetensors import DTYPES
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

BYTE_FLOATS = {Elem.E4M3: "F8_E4M3", Elem.E5M2: "F8_E5M2"}
PLAIN = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
# plane -> (suffix, dtype in the file or "" for the plane's own)
Names = dict[str, tuple[str, str]]


def names(fmt: Format) -> Names:
    """Where the planes of a format stand in a file; E0804 when no dialect holds it."""
    if fmt.algebra is Algebra.DENSE:
        return {"values": ("", "")}
    if fmt.ids.mlx and fmt.name != "nvfp4":
        held: Names = {"codes": (".weight", "U32"), "scales": (".scales", "")}
        return held | ({"biases": (".biases", "")} if fmt.algebra is Algebra.AFFINE else {})
    if fmt.outer is Outer.MULTIPLY:
        outer = (".weight_scale_2", "")
        return {"codes": (".weight", "U8"), "scales": (".weight_scale", "F8_E4M3"),
                "outer": outer}  # fmt: skip
    if fmt.outer is Outer.DIVIDE:
        outer = (".weight_global_scale", "")
        return {"codes": (".weight_packed", "U8"), "scales": (".weight_scale", "F8_E4M3"),
                "outer": outer}  # fmt: skip
    if fmt.body == "ct_asym":
        return {"codes": (".weight_packed", "I32"), "scales": (".weight_scale", ""),
                "zeros": (".weight_zero_point", "I32")}  # fmt: skip
    found = _scaled_names(fmt) if fmt.body == "stream" and fmt.rule is not Rule.LLOYD else {}
    if not found:
        raise error(
            "E0804", f"no dialect of safetensors holds {fmt}", help="gguf_... formats go to .gguf"
        )
    return found


def _scaled_names(fmt: Format) -> Names:
    if fmt.algebra is not Algebra.SCALED or fmt.scale not in (Scale.FLOAT, Scale.E8M0):
        return {}
    if fmt.elem in BYTE_FLOATS:
        tiled = fmt.scale_rows > 1
        suffix = ".weight_scale_inv" if tiled and fmt.scale is Scale.FLOAT else ".weight_scale"
        kind = "F8_E8M0" if fmt.scale is Scale.E8M0 else ""
        if fmt.group and not tiled and fmt.scale is Scale.FLOAT:
            return {}
        return {"codes": (".weight", BYTE_FLOATS[fmt.elem]), "scales": (suffix, kind)}
    if fmt.elem is Elem.OFFSET and fmt.scale is Scale.FLOAT:
        return {"codes": (".weight_packed", "I32"), "scales": (".weight_scale", "")}
    if fmt.elem is Elem.INT and fmt.bits == 8:
        return {"codes": (".weight", "I8"), "scales": (".weight_scale", "")}
    if fmt.elem is Elem.E2M3:
        return {"codes": (".weight_packed", "U8"), "scales": (".weight_scale", "U8")}
    return {}


def stem_of(name: str, fmt: Format) -> str:
    """The name before the suffixes; E0804 when the tensor's name has none to take."""
    if fmt.algebra is Algebra.DENSE:
        return name
    if not name.endswith(".weight"):
        raise error("E0804", f"tensor {name}: a packed weight in safetensors is called ....weight")
    return name.removesuffix(".weight")


def settings(fmt: Format) -> dict[str, Any]:
    """What a reader cannot see in the shapes: MLX's group and width, compressed-tensors' width."""
    if fmt.ids.mlx and fmt.name != "nvfp4":
        mode = fmt.ids.mlx.split(",")[0]
        return {"group_size": fmt.group, "bits": fmt.bits, "mode": mode}
    return {}


def planes(weight: QTensor) -> dict[str, tuple[str, Shape, Array]]:
    """Suffix -> (dtype, shape, array) of a packed weight as the file holds it."""
    fmt, lead = weight.fmt, weight.shape[:-1]
    out: dict[str, tuple[str, Shape, Array]] = {}
    for plane, (suffix, kind) in names(fmt).items():
        held = weight.planes[plane]
        if plane == "outer":
            held = held[:1, 0] if fmt.outer is Outer.DIVIDE else held[0, 0].reshape(())
        elif plane == "codes":
            held = _code_rows(held, -(-weight.cols * fmt.bits // 8), kind)
        a_row = held.ndim == 2 and len(held) == weight.rows
        shape = (*lead, held.shape[-1]) if a_row else held.shape
        dtype = kind or _own(held)
        out[suffix] = (dtype, shape, held)
    if ".weight_packed" in out and out[".weight_packed"][0] == "I32":
        shape = np.array([weight.rows, weight.cols], np.int64)
        out[".weight_shape"] = ("I64", (2,), shape)
    return out


def _code_rows(held: Array, size: int, kind: str) -> Array:
    """A plane of codes as rows of `size` bytes, or as whole words where the file has words."""
    raw = np.ascontiguousarray(held).view(np.uint8)[:, :size]
    if kind not in ("U32", "I32"):
        return raw
    padded = np.pad(raw, ((0, 0), (0, -size % 4))) if size % 4 else raw
    return np.ascontiguousarray(padded).view(DTYPES[kind][0])


def _own(held: Array) -> str:
    if held.dtype.name == "bfloat16":
        return "BF16"
    return next(
        name for name, (kind, bits) in DTYPES.items() if bits >= 8 and np.dtype(kind) == held.dtype
    )


def layout(
    tensors: Sequence[tuple[str, str, str, str, Shape]], metadata: Mapping[str, Any]
) -> FileLayout:
    """The file of these arrays (weight, plane, name in the file, dtype, shape)."""
    header: dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = {
            key: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            for key, value in metadata.items()
        }
    at = 0
    spans: list[tuple[str, str, int, int]] = []
    for weight, plane, name, dtype, shape in tensors:
        size = math.prod(shape) * DTYPES[dtype][1] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        spans.append((weight, plane, at, size))
        at += size
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    base = 8 + len(raw)
    pieces = tuple(Piece(w, p, base + offset, size) for w, p, offset, size in spans)
    return FileLayout(len(raw).to_bytes(8, "little") + raw, pieces, base + at)
