"""Moves what does not change in a loop out of it: pure ops, and loads that happen anyway.

A load moves only from a read-only tensor, and only out of a loop that is known to run, so that
no address is touched that the kernel would not have touched.
"""

from __future__ import annotations

from collections.abc import Iterator

from iron.analysis.ranges import Ranges, ranges
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.table import Trait
from iron.ir.types import Tensor


def hoist(kernel: Kernel) -> Kernel:
    """`kernel` with loop-invariant work before its loops, as far out as it can go.

    Nothing moves out of a branch: it may never run.
    """
    if not any(op.name == "for" for op in kernel.body.walk()):
        return kernel
    return replace_blocks(kernel, body=_Hoist(ranges(kernel)).sweep.block(kernel.body))


class _Hoist:
    """The sweep and the loads already emitted before their loop."""

    def __init__(self, facts: Ranges) -> None:
        self.facts = facts
        self.moved: set[Op] = set()
        self.sweep = Sweep({"for": self.loop, "load": self.load})

    def loop(self, b: Builder, op: Op, args: tuple[Value, ...]) -> None:
        """Emits the invariant ops of the loop; pure ones are found again by their number."""
        for inner, certain in self._candidates(op.regions[0], self.facts.runs(op)):
            if not all(a in self.sweep.values for a in inner.args):
                continue
            if inner.row.has(Trait.PURE):
                self.sweep.ops([inner])
            elif certain and inner.name == "load" and inner not in self.moved:
                self.sweep.ops([inner])
                self.moved.add(inner)
        b.loc, b.exact = op.loc, op.exact

    def load(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """A load that has moved is the value it gave."""
        return (self.sweep.values[op.results[0]],) if op in self.moved else None

    def _candidates(self, block: Block, certain: bool) -> Iterator[tuple[Op, bool]]:
        """Pure ops and read-only loads in order, and whether the loops around them surely run."""
        for op in block.ops:
            if op.row.has(Trait.PURE) or _reads_only(op):
                yield op, certain
            elif op.name == "for":
                yield from self._candidates(op.regions[0], certain and self.facts.runs(op))


def _reads_only(op: Op) -> bool:
    if op.name != "load":
        return False
    t = op.args[0].type
    return isinstance(t, Tensor) and t.space in ("in", "table")
