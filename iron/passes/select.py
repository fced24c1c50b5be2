"""Turns a branch between two short pure sides into selections."""

from __future__ import annotations

from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.table import Trait
from iron.ir.types import Tile, Vector

SIZE = 8


def select(kernel: Kernel, size: int = SIZE) -> Kernel:
    """`kernel` where a branch of at most `size` pure ops on both sides together is `where`."""
    if not any(op.name == "if" for op in kernel.body.walk()):
        return kernel
    return replace_blocks(kernel, body=_Select(size).sweep.block(kernel.body))


class _Select:
    """The sweep with its limit."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.sweep = Sweep({"if": self.branch})

    def branch(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """Both sides computed, and each result chosen."""
        if sum(map(_weight, op.regions)) > self.size:
            return None
        sides: list[tuple[Value, ...]] = []
        for side in op.regions:
            self.sweep.ops(side.ops[:-1])
            sides.append(tuple(self.sweep.values[v] for v in side.yielded))
        b.loc, b.exact = op.loc, op.exact
        return tuple(_where(b, args[0], x, y) for x, y in zip(*sides, strict=True))


def _weight(side: Block) -> int:
    """The ops of a side; beyond any limit when one is long, has an effect, reads or has regions."""
    ops = [o for o in side.ops if o.name not in ("const", "yield")]
    return len(ops) if all(map(_short, ops)) else 1 << 30


def _short(op: Op) -> bool:
    costly = op.row.has(Trait.EXPANDED) or op.row.has(Trait.COLLECTIVE)
    return op.row.has(Trait.PURE) and not costly


def _where(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    if isinstance(x.type, Vector):
        condition = b.emit("splat", condition, attrs=(x.type.count,))
    if isinstance(x.type, Tile):
        condition = b.emit("tile_full", condition, attrs=(x.type.shape,))
    return x if x is y else b.emit("where", condition, x, y)
