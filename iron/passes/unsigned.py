"""Divides without signs where neither operand has one: rounding down costs a processor nothing."""

from __future__ import annotations

from iron.analysis.ranges import Ranges, ranges
from iron.dtypes import DType, i32, i64, u32, u64
from iron.ir.build import Builder
from iron.ir.core import Kernel, Op, Value
from iron.ir.rebuild import Sweep, replace_blocks

_PLAIN = {i32: u32, i64: u64}


def unsigned(kernel: Kernel) -> Kernel:
    """`kernel` with quotients and remainders of numbers that are at least 0 taken as unsigned."""
    if not any(op.name in ("floordiv", "mod") for op in kernel.body.walk()):
        return kernel
    return replace_blocks(kernel, body=_Unsigned(ranges(kernel)).sweep.block(kernel.body))


class _Unsigned:
    """The sweep, unfolded, since it may follow `combine`."""

    def __init__(self, facts: Ranges) -> None:
        self.facts = facts
        self.sweep = Sweep({"floordiv": self.divide, "mod": self.divide}, fold=False)

    def divide(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """The op on the unsigned type of the same width, or None to leave it."""
        signed = op.results[0].type
        found = [self.facts.at(op, i) for i in (0, 1)]
        if not isinstance(signed, DType) or signed not in _PLAIN:
            return None
        if any(r is None or r.low < 0 for r in found):
            return None
        x, y = (b.emit("cast", a, attrs=(_PLAIN[signed],)) for a in args)
        return (b.emit("cast", b.emit(op.name, x, y), attrs=(signed,)),)
