"""Collectives of the interpreter: what the threads of a group do together, in a fixed order.

`reduce` combines inside min(P, W) neighbouring lanes by an exclusive-or butterfly, the value of
the lower lane first; the totals of simdgroups are then combined from left to right.

`scan` combines inside min(P, W) lanes by doubling distances (1, 2, 4, ..), the value of the lower
lane first. When P exceeds W, each simdgroup then combines its base with every lane's value, base
first; the base of a run's first simdgroup is the unit, and each next base is the previous base
combined with the previous simdgroup's total. An exclusive scan shifts the values inside a
simdgroup by one lane, the unit entering at the left, before it combines them with the base.

Here P is the collective's width (0: the whole group) and W the simd width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iron.ir.core import Block, Op
from iron.ir.interp.machine import Array, Machine, Mask, place
from iron.ir.types import Type, count

Lanes = np.ndarray[Any, Any]


def together(m: Machine, op: Op, mask: Mask) -> None:
    """Every thread of a group arrives, or none; raises E0312."""
    if mask is None or m.kernel.threads == 1:
        return
    arrived = mask.reshape(m.groups, m.kernel.threads)
    split = arrived.any(1) & ~arrived.all(1)
    if not split.any():
        return
    group = int(np.argmax(split))
    raise m.fault(
        "E0312",
        f"`{op.surface}` needs every thread of the group, but {int(arrived[group].sum())} of "
        f"{m.kernel.threads} threads arrived",
        op,
        [_parting(m, group)],
        "move the call out of the branch; threads without a value pass a neutral one",
    )


def _parting(m: Machine, group: int) -> str:
    names = {"if": "branch", "for": "loop"}
    at = m.branches[-1]
    return (
        f"threads of group {m.first_group + group} part at the {names[at.name]} on line "
        + place(at.loc)
    )


def _combine(
    m: Machine, body: Block, low: Sequence[Array], high: Sequence[Array], mask: Mask
) -> list[Lanes]:
    m.env.update(zip(body.params, (*low, *high), strict=True))
    out = m.block(body, mask)
    return [m.over_lanes(x, v.type) for x, v in zip(out, body.yielded, strict=True)]


def _choose(condition: Lanes, a: Lanes, b: Lanes, t: Type) -> Lanes:
    return np.where(condition[:, None] if count(t) else condition, a, b)


def _reduce(m: Machine, op: Op, mask: Mask) -> list[Lanes]:
    together(m, op, mask)
    body = op.regions[0]
    width = op.attr("width") or m.kernel.threads
    simd = m.kernel.simd
    values = [m.spread(a) for a in op.args]
    step = 1
    while step < min(width, simd):
        low, high = m.lane & ~step, m.lane | step
        values = _combine(
            m, body, [v.take(low, 0) for v in values], [v.take(high, 0) for v in values], mask
        )
        step *= 2
    if width <= simd:
        return values
    start = m.lane - m.thread % width
    total = [v.take(start, 0) for v in values]
    for at in range(simd, width, simd):
        total = _combine(m, body, total, [v.take(start + at, 0) for v in values], mask)
    return total


def _scan(m: Machine, op: Op, mask: Mask) -> list[Lanes]:
    together(m, op, mask)
    half = len(op.args) // 2
    width = op.attr("width") or m.kernel.threads
    simd = m.kernel.simd
    units = [m.spread(a) for a in op.args[half:]]
    inner = min(width, simd)
    sums = _doubling(m, op, inner, mask)
    values = sums
    if op.attr("exclusive"):
        values = _shifted(m, op, sums, units, inner)
    return values if width <= simd else _based(m, op, sums, values, units, mask)


def _doubling(m: Machine, op: Op, inner: int, mask: Mask) -> list[Lanes]:
    half = len(op.args) // 2
    types = [a.type for a in op.args[:half]]
    values = [m.spread(a) for a in op.args[:half]]
    lane, place_in = m.lane, m.thread % inner
    step = 1
    while step < inner:
        reached = place_in >= step
        before = [v[np.where(reached, lane - step, lane)] for v in values]
        joined = _combine(m, op.regions[0], before, values, mask)
        values = [_choose(reached, j, v, t) for j, v, t in zip(joined, values, types, strict=True)]
        step *= 2
    return values


def _shifted(m: Machine, op: Op, sums: list[Lanes], units: list[Lanes], inner: int) -> list[Lanes]:
    inside = m.thread % inner > 0
    left = np.maximum(m.lane - 1, 0)
    return [
        _choose(inside, s[left], u, a.type)
        for s, u, a in zip(sums, units, op.args[: len(sums)], strict=True)
    ]


def _based(
    m: Machine, op: Op, sums: list[Lanes], values: list[Lanes], units: list[Lanes], mask: Mask
) -> list[Lanes]:
    """The values of every simdgroup combined with the total of those to its left."""
    simd, types = m.kernel.simd, [u.type for u in op.args[len(units) :]]
    width = op.attr("width") or m.kernel.threads
    start = m.lane - m.thread % width
    number = m.thread % width // simd
    base = running = units
    for at in range(1, width // simd):
        last = start + at * simd - 1
        running = _combine(m, op.regions[0], running, [s.take(last, 0) for s in sums], mask)
        here = number == at
        base = [_choose(here, r, b, t) for r, b, t in zip(running, base, types, strict=True)]
    return _combine(m, op.regions[0], base, values, mask)


def _exchange(m: Machine, op: Op, mask: Mask) -> tuple[Lanes]:
    together(m, op, mask)
    x = m.spread(op.args[0])
    return (x[m.lane - m.thread + (m.thread ^ op.attr("mask"))],)


def _ballot(m: Machine, op: Op, mask: Mask) -> tuple[Lanes]:
    together(m, op, mask)
    simd = min(m.kernel.simd, m.kernel.threads)
    votes = m.spread(op.args[0]).reshape(-1, simd).astype(np.uint64)
    bits = (votes << np.arange(simd, dtype=np.uint64)).sum(1, dtype=np.uint64)
    return (bits.repeat(simd),)


def _barrier(m: Machine, op: Op, mask: Mask) -> tuple[()]:
    together(m, op, mask)
    m.serial += 1
    m.since = np.where(True if mask is None else mask, m.serial, m.since)
    return ()


HANDLERS = {
    "reduce": _reduce,
    "scan": _scan,
    "exchange": _exchange,
    "ballot": _ballot,
    "barrier": _barrier,
}
