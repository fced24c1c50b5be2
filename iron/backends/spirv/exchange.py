"""How values travel between the threads of a group: by shuffles of lanes, or through group memory.

Inside a simdgroup lanes shuffle where the kernel's simd width is the device's subgroup size.
Where it is not, lanes exchange through group memory, between barriers: every collective is
reached by all threads of a group, so that is the same. Beyond a simdgroup it is always so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv import memory
from iron.backends.spirv.encode import Place
from iron.backends.spirv.matrix import VISIBLE
from iron.backends.spirv.register import halves, joined
from iron.backends.spirv.words import EVERYTHING, GROUP_MEMORY, BuiltIn, Capability, Code, Scope
from iron.dtypes import DType

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder

NESTED = 2
"""The set of arrays of what is in a branch or loop; 0 and 1 take turns outside."""


# --- lanes ----------------------------------------------------------------------------------------


def _words(e: Encoder, dtype: DType, value: int) -> list[int]:
    """A value as what a lane can send: words or floats of 32 bits."""
    m = e.m
    if dtype.kind == "b":
        return [m.select(value, m.number(1), m.number(0))]
    return list(halves(m, value)) if dtype.bits == 64 else [value]


def _value(e: Encoder, dtype: DType, words: Sequence[int]) -> int:
    m = e.m
    if dtype.kind == "b":
        return m.test(Code.INotEqual, words[0], m.number(0))
    return joined(m, *words) if dtype.bits == 64 else words[0]


def from_lane_xor(e: Encoder, dtype: DType, value: int, mask: int) -> int:
    """The value of lane `lane ^ mask`."""
    m = e.m
    if not e.shuffles:
        return through_memory(e, dtype, value, xor(e, mask))
    m.need(Capability.GroupNonUniformShuffle)
    scope, by = m.number(Scope.Subgroup), m.number(mask)
    words = _words(e, dtype, value)
    code = Code.GroupNonUniformShuffleXor
    return _value(e, dtype, [m.put(code, m.types[w], scope, w, by) for w in words])


def from_lane_before(e: Encoder, dtype: DType, value: int, distance: int) -> int:
    """The value `distance` lanes below; anything where there is none.

    There it is the lane's own: a relative shuffle leaves it undefined, and Mesa 22.3 at 8 lanes
    then reads memory that is not mapped.
    """
    m = e.m
    if not e.shuffles:
        below = m.op(Code.ISub, e.thread_index, m.number(distance))
        outside = m.test(Code.ULessThan, e.thread_index, m.number(distance))
        return through_memory(e, dtype, value, m.select(outside, e.thread_index, below))
    m.need(Capability.GroupNonUniformShuffle)
    scope, by = m.number(Scope.Subgroup), m.number(distance)
    lane = m.load(m.input(BuiltIn.SubgroupLocalInvocationId), m.u32)
    outside = m.test(Code.ULessThan, lane, by)
    source = m.select(outside, lane, m.op(Code.ISub, lane, by))
    words = _words(e, dtype, value)
    code = Code.GroupNonUniformShuffle
    return _value(e, dtype, [m.put(code, m.types[w], scope, w, source) for w in words])


def xor(e: Encoder, mask: int) -> int:
    """The number of the thread whose number differs by the bits of `mask`."""
    return e.m.op(Code.BitwiseXor, e.thread_index, e.m.number(mask))


# --- group memory ---------------------------------------------------------------------------------


def meet(e: Encoder, *, everything: bool = False) -> None:
    """All threads of the group meet and see what the others wrote to group memory, or anywhere.

    One thread alone need not.
    """
    if e.kernel.threads > 1:
        m = e.m
        scope = m.number(Scope.Workgroup)
        order = EVERYTHING if everything else GROUP_MEMORY
        order |= VISIBLE if e.opaque else 0
        m.do(Code.ControlBarrier, scope, scope, m.number(order))


def through_memory(e: Encoder, dtype: DType, value: int, source: int) -> int:
    """The value of thread `source`."""
    (place,) = shared(e, [dtype], [value], e.kernel.threads, e.thread_index)
    got = memory.registered(e, place, dtype, source)
    release(e)
    return got


def shared(
    e: Encoder, types: Sequence[DType], values: Sequence[int], count: int, at: int, who: int = 0
) -> list[Place]:
    """Group arrays of `count` that hold `values` at `at`, written where `who`; readable on return.

    Where a group passes once, uses take turns with two sets of arrays: the barrier of each ends
    the reading of the one before. A use that a loop may repeat has a set of its own and ends with
    a barrier (`_release`).
    """
    turn = NESTED
    if e.depth == 0:
        turn = e.turn = 1 - e.turn
    piles = [_pile(e, (t, count, number, turn)) for number, t in enumerate(types)]

    def write() -> None:
        for place, dtype, value in zip(piles, types, values, strict=True):
            memory.write(e, place, dtype, at, value)

    if who:
        _where(e, who, write)
    else:
        write()
    meet(e)
    return piles


def _pile(e: Encoder, key: tuple[DType, int, int, int]) -> Place:
    if key not in e.piles:
        e.piles[key] = memory.group_array(e, key[0], key[1], "pile")
    return e.piles[key]


def _where(e: Encoder, condition: int, write: Callable[[], None]) -> None:
    m = e.m
    inside, merge = m.fresh(), m.fresh()
    m.do(Code.SelectionMerge, merge, 0)
    m.do(Code.BranchConditional, condition, inside, merge)
    e.label(inside)
    write()
    m.do(Code.Branch, merge)
    e.label(merge)


def release(e: Encoder) -> None:
    """Ends the reading of what `shared` gave."""
    if e.depth:
        meet(e)
