"""Thread and group ids and collectives as SPIR-V, in the order that is part of their meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from iron.analysis.order import either_order
from iron.backends.spirv import exchange, memory
from iron.backends.spirv.control import loop
from iron.backends.spirv.encode import Place
from iron.backends.spirv.register import joined
from iron.backends.spirv.words import Capability, Code, Scope
from iron.dtypes import DType, u32
from iron.ir.core import Block, Op
from iron.ir.types import element

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder, Rule


def thread(e: Encoder, op: Op) -> None:
    """This thread's number."""
    e.set(op, _as_index(e, e.thread_index, op.attrs[0]))


def group(e: Encoder, op: Op) -> None:
    """This group's number along an axis: the first axis varies fastest."""
    m, (axis, dtype) = e.m, op.attrs
    at = e.group_index
    for outer in range(axis):
        at = m.op(Code.UDiv, at, e.argument("extent", axis=outer))
    if axis < e.kernel.rank - 1:
        extent = e.argument("extent", axis=axis)
        whole = m.op(Code.IMul, m.op(Code.UDiv, at, extent), extent)
        at = m.op(Code.ISub, at, whole)
    e.set(op, _as_index(e, at, dtype))


MOST_UNROLLED = 32
"""Simdgroups whose totals are read without a loop."""


def _as_index(e: Encoder, word: int, dtype: DType) -> int:
    return e.m.put(Code.UConvert, e.m.u64, word) if dtype.bits == 64 else word


