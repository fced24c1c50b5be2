"""Inputs of any strides: whether neighbours lie side by side is found out at each access.

The step of an axis that the lanes move along is known when the kernel runs. It is 1 for nearly
every array, and then the access is as wide as for arrays that must be contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iron.backends.cpu.address import Address, address, axis_steps
from iron.backends.cpu.state import Emitter, Names, Runs, components
from iron.ir.core import Op, Value


def open_axis(e: Emitter, buffer: Value, indices: Sequence[Value]) -> int | None:
    """The only axis that lanes move along, evenly, if its step is known at run time only."""
    found = [axis for axis, index in enumerate(indices) if e.lane_stride(index) != 0]
    if e.lanes == 1 or len(found) != 1 or e.lane_stride(indices[found[0]]) is None:
        return None
    return None if axis_steps(e, buffer)[found[0]].isdigit() else found[0]


def either(
    e: Emitter, op: Op, axis: int, load: Callable[[Address], Sequence[Names | Runs]]
) -> list[Names | Runs]:
    """The load with a step of 1 along `axis`, and with any other."""
    buffer, *indices = op.args
    (result,) = op.results
    cells = [e.w.cell(e.type(result)) for _ in range(components(result))]
    near, apart, end = (e.w.fresh(p) for p in ("near", "apart", "loaded"))
    for index in indices:
        e.first(index)  # here, where either way and what follows can use it
    step = axis_steps(e, buffer)[axis]
    e.w.branch(e.w.let(f"icmp eq i64 {step}, 1"), near, apart)
    e.if_one[step] = None
    for label, unit in ((near, axis), (apart, None)):
        e.w.label(label)
        in_order = e.in_order
        with e.nested():
            (found,) = load(address(e, buffer, indices, unit))
            names = e.spread(result, found) if isinstance(found, Runs) else found
            for cell, name in zip(cells, names, strict=True):
                e.w.do(f"store {e.type(result)} {name}, ptr {cell}")
        if unit is None:
            e.in_order = in_order
        e.w.jump(end)
    e.w.label(end)
    return [tuple(e.w.let(f"load {e.type(result)}, ptr {cell}") for cell in cells)]
