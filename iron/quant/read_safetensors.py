"""Reads safetensors files and sharded checkpoints: tensors as views, weights as packed tensors.

A checkpoint is a file, a folder with one file or an index, or the index itself; `config.json`
beside it says how the weights were quantised. Values are never cast: F8 tensors are bytes.
Source: the safetensors format (Hugging Face).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import ml_dtypes
import numpy as np

from iron.errors import KernelError, error
from iron.quant.dialect import DIALECTS, MARKS, Dialect, Parts, lacking
from iron.quant.source import Source, open_source
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]

MAX_HEADER: Final = 100_000_000
# dtypes that hold codes where a name says that they are a weight
CODES: Final = ("U32", "I32", "U8", "I8", "F8_E4M3", "F8_E5M2")
# name -> numpy type of the bytes, bits of one element
DTYPES: Final[Mapping[str, tuple[Any, int]]] = MappingProxyType(
    {
        "BOOL": ("?", 8), "U8": ("u1", 8), "I8": ("i1", 8), "U16": ("<u2", 16), "I16": ("<i2", 16),
        "U32": ("<u4", 32), "I32": ("<i4", 32), "U64": ("<u8", 64), "I64": ("<i8", 64),
        "F16": ("<f2", 16), "BF16": (ml_dtypes.bfloat16, 16), "F32": ("<f4", 32),
        "F64": ("<f8", 64), "F8_E4M3": ("u1", 8), "F8_E5M2": ("u1", 8), "F8_E8M0": ("u1", 8),
        "F4": ("u1", 4), "F6_E2M3": ("u1", 6), "F6_E3M2": ("u1", 6),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: `dtype` as the file spells it, absolute `offset`, `size` in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int
    source: Source

    def fault(self, message: str, help: str = "") -> KernelError:
        """E0801 that names the file, the tensor and its first byte."""
        return self.source.fault(self.offset, message, self.name, help)

    def array(self) -> Array:
        """The tensor without copying; small floats as bytes, sub-byte types as flat bytes."""
        kind, bits = DTYPES[self.dtype]
        raw = self.source.bytes(self.offset, self.size, self.name)
        return raw if bits < 8 else raw.view(kind).reshape(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Tensors of one or more files, and the configuration of their quantisation."""

    path: Path
    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]
    config: Mapping[str, Any]
    stems: Mapping[str, tuple[Dialect, Parts]]

    def entry(self, name: str) -> Entry:
        """The record of a tensor; E0801 when there is none of that name."""
        found = self.entries.get(name)
        if found is None:
            raise error("E0801", f"{self.path}: tensor {name}: the checkpoint has no such tensor")
        return found

    def array(self, name: str) -> Array:
        """A tensor as the file holds it, without copying."""
        return self.entry(name).array()

    def weight(self, name: str) -> QTensor:
        """The weight `name` (such as `layers.0.proj.weight`) as a packed tensor.

        Planes are views of the file where its layout allows. Raises E0801 with file, tensor and
        byte offset when parts are missing or do not fit together.
        """
        found = self.stems.get(name)
        if found is not None:
            dialect, parts = found
            return parts.checked(dialect.build)
        stem = name.removesuffix(".weight")
        codes = next((n for n in (name, *(stem + m for m in MARKS)) if n in self.entries), name)
        held = self.entry(codes)
        missing = lacking(codes, held.dtype, self.entries)
        raise held.fault(f"{held.dtype} {list(held.shape)} is no weight without {missing}")

    def others(self) -> list[str]:
        """Tensors that belong to no weight: norms, biases, activation scales."""
        used = {name for _, parts in self.stems.values() for name in parts.names()}
        return [name for name in self.entries if name not in used]

    def orphans(self) -> dict[str, KernelError]:
        """Codes of weights whose other parts are missing, each with the E0801 that says which."""
        used = {name for _, parts in self.stems.values() for name in parts.names()}
        out: dict[str, KernelError] = {}
        for name, entry in self.entries.items():
            codes = name.endswith(MARKS) and entry.dtype in CODES and len(entry.shape) > 1
            if codes and name not in used:
                missing = lacking(name, entry.dtype, self.entries)
                out[name] = entry.fault(f"a packed weight without {missing}")
        return out


