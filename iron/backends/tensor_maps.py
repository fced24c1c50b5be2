"""The tensor maps of a kernel: how its bulk copies see a parameter."""

from __future__ import annotations

from dataclasses import dataclass

from iron.dtypes import DType
from iron.ir.core import Kernel, Op
from iron.ir.ops.ring import panel
from iron.ir.types import Tensor

COPIES = {"ring_copy": (0, 3), "bulk_store": (0, 2)}
"""The operands of a copy that are the part and the tensor."""
ALIGNMENT = 16
"""Bytes that the address of each row of a mapped tensor is a multiple of."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """`box` elements of the parameter `name` are copied at once, along its axes in order.

    `extents` gives the size of each axis: the name of a dim, a number, or "" for the array's own.
    """

    name: str
    dtype: DType
    box: tuple[int, ...]
    extents: tuple[str | int, ...]


def tensor_maps(kernel: Kernel) -> dict[Op, TensorMap]:
    """The map that each bulk copy of `kernel` needs, in order; many copies share one."""
    names = dict(zip(kernel.body.params, (p.name for p in kernel.params), strict=True))
    found: dict[Op, TensorMap] = {}
    for op in kernel.body.walk():
        if op.name not in COPIES:
            continue
        part, tensor = (op.args[i] for i in COPIES[op.name])
        assert isinstance(part.type, Tensor)
        assert isinstance(tensor.type, Tensor)
        rows, columns = op.attr("axes")
        box = [1] * tensor.type.rank
        box[rows], box[columns] = part.type.shape[1], panel(part.type)
        found[op] = TensorMap(names[tensor], part.type.elem, tuple(box), op.attr("extents"))
    return found


def distinct(kernel: Kernel) -> tuple[TensorMap, ...]:
    """The maps of `kernel`, each once, in the order of their first use."""
    return tuple(dict.fromkeys(tensor_maps(kernel).values()))
