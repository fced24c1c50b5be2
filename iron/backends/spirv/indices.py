"""Which thread of which group this is, from what a device says of an invocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iron.backends.spirv.folding import unfolded
from iron.backends.spirv.words import BuiltIn, Capability, Code

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder


def of_thread(e: Encoder) -> int:
    """This thread's number in its group, from subgroup ids where lanes matter."""
    m = e.m
    if not (e.shuffles and e.together):
        local = m.load(m.input(BuiltIn.LocalInvocationIndex), m.u32)
        if e.fold > 1:
            local = m.op(Code.BitwiseAnd, local, m.number(e.kernel.threads - 1))
        return local
    m.need(Capability.GroupNonUniform)
    simdgroup = m.load(m.input(BuiltIn.SubgroupId), m.u32)
    lane = m.load(m.input(BuiltIn.SubgroupLocalInvocationId), m.u32)
    return m.op(Code.IAdd, m.op(Code.IMul, simdgroup, m.number(e.target.simd)), lane)


def of_group(e: Encoder) -> int:
    """This group's number; groups lie in rows: a dispatch is one row, or full rows only."""
    m = e.m
    three = m.once(Code.TypeVector, m.u32, 3)
    place = m.load(m.input(BuiltIn.WorkgroupId), three)
    count = m.load(m.input(BuiltIn.NumWorkgroups), three)
    x, y = (m.put(Code.CompositeExtract, m.u32, place, axis) for axis in (0, 1))
    width = m.put(Code.CompositeExtract, m.u32, count, 0)
    inside = m.op(Code.IAdd, m.op(Code.IMul, y, width), x)
    at = m.op(Code.IAdd, e.argument("first"), inside)
    return at if e.fold == 1 else unfolded(e, at)
