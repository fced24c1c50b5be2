"""How the parameters of a launch reach a compiled kernel, as the manifest lists it.

A CPU object takes the fields as a block of 8-byte words. A kernel of a grid (CUDA, HIP, Metal)
takes each as an argument of its own, and one linear group number that it takes apart by extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from iron.backends.cpu.entry import STREAM_FROM
from iron.dtypes import DType


class Field(Protocol):
    """One field: a `pointer`, `scalar`, `dim`, `stride` along `axis`, launch `extent` along it, or
    `streams`, whether the outputs in `name` are large enough to be written past the caches."""

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


def _record(field: Field) -> dict[str, Any]:
    match field.kind:
        case "streams":
            return {"kind": "streams", "names": field.name.split(), "from_bytes": STREAM_FROM}
        case "pointer":
            return {"kind": "pointer", "name": field.name}
        case "stride":
            return {"kind": "stride", "name": field.name, "axis": field.axis}
        case "extent":
            return {"kind": "extent", "axis": field.axis}
        case _:
            assert field.dtype is not None
            return {"kind": field.kind, "name": field.name, "dtype": field.dtype.name}
