"""What one thread of a kernel does, counted: arithmetic, bytes, and the values it holds at once.

Loops with an unknown number of turns count once, so figures compare forms of one kernel and are
no prediction of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from iron.analysis.ranges import Ranges, ranges
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.ops.copy import BYTES
from iron.ir.table import Trait
from iron.ir.types import Tensor, Type, Vector, count, element


@dataclass(frozen=True, slots=True)
class Cost:
    """Per thread: float and integer operations, bytes read and written outside group memory.

    `live` is the greatest number of 32-bit values alive at once, constants aside.
    """

    flops: int
    integer: int
    read: int
    written: int
    live: int


def cost(kernel: Kernel) -> Cost:
    """The counts of `kernel.body`; a fused multiply-add is two operations."""
    counts = _Counts(ranges(kernel))
    counts.block(kernel.body, 1)
    return Cost(
        counts.flops, counts.integer, counts.read, counts.written, _live(kernel.body, set())
    )


class _Counts:
    """A walk that multiplies what a loop holds by its turns, where they are known."""

    def __init__(self, facts: Ranges) -> None:
        self.facts = facts
        self.flops = self.integer = self.read = self.written = 0

    def block(self, block: Block, times: int) -> None:
        for op in block.ops:
            turns = self.facts.turns(op) if op.name == "for" else None
            for region in op.regions:
                self.block(region, times * (1 if turns is None else turns))
            self._op(op, times)

    def _op(self, op: Op, times: int) -> None:
        if op.name in ("load", "store", "atomic"):
            self._memory(op, times)
        elif op.name == "async_copy":
            self.read += BYTES * op.attr("runs")[0] * times
        elif op.row.has(Trait.ELEMENTWISE) and op.args:
            elements = max(1, count(op.args[-1].type)) * times
            if element(op.args[-1].type).is_float:
                self.flops += elements * (2 if op.name == "fma" else 1)
            else:
                self.integer += elements

    def _memory(self, op: Op, times: int) -> None:
        t = op.args[0].type
        if not isinstance(t, Tensor) or t.space in ("shared", "table"):
            return
        moved = op.results[0] if op.name == "load" else op.args[-1]
        size = max(1, count(moved.type)) * t.elem.bytes * times
        self.read += size if op.name != "store" else 0
        self.written += size if op.name != "load" else 0


def _live(block: Block, after: set[Value]) -> int:
    """The most 32-bit values alive at once in `block`, when `after` are needed behind it."""
    alive = set(after)
    most = _words(alive)
    for op in reversed(block.ops):
        alive -= set(op.results)
        inner = max((_live(r, alive | _captured(r)) for r in op.regions), default=0)
        alive |= {a for a in op.args if _counts(a)}
        for region in op.regions:
            alive |= {a for a in _captured(region) if _counts(a)}
        most = max(most, inner, _words(alive))
    return most


def _captured(region: Block) -> set[Value]:
    """Values of outer blocks that a region uses."""
    inside = set(region.params)
    used: set[Value] = set()
    for op in region.walk():
        used |= set(op.args)
        inside |= {*op.results, *(p for r in op.regions for p in r.params)}
    return used - inside


def _counts(value: Value) -> bool:
    return not isinstance(value.type, Tensor) and (value.op is None or value.op.name != "const")


def _words(values: set[Value]) -> int:
    return sum(_size(v.type) for v in values if _counts(v))


def _size(t: Type) -> int:
    each = max(1, element(t).bits // 32)
    return each * t.count if isinstance(t, Vector) else each
