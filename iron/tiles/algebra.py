"""Moves positive factors towards where they are needed once: sink_scale.

c * max(x) stands for max(c * x), and c * where(k, x, -inf) for where(k, c * x, -inf): the same
bits, since rounding keeps order. The product then meets the difference in an exponential, where the
language makes one fma of both, and a row's maximum is scaled once instead of each of its elements.
"""

from __future__ import annotations

import numpy as np

from iron.dtypes import f32
from iron.ir.build import Builder
from iron.ir.core import Kernel, Op, Value, const_of, is_const
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.types import Tile, element


def sink_scale(kernel: Kernel) -> Kernel:
    """`kernel` with factors above 0 after masks of -inf and after maxima.

    A factor is a parameter that `require` puts above 0, a constant above 0, or such a parameter
    times a constant of at least 1 (a smaller one may round it to 0).
    """
    known = _positive(kernel)
    if not known:
        return kernel
    return replace_blocks(kernel, body=_Sink(kernel, known).sweep.block(kernel.body))


def _positive(kernel: Kernel) -> frozenset[str]:
    """The scalar parameters that a requirement puts above 0."""
    names = {v: p.name for p, v in zip(kernel.host_params, kernel.host.params, strict=True)}
    found: set[str] = set()
    for condition in kernel.host.yielded[kernel.rank :]:
        op = condition.op
        if op is None or op.name not in ("gt", "lt"):
            continue
        more, less = op.args if op.name == "gt" else op.args[::-1]
        if more in names and is_const(less) and const_of(less) >= 0:
            found.add(names[more])
    return frozenset(found)


class _Sink:
    """The sweep; `factors` says which new tiles are a tile times a positive scalar."""

    def __init__(self, kernel: Kernel, known: frozenset[str]) -> None:
        pairs = zip(kernel.params, kernel.body.params, strict=True)
        self.known = {v for p, v in pairs if p.name in known}
        self.factors: dict[Value, tuple[Value, Value]] = {}
        rules = {"mul": self.product, "where": self.mask, "tile_reduce": self.maximum}
        self.sweep = Sweep(rules)

    def product(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """A tile times a scalar above 0 is remembered."""
        if op.exact or not isinstance(args[0].type, Tile) or element(args[0].type) is not f32:
            return None
        for i in (0, 1):
            spread = op.args[i].op
            if spread is not None and spread.name == "tile_full" and self._above(spread.args[0]):
                made = b.emit("mul", *args)
                self.factors[made] = args[1 - i], self.sweep.values[spread.args[0]]
                return (made,)
        return None

    def mask(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """where(k, c * x, -inf) is c * where(k, x, -inf)."""
        if args[1] not in self.factors or not _lowest(args[2]):
            return None
        x, c = self.factors[args[1]]
        return self._scaled(b, b.emit("where", args[0], x, args[2]), c)

    def maximum(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """max(c * x) is c * max(x)."""
        if args[0] not in self.factors or op.attr("kind") not in ("max", "min"):
            return None
        x, c = self.factors[args[0]]
        most = b.emit("tile_reduce", x, attrs=op.attrs)
        return self._scaled(b, most, c)

    def _scaled(self, b: Builder, x: Value, c: Value) -> tuple[Value, ...]:
        spread = b.emit("tile_full", c, attrs=(x.type.shape,)) if isinstance(x.type, Tile) else c
        made = b.emit("mul", x, spread)
        self.factors[made] = x, c
        return (made,)

    def _above(self, value: Value) -> bool:
        """True for a scalar of the old kernel that is above 0."""
        if value in self.known:
            return True
        if is_const(value):
            return 0 < const_of(value) < np.inf
        op = value.op
        if op is None or op.name != "mul" or op.exact:
            return False
        return any(
            self._above(x) and is_const(c) and 1 <= const_of(c) < np.inf
            for x, c in (op.args, op.args[::-1])
        )


def _lowest(value: Value) -> bool:
    op = value.op
    if op is None or op.name != "tile_full" or not is_const(op.args[0]):
        return False
    return bool(np.isneginf(const_of(op.args[0])))
