"""Writes GGUF version 3: metadata, tensor records and aligned data, in the order given.

`layout` makes the header first, so that data may be written piece by piece; `write_gguf` writes a
small file at once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from iron.errors import error
from iron.quant.atomic import replace
from iron.quant.format import FORMATS, Format
from iron.quant.layout import FileLayout, Piece
from iron.quant.read_gguf import ARRAYS, PLAIN
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY, U64, I64 = 4, 5, 6, 7, 8, 9, 10, 11


def text(value: str) -> bytes:
    """A length and UTF-8."""
    raw = value.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def metadata_entry(key: str, value: Any) -> bytes:
    """One metadata entry: bool, int (the smallest of u32, i32, u64, i64), float (f32), str, list.

    A list holds strings or numbers of one kind; a numpy array keeps its dtype. Raises E0802 for
    anything else.
    """
    kind, raw = _value(key, value)
    return text(key) + struct.pack("<I", kind) + raw


def _value(key: str, value: Any) -> tuple[int, bytes]:
    if isinstance(value, str):
        return STRING, text(value)
    if isinstance(value, bool):
        return BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return _integer(key, value)
    if isinstance(value, float):
        return F32, struct.pack("<f", value)
    if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
        body = b"".join(text(v) for v in value)
        return ARRAY, struct.pack("<IQ", STRING, len(value)) + body
    if isinstance(value, list | np.ndarray):
        return ARRAY, _numbers(key, np.asarray(value))
    raise error("E0802", f"metadata {key}: GGUF holds no {type(value).__name__}")


def _integer(key: str, value: int) -> tuple[int, bytes]:
    kinds = ((U32, "I", 0, 1 << 32), (I32, "i", -(1 << 31), 1 << 31))
    kinds += ((U64, "Q", 0, 1 << 64), (I64, "q", -(1 << 63), 1 << 63))
    for kind, code, low, high in kinds:
        if low <= value < high:
            return kind, struct.pack(f"<{code}", value)
    raise error("E0802", f"metadata {key}: {value} does not fit 64 bits")


def _numbers(key: str, held: Array) -> bytes:
    if held.dtype.kind == "i" and held.dtype.itemsize == 8 and (abs(held) < 1 << 31).all():
        held = held.astype(np.int32)
    if held.dtype.kind == "f" and held.dtype.itemsize == 8:
        held = held.astype(np.float32)
    found = [k for k, code in ARRAYS.items() if np.dtype(code) == held.dtype]
    if not found or held.ndim != 1:
        raise error("E0802", f"metadata {key}: GGUF holds no array of {held.dtype}")
    return struct.pack("<IQ", found[0], held.size) + held.tobytes()


def type_id(fmt: Format) -> int:
    """The GGUF type of a format; E0804 when it has none."""
    if fmt.ids.ggml is None:
        near = f"gguf_{fmt.name}"
        hint = "GGUF holds the formats called gguf_..., and f32, f16, bf16"
        hint = f"did you mean {near}?" if near in FORMATS else hint
        raise error("E0804", f"GGUF has no type for {fmt}", help=hint)
    return fmt.ids.ggml


def layout(
    metadata: Sequence[bytes],
    tensors: Sequence[tuple[str, Shape, int, int]],
    alignment: int = ALIGNMENT,
) -> FileLayout:
    """The file of these metadata entries and tensors (name, shape, type id, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    records: list[bytes] = []
    relative: list[int] = []
    at = 0
    for name, shape, kind, size in tensors:
        axes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        records.append(text(name) + axes + struct.pack("<IQ", kind, at))
        relative.append(at)
        at += -(-size // alignment) * alignment
    header = head + b"".join(metadata) + b"".join(records)
    header += bytes(-len(header) % alignment)
    pieces = [
        Piece(name, "", len(header) + offset, size)
        for (name, _, _, size), offset in zip(tensors, relative, strict=True)
    ]
    return FileLayout(header, tuple(pieces), len(header) + at)


def write_gguf(
    path: str | Path,
    tensors: Mapping[str, QTensor | Array],
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Writes tensors and metadata; the file appears whole or not at all.

    An array keeps its dtype (f32, f16, bf16, or a signed integer). Raises E0802 when the file
    cannot be written and E0804 for a format that GGUF does not have.
    """
    held: dict[str, Any] = {"general.architecture": "unknown", **(metadata or {})}
    entries = [metadata_entry(key, value) for key, value in held.items()]
    made = {name: _tensor(name, tensor) for name, tensor in tensors.items()}
    records = [(n, s, kind, len(raw)) for n, (s, kind, raw) in made.items()]
    plan = layout(entries, records, held.get("general.alignment", ALIGNMENT))
    with replace(Path(path)) as out:
        out.write(plan.header)
        for piece in plan.pieces:
            out.seek(piece.offset)
            out.write(made[piece.tensor][2])
        out.truncate(plan.size)


def _tensor(name: str, tensor: QTensor | Array) -> tuple[Shape, int, bytes]:
    if isinstance(tensor, QTensor):
        kind = type_id(tensor.fmt)
        (plane,) = tensor.planes.values()
        return tensor.shape, kind, np.ascontiguousarray(plane).tobytes()
    known = {np.dtype("f4"): 0, np.dtype("f2"): 1}
    known |= {np.dtype(code): kind for kind, code in PLAIN.items()}
    kind = 30 if tensor.dtype.name == "bfloat16" else known.get(tensor.dtype)
    if kind is None:
        raise error("E0804", f"tensor {name}: GGUF has no type for {tensor.dtype}")
    return tensor.shape, kind, np.ascontiguousarray(tensor).tobytes()
