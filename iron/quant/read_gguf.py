"""Reads GGUF files (versions 2 and 3): metadata as Python values, tensors as views of the file.

Layout: magic, version, tensor count, entry count, entries, tensor records, padding, data. Every
claim of the header is checked against the file before a tensor is handed out.
Source: the GGUF specification of the ggml project.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from iron.quant.format import Format, by_ggml
from iron.quant.repack import to_planes
from iron.quant.source import Cursor, Source, open_source
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]

MAGIC: Final = b"GGUF"
MAX_AXES: Final = 4
SCALARS: Final = MappingProxyType(
    {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
)
ARRAYS: Final = MappingProxyType(
    {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 7: "?", 10: "u8", 11: "i8",
     12: "f8"}
)  # fmt: skip
STRING, ARRAY = 8, 9
PLAIN: Final = MappingProxyType({24: "i1", 25: "i2", 26: "i4", 27: "i8", 28: "f8"})
REMOVED: Final = MappingProxyType(
    {4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4",
     37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor record: `shape` in numpy order (K last), absolute `offset` and `size` in bytes."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    fmt: Format | None
    offset: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class GgufFile:
    """An open GGUF file. Strings are `str`, numbers Python numbers, arrays lists or numpy views.

    `spans` are the bytes of each metadata entry in the file, for copying it unchanged.
    """

    source: Source
    version: int
    alignment: int
    metadata: Mapping[str, Any]
    entries: Mapping[str, Entry]
    spans: Mapping[str, tuple[int, int]]

    def entry(self, name: str) -> Entry:
        """The record of a tensor; E0801 when the file has none of that name."""
        found = self.entries.get(name)
        if found is None:
            raise self.source.fault(0, "the file has no such tensor", name)
        return found

    def weight(self, name: str) -> QTensor:
        """A tensor as a packed weight without copying; a tensor of one axis has shape [1, K].

        NVFP4 blocks with a factor beside them (`.scale`) become planes, which costs a copy. Raises
        E0801 when the tensor holds integers or doubles.
        """
        entry = self.entry(name)
        if entry.fmt is None:
            message = f"type {entry.type_id} is not a weight format; read it with `array`"
            raise self.source.fault(entry.offset, message, name)
        shape = entry.shape if len(entry.shape) > 1 else (1, *entry.shape)
        plane = entry.fmt.planes[0]
        raw = self.source.bytes(entry.offset, entry.size, name)
        rows = math.prod(shape[:-1])
        held = raw.view(plane.dtypes[0].np).reshape(plane.shape(rows, shape[-1]))
        weight = QTensor(entry.fmt, {plane.name: held}, shape)
        factor = name.removesuffix(".weight") + ".scale"
        return self._scaled(weight, factor) if factor in self.entries else weight

    def _scaled(self, weight: QTensor, factor: str) -> QTensor:
        if weight.fmt.name != "gguf_nvfp4":
            return weight
        values = self.array(factor).astype(np.float32).reshape(-1, 1)
        if weight.rows % len(values):
            message = f"{len(values)} factors for {weight.rows} rows"
            raise self.source.fault(self.entry(factor).offset, message, factor)
        planes = to_planes(weight)
        outer = np.repeat(values, weight.rows // len(values), axis=0)
        return QTensor(planes.fmt, {**planes.planes, "outer": outer}, weight.shape)

    def array(self, name: str) -> Array:
        """A tensor of plain numbers as an array of its shape, without copying.

        Raises E0801 for a quantised tensor: `weight(name).decode()` is the way to those.
        """
        entry = self.entry(name)
        raw = self.source.bytes(entry.offset, entry.size, name)
        if entry.fmt is None:
            return raw.view(PLAIN[entry.type_id]).reshape(entry.shape)
        if entry.fmt.body != "dense":
            message = f"holds {entry.fmt}, not plain numbers; read it with `weight`"
            raise self.source.fault(entry.offset, message, name)
        return raw.view(entry.fmt.planes[0].dtypes[0].np).reshape(entry.shape)


def read_gguf(path: str | Path) -> GgufFile:
    """Opens a GGUF file by mapping it; E0801 with file, tensor and byte offset for a bad one."""
    source = open_source(path)
    cursor = Cursor(source)
    version = _version(cursor)
    tensors, pairs = cursor.scalar("Q"), cursor.scalar("Q")
    for count, least, what in ((tensors, 24, "tensors"), (pairs, 13, "metadata entries")):
        if count * least > source.size:
            raise source.fault(8, f"a file of {source.size} bytes cannot hold {count} {what}")
    metadata: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    for _ in range(pairs):
        start = cursor.at
        key = cursor.text()
        if key in metadata:
            raise source.fault(start, f"the metadata key {key} appears twice")
        metadata[key] = _value(cursor, cursor.scalar("I"))
        spans[key] = (start, cursor.at)
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        start, _ = spans["general.alignment"]
        raise source.fault(start, f"general.alignment is {alignment}, not a power of two")
    records = [_record(cursor) for _ in range(tensors)]
    base = -(-cursor.at // alignment) * alignment
    entries = _place(source, records, base, alignment)
    return GgufFile(
        source,
        version,
        alignment,
        MappingProxyType(metadata),
        MappingProxyType(entries),
        MappingProxyType(spans),
    )


def _version(cursor: Cursor) -> int:
    source = cursor.source
    magic = source.bytes(0, min(4, source.size)).tobytes()
    if magic != MAGIC:
        raise source.fault(0, f"the magic is {magic!r}, a GGUF file begins with {MAGIC!r}")
    cursor.at = 4
    version = cursor.scalar("I")
    if version and version & 0xFFFF == 0:
        raise source.fault(
            4, "a big-endian file", help="convert it with gguf_convert_endian of the gguf package"
        )
    if version not in (2, 3):
        raise source.fault(4, f"GGUF version {version}; versions 2 and 3 are read")
    return version


def _value(cursor: Cursor, kind: int) -> Any:
    if kind == STRING:
        return cursor.text()
    if kind in SCALARS:
        return cursor.scalar(SCALARS[kind])
    start = cursor.at
    if kind != ARRAY:
        raise cursor.source.fault(start - 4, f"metadata of the unknown type {kind}")
    inner, count = cursor.scalar("I"), cursor.scalar("Q")
    if inner in ARRAYS:
        return cursor.array(ARRAYS[inner], count)
    if inner != STRING:
        raise cursor.source.fault(start, f"an array of arrays or of the unknown type {inner}")
    if count * 8 > cursor.source.size:
        raise cursor.source.fault(start, f"an array of {count} elements does not fit the file")
    return [cursor.text() for _ in range(count)]


def _record(cursor: Cursor) -> tuple[int, str, tuple[int, ...], int, int]:
    start = cursor.at
    name = cursor.text()
    axes = cursor.scalar("I")
    if not 1 <= axes <= MAX_AXES:
        raise cursor.source.fault(start, f"{axes} axes, 1 to {MAX_AXES} are legal", name)
    shape = tuple(cursor.scalar("Q") for _ in range(axes))[::-1]
    return start, name, shape, cursor.scalar("I"), cursor.scalar("Q")


def _place(
    source: Source, records: list[tuple[int, str, tuple[int, ...], int, int]], base: int, align: int
) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for start, name, shape, type_id, relative in records:
        if name in entries:
            raise source.fault(start, "the name appears twice", name)
        if relative % align:
            raise source.fault(start, f"offset {relative} is not a multiple of {align}", name)
        fmt = _format(source, start, name, type_id)
        size = _size(source, start, name, shape, type_id, fmt)
        source.bytes(base + relative, size, name)
        entries[name] = Entry(name, shape, type_id, fmt, base + relative, size)
    _refuse_overlap(source, entries)
    return entries


def _format(source: Source, start: int, name: str, type_id: int) -> Format | None:
    fmt = by_ggml(type_id)
    if fmt is not None or type_id in PLAIN:
        return fmt
    if type_id in REMOVED:
        message = f"type {type_id} ({REMOVED[type_id]}) was removed from the GGUF format"
        raise source.fault(start, message, name, "requantise the model with current software")
    if type_id >= 64:
        raise source.fault(start, f"type {type_id} belongs to a private fork of ggml", name)
    raise source.fault(start, f"type {type_id} is unknown", name)


def _size(
    source: Source,
    start: int,
    name: str,
    shape: tuple[int, ...],
    type_id: int,
    fmt: Format | None,
) -> int:
    if math.prod(shape) >= 1 << 62:
        raise source.fault(start, f"shape {shape} is too large", name)
    if fmt is None:
        return math.prod(shape) * np.dtype(PLAIN[type_id]).itemsize
    if shape[-1] % fmt.multiple:
        message = f"K = {shape[-1]} is not a multiple of the {fmt} block of {fmt.multiple}"
        raise source.fault(start, message, name)
    return fmt.planes[0].bits(math.prod(shape[:-1]), shape[-1]) // 8


def _refuse_overlap(source: Source, entries: dict[str, Entry]) -> None:
    end, before = 0, ""
    for entry in sorted(entries.values(), key=lambda e: e.offset):
        if entry.size and entry.offset < end:
            raise source.fault(entry.offset, f"the data overlap those of {before}", entry.name)
        if entry.size:
            end, before = entry.offset + entry.size, entry.name