def read_safetensors(path: str | Path, config: Mapping[str, Any] | None = None) -> Checkpoint:
    """Opens a checkpoint; `config` replaces the quantisation part of `config.json`.

    Raises E0801 with file and byte offset for a header that does not describe the file.
    """
    path = Path(path)
    files = _files(path)
    entries: dict[str, Entry] = {}
    metadata: dict[str, str] = {}
    for file in files:
        found, extra = _header(open_source(file))
        for name, entry in found.items():
            if name in entries:
                raise entry.fault(f"the tensor is also in {entries[name].source.path}")
            entries[name] = entry
        metadata |= extra
    folder = path if path.is_dir() else path.parent
    held = dict(config) if config is not None else _config(folder) or _own_config(metadata)
    return Checkpoint(path, entries, metadata, held, _stems(entries, held))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        index = path / "model.safetensors.index.json"
        if index.exists():
            return _files(index)
        found = sorted(path.glob("*.safetensors"))
        if not found:
            raise error("E0801", f"{path}: the folder holds no safetensors file")
        return found
    if path.suffix == ".json":
        held = _json(path)
        names = held.get("weight_map") if isinstance(held, dict) else None
        if not isinstance(names, dict):
            raise error("E0801", f"{path}: byte 0: an index has a weight_map")
        return [path.parent / str(name) for name in sorted(set(names.values()))]
    return [path]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise error("E0801", f"{path}: {problem.strerror or problem}") from None
    except (ValueError, RecursionError) as problem:
        raise error("E0801", f"{path}: not JSON ({problem})") from None


def _config(folder: Path) -> dict[str, Any]:
    """The quantisation part of the configuration beside the weights; empty when there is none."""
    for file, keys in (
        ("config.json", ("quantization_config", "compression_config", "quantization")),
        ("hf_quant_config.json", ("quantization",)),
        ("quantize_config.json", ("",)),
        ("quant_config.json", ("",)),
    ):
        if not (folder / file).exists():
            continue
        held = _json(folder / file)
        for key in keys:
            part = held if key == "" else held.get(key) if isinstance(held, dict) else None
            if isinstance(part, dict):
                return {"source": file, **part}
    return {}


def _own_config(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The configuration that `iron quantize` writes into the file itself."""
    try:
        held = json.loads(metadata.get("quantization_config", "{}"))
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}


def _header(source: Source) -> tuple[dict[str, Entry], dict[str, str]]:
    size = int.from_bytes(source.bytes(0, 8).tobytes(), "little")
    if size > MAX_HEADER or size + 8 > source.size:
        raise source.fault(
            0, f"the header claims {size} bytes of a file of {source.size}",
            help="the file is truncated or not a safetensors file",
        )  # fmt: skip
    raw = source.bytes(8, size).tobytes()
    try:
        held = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as problem:
        raise source.fault(8, f"the header is not JSON ({problem})") from None
    if not isinstance(held, dict):
        raise source.fault(8, "the header is not an object")
    extra = held.pop("__metadata__", {})
    entries = {name: _entry(source, name, record, 8 + size) for name, record in held.items()}
    _refuse_gaps(source, entries, 8 + size)
    metadata = {str(k): str(v) for k, v in extra.items()} if isinstance(extra, dict) else {}
    return entries, metadata


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key appears twice")
    return out


def _entry(source: Source, name: str, record: Any, base: int) -> Entry:
    try:
        dtype, shape = str(record["dtype"]), tuple(int(s) for s in record["shape"])
        begin, end = (int(o) for o in record["data_offsets"])
    except (TypeError, KeyError, ValueError):
        raise source.fault(8, f"not a record of a tensor: {record}", name) from None
    if dtype not in DTYPES:
        raise source.fault(8, f"the dtype {dtype} is unknown", name)
    bits = math.prod(shape) * DTYPES[dtype][1]
    if min(shape, default=0) < 0 or bits % 8 or end - begin != bits // 8:
        message = f"{dtype} {list(shape)} takes {bits / 8:g} bytes, the record has {end - begin}"
        raise source.fault(base + begin, message, name)
    source.bytes(base + begin, end - begin, name)
    return Entry(name, dtype, shape, base + begin, end - begin, source)


def _refuse_gaps(source: Source, entries: Mapping[str, Entry], base: int) -> None:
    at = base
    for entry in sorted(entries.values(), key=lambda e: (e.offset, e.size)):
        if entry.offset != at:
            raise entry.fault(f"the data before it end at byte {at}: a gap or an overlap")
        at += entry.size
    if at != source.size:
        raise source.fault(at, f"{source.size - at} bytes after the last tensor")


def _stems(
    entries: Mapping[str, Entry], config: Mapping[str, Any]
) -> dict[str, tuple[Dialect, Parts]]:
    """Logical weight name -> the dialect that reads it and its parts; first match wins."""
    out: dict[str, tuple[Dialect, Parts]] = {}
    for dialect in DIALECTS:
        anchor = dialect.needs[0]
        for name in entries:
            if not name.endswith(anchor):
                continue
            stem = name[: len(name) - len(anchor)]
            parts = Parts(stem, dialect.needs + dialect.may, entries, config)
            logical = stem + dialect.logical
            if logical in out or not all(parts.has(s) for s in dialect.needs):
                continue
            if dialect.matches(parts):
                out[logical] = (dialect, parts)
    return out
