"""Several groups of a kernel in one workgroup of the device.

Threads that have nothing to do with each other need no group of their own, and a device starts
workgroups at a rate of its own: an H200 takes 110 us for 131,072 of 128 threads, which is longer
than the memory of some kernels takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iron.backends.spirv.words import BuiltIn, Code
from iron.ir.core import Kernel
from iron.targets.target import Target

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder

COLLECTIVES = frozenset({"reduce", "scan", "exchange", "ballot"})
TOGETHER = COLLECTIVES | {"barrier", "shared"}
FOLDED = 256
"""Threads of a workgroup of several groups."""


def folded(kernel: Kernel, target: Target) -> int:
    """How many groups of `kernel` a workgroup holds."""
    names = {op.name for op in kernel.body.walk()}
    threads = kernel.threads
    most = min(FOLDED, target.max_threads)
    if not target.has("folds_groups") or names & TOGETHER or "group" not in names:
        return 1
    return most // threads if threads & threads - 1 == 0 and threads < most else 1


def unfolded(e: Encoder, workgroup: int) -> int:
    """The number of this thread's group, from that of its workgroup."""
    m = e.m
    local = m.load(m.input(BuiltIn.LocalInvocationIndex), m.u32)
    power = m.number(e.kernel.threads.bit_length() - 1)
    inside = m.put(Code.ShiftRightLogical, m.u32, local, power)
    return m.op(Code.IAdd, m.op(Code.IMul, workgroup, m.number(e.fold)), inside)


def where_there_is_one(e: Encoder, write: Callable[[], None]) -> None:
    """The body, for threads whose group is one of the launch: the last workgroup may hold more."""
    m = e.m
    inside, merge = m.fresh(), m.fresh()
    there = m.test(Code.ULessThan, e.group_index, e.argument("count"))
    m.do(Code.SelectionMerge, merge, 0)
    m.do(Code.BranchConditional, there, inside, merge)
    e.label(inside)
    write()
    m.do(Code.Branch, merge)
    e.label(merge)
