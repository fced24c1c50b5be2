"""Branches that only keep loads inside an array, written without a branch.

A GPU waits for the loads of a branch before it goes on, so a dozen guarded loads in a row take a
dozen times the latency of one. Such a load reads the first element of its binding instead where
the branch is not taken, which is always there, and what it read is thrown away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iron.backends.spirv.words import Code
from iron.ir.core import Block, Op
from iron.ir.table import TABLE, Trait
from iron.ir.types import Tensor, Vector

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder

MOST_OPS, MOST_LOADS = 48, 4


def only_guards(e: Encoder, op: Op) -> bool:
    """True for a branch with few ops, which load and compute and do nothing else."""
    ops = [o for region in op.regions for o in region.ops[:-1]]
    loads = [o for o in ops if o.name == "load"]
    if not (op.results and 0 < len(loads) <= MOST_LOADS and len(ops) <= MOST_OPS):
        return False
    if any(isinstance(r.type, Vector) for r in op.results):
        return False
    return all(_inside(e, o) if o.name == "load" else _pure(o) for o in ops)


def _pure(op: Op) -> bool:
    return not op.regions and bool(TABLE[op.name].traits & Trait.PURE)


def _inside(e: Encoder, load: Op) -> bool:
    """True where what begins at the first element of the array lies in what is bound."""
    t = load.args[0].type
    assert isinstance(t, Tensor)
    if not isinstance(load.results[0].type, Vector):
        return t.space != "shared"
    return load in e.wide or (t.packed and t.space in ("in", "inout"))


def write(e: Encoder, op: Op) -> None:
    """Both sides, and of their results those of the side that is taken."""
    m, condition = e.m, e.id(op.args[0])
    then, other = op.regions
    sides = [_side(e, then, condition)]
    refused = m.test(Code.LogicalNot, condition) if _loads(other) else 0
    sides.append(_side(e, other, refused))
    for result, yes, no in zip(op.results, *sides, strict=True):
        e.ids[result] = m.select(condition, yes, no)


def _loads(region: Block) -> bool:
    return any(op.name == "load" for op in region.ops)


def _side(e: Encoder, region: Block, guard: int) -> list[int]:
    e.guard = guard
    e.block(region)
    e.guard = 0
    return [e.id(v) for v in region.yielded]
