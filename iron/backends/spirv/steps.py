"""Loops whose turns wait for memory, and could wait together.

A loop that only reads and sums has one load in flight for each thread, and drivers do not unroll
loops whose ends they do not know. Several turns written behind each other have as many: the sums
keep their order, the loads need not.
"""

from __future__ import annotations

from iron.ir.core import Op, const_of, is_const, stop_flag
from iron.ir.table import TABLE, Trait
from iron.ir.types import Tensor, element

TURNS = 4
MOST_OPS = 48
MOST_STEP = 1 << 24


def hides_latency(op: Op) -> bool:
    """True for a loop of few ops that reads memory, writes none and has no end of its own."""
    body = op.regions[0]
    if stop_flag(op) is not None or not is_const(op.args[2]):
        return False
    if not 0 < int(const_of(op.args[2])) <= MOST_STEP or element(body.params[0].type).bits != 32:
        return False
    ops = [o for o in body.walk() if o.name != "yield"]
    if len(ops) > MOST_OPS or not any(_reads(o) for o in ops):
        return False
    return all(_plain(o) for o in ops)


def _reads(op: Op) -> bool:
    if op.name != "load":
        return False
    t = op.args[0].type
    return isinstance(t, Tensor) and t.space in ("in", "inout")


def _plain(op: Op) -> bool:
    return op.name in ("load", "if") or bool(TABLE[op.name].traits & Trait.PURE)
