"""Loads whose values wait for a later turn of a loop: what is asked for before it is needed.

An assembler that counts registers moves a load down to the first use of its value, into the turn
that was to find it there, and up past what was to come before it. A target that can hold loads in
their place does so around these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from iron.analysis.uniform import SIMD, Uniformity, uniformity
from iron.ir.core import Block, Kernel, Op, Value, carried, is_const
from iron.ir.types import Tensor

HANDED_ON = frozenset({"extract", "bitcast", "cast", "where", "or", "shl"})
"""What may stand between a load and the loop that carries it: changes of form, words of bytes."""


@dataclass(frozen=True, slots=True)
class Early:
    """Of each run of loads that a loop carries into a later turn: the `last`, before the loop and
    in it, and before the loop the `first`."""

    first: set[Op] = field(default_factory=set[Op])
    last: set[Op] = field(default_factory=set[Op])


def early(kernel: Kernel) -> Early:
    """The ends of runs where a whole simdgroup arrives: the loop's bounds and all conditions around
    it are the same in its threads."""
    found = Early()
    if any(op.name == "for" for op in kernel.body.ops):
        _block(kernel.body, uniformity(kernel), found)
    return found


def _block(block: Block, known: Uniformity, found: Early) -> None:
    for op in block.ops:
        if op.name in ("for", "if") and known.join(op.args[: 3 if op.name == "for" else 1]) <= SIMD:
            if op.name == "for" and not op.attr("stop"):
                before, inside = _run(block, _begun(op)), _run(op.regions[0], carried(op))
                found.first.update(before[:1])
                found.last.update(before[-1:], inside[-1:])
            for region in op.regions:
                _block(region, known, found)


def _begun(loop: Op) -> Iterable[Value]:
    """What the values begin with that are loaded in the loop or move up to those."""
    body = loop.regions[0]
    pairs = list(zip(body.params[1:], carried(loop), loop.args[3:], strict=True))
    waiting = {p for p, value, _ in pairs if any(True for _ in _loads(body, [value]))}
    while more := {p for p, value, _ in pairs if value in waiting} - waiting:
        waiting |= more
    return [begin for p, _, begin in pairs if p in waiting]


def _run(block: Block, values: Iterable[Value]) -> list[Op]:
    loads = set(_loads(block, values))
    return [op for op in block.ops if op in loads]


def _loads(block: Block, values: Iterable[Value]) -> Iterable[Op]:
    """The loads of the block from global memory whose values these are."""
    mine, waiting = set(block.ops), list(values)
    while waiting:
        op = waiting.pop().op
        if op is None or op not in mine:
            continue
        if op.name in HANDED_ON:
            waiting += [a for a in op.args if not is_const(a)]
        elif op.name == "load" and _outside(op.args[0]):
            yield op


def _outside(buffer: Value) -> bool:
    return isinstance(buffer.type, Tensor) and buffer.type.space not in (
        "shared",
        "registers",
        "table",
    )
