"""Copies that threads do not wait for, in the interpreter: done as late as they may be.

What is under way counts as unwritten, so a read that does not wait is seen; both the start and the
end of a copy are accesses of its thread, so a reader must be ordered after the wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.ir.core import Op, Value
from iron.ir.interp.collectives import together
from iron.ir.interp.machine import Array, Machine, Mask
from iron.ir.interp.memory import Buffer, addresses, elements, enter
from iron.ir.ops.copy import BYTES, places

Lanes = np.ndarray[Any, Any]


@dataclass(slots=True)
class Flying:
    """Copies of one op under way: to where, what, by which lanes, and the number of the group of
    each."""

    op: Op
    to: Buffer
    at: Lanes
    values: Lanes
    lanes: Lanes
    group: Lanes

    def split(self, due: Lanes) -> tuple[Flying, Flying]:
        """Those that are due, and the others."""
        one, other = (
            Flying(self.op, self.to, self.at[x], self.values[x], self.lanes[x], self.group[x])
            for x in (due, ~due)
        )
        return one, other


def _copy(m: Machine, op: Op, mask: Mask) -> tuple[()]:
    times, rows, axis, along = op.attr("runs")
    for number in range(times):
        ends = [list(p) for p in places(op.args)]
        _once(m, op, mask, ends, {0: (-2, number * rows), 1: (axis, number * along)})
    return ()


def _once(
    m: Machine,
    op: Op,
    mask: Mask,
    ends: Sequence[Sequence[Value]],
    moved: Mapping[int, tuple[int, int]],
) -> None:
    """One copy: at each end, along an axis, so much further than the op says."""
    to, source = (m.buffers[a] for a in op.args[:2])
    many = op.attr("count")
    starts: list[Array] = []
    for of, indices in enumerate(ends):
        start = addresses(m, op, indices, many, mask, of, moved[of])
        starts.append(np.broadcast_to(elements(start, many), (m.lanes, many)))
    active = np.arange(m.lanes) if mask is None else np.flatnonzero(mask)
    at, values = starts[0][active], source.read(starts[1][active])
    if (at[:, 0] * to.data.itemsize % BYTES).any():
        raise m.fault("E0901", f"a copy of {BYTES} bytes to a place that is no multiple of it", op)
    _write(m, op, to, at, active)
    if to.written is not None:
        to.written[at] = False
    m.flying.append(Flying(op, to, at, values, active, m.closed[active]))


def _write(m: Machine, op: Op, to: Buffer, at: Lanes, lanes: Lanes) -> None:
    many = at.shape[1]
    since = m.since[lanes].repeat(many)
    enter(m, to, op, "writes", at.reshape(-1), m.number[lanes].repeat(many), since)


def _commit(m: Machine, op: Op, mask: Mask) -> tuple[()]:
    together(m, op, mask)
    m.closed = m.closed + (1 if mask is None else mask)
    return ()


def _wait(m: Machine, op: Op, mask: Mask) -> tuple[()]:
    together(m, op, mask)
    active = np.ones(m.lanes, bool) if mask is None else mask
    left: list[Flying] = []
    for copy in m.flying:
        due = active[copy.lanes] & (copy.group < m.closed[copy.lanes] - op.attr("pending"))
        done, rest = copy.split(due)
        if done.lanes.size:
            _write(m, done.op, done.to, done.at, done.lanes)
            done.to.write(done.at, done.values)
            if done.to.written is not None:
                done.to.written[done.at] = True
        if rest.lanes.size:
            left.append(rest)
    m.flying = left
    return ()


HANDLERS = {"async_copy": _copy, "async_commit": _commit, "async_wait": _wait}