def _share(e: Encoder, op: Op, values: Sequence[int], last: bool) -> list[Place]:
    """A value of each simdgroup, written by its first or last lane, readable on return."""
    m, simd = e.m, e.kernel.simd
    types = [element(a.type) for a in op.args[: len(values)]]
    lane = m.op(Code.BitwiseAnd, e.thread_index, m.number(simd - 1))
    mine = m.test(Code.IEqual, lane, m.number(simd - 1 if last else 0))
    at = m.op(Code.ShiftRightLogical, e.thread_index, m.number(simd.bit_length() - 1))
    return exchange.shared(e, types, values, e.kernel.threads // simd, at, mine)


def _run_start(e: Encoder, width: int) -> int:
    """The first simdgroup of this thread's run of `width` threads."""
    m = e.m
    if width == e.kernel.threads:
        return m.number(0)
    run = m.op(Code.UDiv, e.thread_index, m.number(width))
    return m.op(Code.IMul, run, m.number(width // e.kernel.simd))


def _read(e: Encoder, op: Op, piles: Sequence[Place], at: int) -> list[int]:
    types = [element(a.type) for a in op.args[: len(piles)]]
    return [memory.registered(e, p, t, at) for p, t in zip(piles, types, strict=True)]


# --- collectives ----------------------------------------------------------------------------------


def combined(e: Encoder, body: Block, low: Sequence[int], high: Sequence[int]) -> list[int]:
    """The function of a collective on the values of two threads."""
    e.ids.update(zip(body.params, (*low, *high), strict=True))
    e.block(body)
    return [e.id(v) for v in body.yielded]


def reduce(e: Encoder, op: Op) -> None:
    """Butterfly inside min(width, simd) lanes, then simdgroups from left to right."""
    width = op.attr("width") or e.kernel.threads
    values = [e.id(a) for a in op.args]
    step = 1
    while step < min(width, e.kernel.simd):
        values = _butterfly(e, op, values, step)
        step *= 2
    if width > e.kernel.simd:
        values = _across(e, op, values, width)
    e.ids.update(zip(op.results, values, strict=True))


def _butterfly(e: Encoder, op: Op, values: Sequence[int], step: int) -> list[int]:
    m, body = e.m, op.regions[0]
    types = [element(a.type) for a in op.args]
    others = [exchange.from_lane_xor(e, t, v, step) for t, v in zip(types, values, strict=True)]
    if either_order(body, e.signless):
        return combined(e, body, values, others)
    bit = m.op(Code.BitwiseAnd, e.thread_index, m.number(step))
    upper = m.test(Code.INotEqual, bit, m.number(0))
    pairs = list(zip(values, others, strict=True))
    low = [m.select(upper, other, mine) for mine, other in pairs]
    high = [m.select(upper, mine, other) for mine, other in pairs]
    return combined(e, body, low, high)


def _across(e: Encoder, op: Op, values: Sequence[int], width: int) -> list[int]:
    m, count = e.m, width // e.kernel.simd
    piles = _share(e, op, values, last=False)
    first = _run_start(e, width)

    def at(number: int) -> list[int]:
        place = m.number(number)
        if width != e.kernel.threads:
            place = m.op(Code.IAdd, first, place)
        return _read(e, op, piles, place)

    def turn(number: int, sums: Sequence[int]) -> tuple[Sequence[int], int]:
        nexts = _read(e, op, piles, m.op(Code.IAdd, first, number))
        return combined(e, op.regions[0], sums, nexts), 0

    if count <= MOST_UNROLLED:
        totals, *nexts = [at(number) for number in range(count)]
        for some in nexts:
            totals = combined(e, op.regions[0], totals, some)
    else:
        bounds = (m.number(1), m.number(count), m.number(1))
        totals = loop(e, bounds, False, at(0), turn)
    exchange.release(e)
    return totals


def scan(e: Encoder, op: Op) -> None:
    """Doubling distances inside min(width, simd) lanes, then the totals to the left come first."""
    m, half = e.m, len(op.args) // 2
    width, simd = op.attr("width") or e.kernel.threads, e.kernel.simd
    sums = [e.id(a) for a in op.args[:half]]
    units = [e.id(a) for a in op.args[half:]]
    inner = min(width, simd)
    place = m.op(Code.BitwiseAnd, e.thread_index, m.number(inner - 1))
    step = 1
    while step < inner:
        sums = _doubled(e, op, sums, place, step)
        step *= 2
    values = sums
    if op.attr("exclusive"):
        values = _shifted(e, op, sums, units, place, inner)
    if width > simd:
        values = _based(e, op, sums, values, units, width)
    e.ids.update(zip(op.results, values, strict=True))


def _doubled(e: Encoder, op: Op, sums: Sequence[int], place: int, step: int) -> list[int]:
    m = e.m
    types = [element(a.type) for a in op.args[: len(sums)]]
    befores = [exchange.from_lane_before(e, t, s, step) for t, s in zip(types, sums, strict=True)]
    joined_ = combined(e, op.regions[0], befores, sums)
    reached = m.test(Code.UGreaterThanEqual, place, m.number(step))
    return [m.select(reached, j, s) for j, s in zip(joined_, sums, strict=True)]


def _shifted(
    e: Encoder, op: Op, sums: Sequence[int], units: Sequence[int], place: int, inner: int
) -> list[int]:
    if inner == 1:
        return list(units)
    m = e.m
    types = [element(a.type) for a in op.args[: len(sums)]]
    inside = m.test(Code.INotEqual, place, m.number(0))
    lefts = [exchange.from_lane_before(e, t, s, 1) for t, s in zip(types, sums, strict=True)]
    return [m.select(inside, left, u) for left, u in zip(lefts, units, strict=True)]


def _based(
    e: Encoder,
    op: Op,
    sums: Sequence[int],
    values: Sequence[int],
    units: Sequence[int],
    width: int,
) -> list[int]:
    """Every value behind the total of the simdgroups to the left of its own."""
    m, simd = e.m, e.kernel.simd
    piles = _share(e, op, sums, last=True)
    first = _run_start(e, width)
    number = m.op(Code.ShiftRightLogical, e.thread_index, m.number(simd.bit_length() - 1))
    own = m.op(Code.ISub, number, first)

    def turn(at: int, bases: Sequence[int]) -> tuple[Sequence[int], int]:
        totals = _read(e, op, piles, m.op(Code.IAdd, first, at))
        return combined(e, op.regions[0], bases, totals), 0

    bases = loop(e, (m.number(0), own, m.number(1)), False, units, turn)
    out = combined(e, op.regions[0], bases, values)
    exchange.release(e)
    return out


def exchanged(e: Encoder, op: Op) -> None:
    """A shuffle below the simd width, group memory from there on."""
    mask, (x,) = op.attr("mask"), op.args
    value, dtype = e.id(x), element(x.type)
    if mask == 0 or e.kernel.threads == 1:
        e.set(op, value)
    elif mask < e.kernel.simd:
        e.set(op, exchange.from_lane_xor(e, dtype, value, mask))
    else:
        e.set(op, exchange.through_memory(e, dtype, value, exchange.xor(e, mask)))


def ballot(e: Encoder, op: Op) -> None:
    """One bit for each lane of the simdgroup."""
    m, x = e.m, e.id(op.args[0])
    if e.kernel.threads == 1:
        e.set(op, m.select(x, m.number(1, m.u64), m.number(0, m.u64)))
    elif e.shuffles:
        m.need(Capability.GroupNonUniformBallot)
        four = m.once(Code.TypeVector, m.u32, 4)
        votes = m.put(Code.GroupNonUniformBallot, four, m.number(Scope.Subgroup), x)
        low, high = (m.put(Code.CompositeExtract, m.u32, votes, at) for at in (0, 1))
        e.set(op, joined(m, low, high))
    else:
        e.set(op, joined(m, *_votes(e, x)))


def _votes(e: Encoder, x: int) -> tuple[int, int]:
    """The votes of lanes 0 to 31 and 32 to 63 of this simdgroup, read one by one."""
    m, simd = e.m, e.kernel.simd
    vote = m.select(x, m.number(1), m.number(0))
    (place,) = exchange.shared(e, [u32], [vote], e.kernel.threads, e.thread_index)
    first = m.op(Code.BitwiseAnd, e.thread_index, m.number(~(simd - 1)))

    def gather(start: int) -> Callable[[int, Sequence[int]], tuple[Sequence[int], int]]:
        def turn(lane: int, so_far: Sequence[int]) -> tuple[Sequence[int], int]:
            at = m.op(Code.IAdd, m.op(Code.IAdd, first, lane), m.number(start))
            vote = memory.registered(e, place, u32, at)
            moved = m.op(Code.ShiftLeftLogical, vote, lane)
            return [m.op(Code.BitwiseOr, so_far[0], moved)], 0

        return turn

    zero, one = m.number(0), m.number(1)
    low = loop(e, (zero, m.number(min(32, simd)), one), False, [zero], gather(0))[0]
    high = zero
    if simd > 32:
        high = loop(e, (zero, m.number(simd - 32), one), False, [zero], gather(32))[0]
    exchange.release(e)
    return low, high


def barrier(e: Encoder, op: Op) -> None:
    """Every thread of the group arrives before any goes on."""
    exchange.meet(e, everything=True)


RULES: dict[str, Rule] = {
    "thread": thread,
    "group": group,
    "barrier": barrier,
    "reduce": reduce,
    "scan": scan,
    "exchange": exchanged,
    "ballot": ballot,
}
