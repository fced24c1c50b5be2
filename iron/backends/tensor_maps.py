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

    With `ended`, an axis, each copy says where that axis ends for it. Hardware knows the ends of a
    map alone, so such a map has one axis more, whose steps are those of `ended`, and begins a whole
    length L of the axis before its array. Row r of a copy that ends at e is the map's row
    L - e + r, moved by e on the new axis: the same address, and outside from r = e on.
    """

    name: str
    dtype: DType
    box: tuple[int, ...]
    extents: tuple[str | int, ...]
    ended: int | None = None


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
        rows, box = op.attr("axes")[0], [1] * tensor.type.rank
        for axis, side in zip(op.attr("axes"), (*op.attr("sides"), panel(part.type)), strict=True):
            box[axis] = side
        ended = rows if op.attr("ended") else None
        name, dtype = names[tensor], part.type.elem
        found[op] = TensorMap(name, dtype, tuple(box), op.attr("extents"), ended)
    return found


def lengths(kernel: Kernel) -> tuple[tuple[str, int], ...]:
    """The tensors and axes, each once, whose lengths the copies of ended maps need."""
    found = (m for m in tensor_maps(kernel).values() if m.ended is not None)
    return tuple(dict.fromkeys((m.name, m.ended) for m in found if m.ended is not None))


def distinct(kernel: Kernel) -> tuple[TensorMap, ...]:
    """The maps of `kernel`, each once, in the order of their first use."""
    return tuple(dict.fromkeys(tensor_maps(kernel).values()))
