"""How the parameters of a launch reach a compiled kernel, as the manifest lists it.

A CPU object takes the fields as a block of 8-byte words. A kernel of a grid (CUDA, HIP, Metal)
takes each as an argument of its own, and one linear group number that it takes apart by extents.
A Metal kernel takes tensors as buffers and the others as a structure in the buffer after them, a
Vulkan module tensors as bindings and the others at byte offsets of one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from iron.backends.cpu import entry
from iron.dtypes import DType


class Field(Protocol):
    """One field.

    A `pointer`; a `scalar` or `dim`; a `stride` along `axis` or launch `extent` along it; the
    `length` of a tensor along `axis`, at least 1; the
    `origin`, where a tensor begins in its binding; the `first` group of a dispatch; a `zero`; or
    `streams`, whether the outputs in `name` are large enough to be written past the caches.
    """

    @property
    def kind(self) -> str:
        """What it carries."""
        ...

    @property
    def name(self) -> str:
        """The parameter it belongs to."""
        ...

    @property
    def axis(self) -> int:
        """The axis of a stride or extent."""
        ...

    @property
    def dtype(self) -> DType | None:
        """The type of a scalar or dim."""
        ...


def record(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """The fields as the manifest lists them."""
    return [_record(field) for field in fields]


def structure(fields: Sequence[Field]) -> tuple[int, list[dict[str, Any]]]:
    """The bytes of a C structure of these fields, and the fields with their offsets in it."""
    placed: list[dict[str, Any]] = []
    size, widest = 0, 1
    for field in fields:
        bytes = field.dtype.bytes if field.dtype is not None else 8
        size = -(-size // bytes) * bytes
        placed.append({**_record(field), "offset": size})
        size, widest = size + bytes, max(widest, bytes)
    return -(-size // widest) * widest, placed


def _record(field: Field) -> dict[str, Any]:
    offset = getattr(field, "offset", None)
    return _plain(field) if offset is None else {**_plain(field), "offset": offset}


def _plain(field: Field) -> dict[str, Any]:
    match field.kind:
        case "streams":
            assert isinstance(field, entry.Field)
            return {"kind": "streams", "names": field.name.split(), "from_bytes": field.least}
        case "pointer" | "origin":
            return {"kind": field.kind, "name": field.name}
        case "first" | "zero":
            return {"kind": field.kind}
        case "stride":
            return {"kind": "stride", "name": field.name, "axis": field.axis}
        case "extent":
            return {"kind": "extent", "axis": field.axis}
        case "length":
            return {"kind": "length", "name": field.name, "axis": field.axis}
        case _:
            assert field.dtype is not None
            return {"kind": field.kind, "name": field.name, "dtype": field.dtype.name}
