"""A guess of how long one group runs, good enough to choose between inline and parallel."""

from __future__ import annotations

from iron.analysis.uniform import Uniformity
from iron.ir.core import Block, Kernel, Op, const_of, is_const
from iron.ir.table import Trait
from iron.ir.types import count

VECTOR = 0.5  # nanoseconds of an op on the lanes of one simdgroup
SCALAR = 0.25
MEMORY = 1.0
TURNS = 32
"""Turns of a loop whose bounds are not constant."""

INLINE = 4000.0
"""Nanoseconds of work below which a launch stays on its own thread: waking another costs more."""

CHUNK = 2000.0
"""Least nanoseconds of one claimed chunk."""


def nanoseconds(kernel: Kernel, u: Uniformity) -> float:
    """The guessed time of one group."""
    return max(1.0, _block(kernel.body, u) * u.simdgroups)


def chunk(groups: int, each: float, threads: int) -> int:
    """Groups of one claim: all of them when the launch should run inline."""
    if threads == 1 or groups == 1 or groups * each < INLINE:
        return groups
    even = -(-groups // (8 * threads))
    return min(groups, max(1, even, int(CHUNK / each)))


def _block(block: Block, u: Uniformity) -> float:
    return sum(_op(op, u) for op in block.ops)


def _op(op: Op, u: Uniformity) -> float:
    inside = sum(_block(region, u) for region in op.regions)
    if op.name == "for":
        return 1.0 + inside * _turns(op)
    if op.name in ("reduce", "scan"):
        return 4.0 + inside * max(1, u.width.bit_length() - 1)
    own = SCALAR
    if op.row.has(Trait.READS) or op.row.has(Trait.WRITES):
        own = MEMORY
    elif any(u.varies(r) for r in op.results):
        own = VECTOR
    width = max([1, *(count(v.type) for v in (*op.results, *op.args))])
    return own * width + inside


def _turns(op: Op) -> float:
    low, high, step = op.args[:3]
    if not (is_const(low) and is_const(high) and is_const(step)):
        return TURNS
    return max(0, int(const_of(high)) - int(const_of(low))) / int(const_of(step))
