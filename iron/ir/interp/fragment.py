"""Opaque matrices in the interpreter: every lane has the whole matrix of its simdgroup.

For the log of accesses the elements of a matrix are dealt to the lanes, the last lane first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iron.ir.core import Op, Value
from iron.ir.interp.collectives import together
from iron.ir.interp.machine import Machine, Mask
from iron.ir.interp.memory import access
from iron.ir.types import Matrix

Lanes = np.ndarray[Any, Any]


def _full(m: Machine, op: Op, mask: Mask) -> list[Lanes]:
    together(m, op, mask)
    held = op.attr("type")
    return [
        np.broadcast_to(m.spread(op.args[0])[:, None, None], (m.lanes, held.rows, held.columns))
    ]


def _load(m: Machine, op: Op, mask: Mask) -> list[Lanes]:
    together(m, op, mask)
    held = op.attr("type")
    at = _elements(m, op, op.args[1:], held, op.attr("turned"))
    access(m, op, "reads", _dealt(m, at), mask)
    values = np.ascontiguousarray(m.buffers[op.args[0]].read(at))
    values = values.view(held.elem.np)
    if op.attr("turned"):
        values = values.transpose(0, 2, 1)
    return [values.repeat(_width(m), 0)]


def _store(m: Machine, op: Op, mask: Mask) -> list[Lanes]:
    together(m, op, mask)
    held = op.args[-1].type
    assert isinstance(held, Matrix)
    at = _elements(m, op, op.args[1:-1], held, turned=False)
    access(m, op, "writes", _dealt(m, at), mask)
    buffer, values = m.buffers[op.args[0]], _one_each(m, op.args[-1])
    if mask is not None:
        there = mask[:: _width(m)]
        at, values = at[there], values[there]
    buffer.write(at, values)
    if buffer.written is not None:
        buffer.written[at] = True
    return []


def _mma(m: Machine, op: Op, mask: Mask) -> list[Lanes]:
    together(m, op, mask)
    a, b, acc = (_one_each(m, v) for v in op.args)
    wide = np.int64 if acc.dtype.kind == "i" else acc.dtype
    out = (acc + a.astype(wide) @ b.astype(wide)).astype(acc.dtype)
    return [out.repeat(_width(m), 0)]


def _width(m: Machine) -> int:
    """Lanes of a simdgroup."""
    return min(m.kernel.simd, m.kernel.threads)


def _one_each(m: Machine, value: Value) -> Lanes:
    """The matrix of each simdgroup."""
    return m.spread(value)[:: _width(m)]


def _elements(m: Machine, op: Op, indices: Sequence[Value], held: Matrix, turned: bool) -> Lanes:
    """Where the elements are: simdgroups x rows x columns. Raises E0404."""
    buffer, width = m.buffers[op.args[0]], _width(m)
    sides = (held.columns, held.rows) if turned else (held.rows, held.columns)
    sides = (sides[0], sides[1] * held.elem.bytes // buffer.data.dtype.itemsize)
    at = np.zeros((m.lanes // width, 1, 1), np.int64)
    for axis, (index, size) in enumerate(zip(indices, buffer.shape, strict=True)):
        first = m.spread(index)[::width].astype(np.int64)
        last = len(buffer.shape) - axis  # 2 and 1: the axes that the matrix lies along
        side = sides[2 - last] if last <= 2 else 1
        if first.min() < 0 or first.max() + side > size:
            raise m.fault(
                "E0404",
                f"a matrix at index {int(first.max())} is outside axis {axis} of "
                f"`{buffer.name}`, which has {size} elements",
                op,
            )
        steps = np.arange(side).reshape((1, -1, 1) if last == 2 else (1, 1, -1))
        at = at * size + first[:, None, None] + (steps if last <= 2 else 0)
    if buffer.per_group:
        at = at + m.in_chunk[::width, None, None] * buffer.per_group
    return at


def _dealt(m: Machine, at: Lanes) -> Lanes:
    """The elements that each lane answers for; few elements have several lanes each."""
    width = _width(m)
    flat = at.reshape(len(at), -1)
    share = -(-flat.shape[1] // width)
    number = np.arange(share * width) % flat.shape[1]
    return (
        flat[:, number[::-1]].reshape(len(at), share, width).transpose(0, 2, 1).reshape(-1, share)
    )


HANDLERS = {
    "matrix_full": _full,
    "matrix_load": _load,
    "matrix_store": _store,
    "matrix_mma": _mma,
}
