"""How the parameters of a launch reach a compiled kernel, as one list of fields a target.

CPU objects take the fields as a block of 8-byte words. Grid kernels (CUDA, HIP, Metal) take each
as an argument of its own, and a linear group number that they take apart by the extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iron.backends.cpu.entry import STREAM_FROM, Field, layout
from iron.ir.core import Kernel
from iron.ir.types import Tensor, element

__all__ = ["Field", "block", "grid", "record"]


def block(kernel: Kernel) -> tuple[Field, ...]:
    """The argument block of a CPU object."""
    return layout(kernel)


def grid(kernel: Kernel) -> tuple[Field, ...]:
    """The arguments of C-style text: pointers, scalars, dims, then strides, then extents."""
    fields: list[Field] = []
    strides: list[Field] = []
    for p in kernel.params:
        if isinstance(p.type, Tensor):
            fields.append(Field("pointer", p.name))
            axes = p.type.rank - 1 if p.type.packed else p.type.rank
            strides += [Field("stride", p.name, axis) for axis in range(max(0, axes))]
        else:
            fields.append(Field(p.role, p.name, 0, element(p.type)))
    extents = [Field("extent", "", axis) for axis in range(kernel.rank - 1)]
    return (*fields, *strides, *extents)


def record(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """The fields as the manifest lists them."""
    return [_record(field) for field in fields]


def _record(field: Field) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": field.kind}
    if field.kind == "streams":
        return {**made, "names": field.name.split(), "from_bytes": STREAM_FROM}
    if field.name:
        made["name"] = field.name
    if field.kind in ("stride", "extent"):
        made["axis"] = field.axis
    if field.dtype is not None:
        made["dtype"] = field.dtype.name
    return made
