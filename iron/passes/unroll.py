"""Writes out the turns of short loops whose number of turns is known."""

from __future__ import annotations

from iron.analysis.ranges import Ranges, ranges
from iron.dtypes import DType
from iron.ir.build import Builder
from iron.ir.core import Kernel, Op, Value, carried, stop_flag
from iron.ir.rebuild import Sweep, replace_blocks

TURNS = 8
SIZE = 64


def unroll(kernel: Kernel, turns: int = TURNS, size: int = SIZE) -> Kernel:
    """`kernel` without loops of at most `turns` turns that grow to at most `size` ops."""
    round_ = _Unroll(ranges(kernel), turns, size)
    if not any(op.name == "for" and round_.short(op) for op in kernel.body.walk()):
        return kernel
    return replace_blocks(kernel, body=round_.sweep.block(kernel.body))


class _Unroll:
    """The sweep with its limits."""

    def __init__(self, facts: Ranges, turns: int, size: int) -> None:
        self.facts = facts
        self.turns = turns
        self.size = size
        self.sweep = Sweep({"for": self.loop})

    def short(self, op: Op) -> int | None:
        """The turns of a loop within the limits, which nothing ends early."""
        turns = self.facts.turns(op)
        if stop_flag(op) is not None or turns is None or turns > self.turns:
            return None
        inside = [o.name for o in op.regions[0].walk()]
        if "panel_mma" in inside:  # a loop of its own
            return None
        size = sum(name not in ("const", "yield") for name in inside)
        return turns if turns * size <= self.size else None

    def loop(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """The turns one after another, with the counter a constant in each."""
        turns = self.short(op)
        if turns is None:
            return None
        (body,) = op.regions
        first, step = (self.facts.at(op, i) for i in (0, 2))
        counter = body.params[0].type
        assert first is not None
        assert step is not None
        assert isinstance(counter, DType)
        held = args[3:]
        for turn in range(turns):
            number = b.const(first.low + turn * step.low, counter)
            self.sweep.values.update(zip(body.params, (number, *held), strict=True))
            self.sweep.ops(body.ops[:-1])
            held = tuple(self.sweep.values[v] for v in carried(op))
        return held
