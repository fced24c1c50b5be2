"""The one rewrite engine: a sweep that emits a kernel anew, with rules for chosen ops.

Copy propagation, folding and value numbering happen in the builder, so any rule list gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value, const_of, is_const

Rule = Callable[[Builder, Op, tuple[Value, ...]], "tuple[Value, ...] | None"]
"""Given the builder, the old op and its new operands: the new results, or None to keep the op."""


def rebuild(
    kernel: Kernel, rules: Mapping[str, Rule] | None = None, *, fold: bool = True
) -> Kernel:
    """`kernel` emitted anew; `rules` maps op names to rewrites."""
    sweep = Sweep(rules or {}, fold=fold)
    host, body = sweep.block(kernel.host), sweep.block(kernel.body)
    return replace_blocks(kernel, host=host, body=body)


def replace_blocks(
    kernel: Kernel, *, host: Block | None = None, body: Block | None = None
) -> Kernel:
    """`kernel` with other blocks."""
    return replace(kernel, host=host or kernel.host, body=body or kernel.body)


class Sweep:
    """Emits blocks anew through one builder and one map from old to new values."""

    def __init__(self, rules: Mapping[str, Rule], *, fold: bool = True) -> None:
        self.builder = Builder(fold=fold)
        self.rules = rules
        self.values: dict[Value, Value] = {}

    def block(self, old: Block, params: Sequence[Value] | None = None) -> Block:
        """A new block with the ops of `old`; `params` replace its parameters when given."""
        fresh = params if params is not None else [Value(p.type, None, p.name) for p in old.params]
        self.values.update(zip(old.params, fresh, strict=True))
        with self.builder.block(fresh) as new:
            self.ops(old.ops)
        return new

    def ops(self, ops: Sequence[Op]) -> None:
        """Emits `ops` into the open block."""
        for op in ops:
            for old, new in zip(op.results, self._op(op), strict=True):
                self.values[old] = new
                if old.name and not new.name:
                    new.name = old.name

    def _op(self, op: Op) -> tuple[Value, ...]:
        b = self.builder
        b.loc, b.exact = op.loc, op.exact
        args = tuple(self.values[a] for a in op.args)
        rule = self.rules.get(op.name)
        if rule is not None and (found := rule(b, op, args)) is not None:
            return found
        if op.name == "if" and b.folding and is_const(args[0]):
            side = op.regions[0 if const_of(args[0]) else 1]
            self.ops(side.ops[:-1])
            return tuple(self.values[v] for v in side.yielded)
        regions = tuple(self.block(r) for r in op.regions)
        b.loc, b.exact = op.loc, op.exact
        return b.emit_all(op.name, args, op.attrs, regions, op.surface)
