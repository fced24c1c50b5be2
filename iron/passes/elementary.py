"""Replaces elementary functions by their bodies, so that no later pass or backend meets one."""

from __future__ import annotations

from iron.elementary import RULES, STRAIGHT
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.rebuild import Rule, Sweep, replace_blocks
from iron.ir.types import Tile

COMBINING = ("reduce", "scan")


def elementary(kernel: Kernel, keep: frozenset[str] = frozenset()) -> Kernel:
    """`kernel` without elementary functions, except those in `keep`.

    A target that has its own approximations keeps `fast_exp2`, `fast_rcp` and `fast_rsqrt`.
    Bodies stay free of branches in the host block, in combining functions and on tiles.
    """
    combining = {
        inner
        for op in kernel.body.walk()
        if op.name in COMBINING
        for region in op.regions
        for inner in region.walk()
    }
    rules = {n: _placed(n, combining) for n in RULES if n not in keep}
    host = Sweep({n: STRAIGHT[n] for n in rules}).block(kernel.host)
    return replace_blocks(kernel, host=host, body=_body(kernel.body, rules))


def _body(block: Block, rules: dict[str, Rule]) -> Block:
    return Sweep(rules).block(block)


def _placed(name: str, combining: set[Op]) -> Rule:
    def expand(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        straight = op in combining or isinstance(op.results[0].type, Tile)
        return (STRAIGHT if straight else RULES)[name](b, op, args)

    return expand
