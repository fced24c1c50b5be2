"""Lets the products of neighbouring turns overlap: skew.

In a loop whose last product depends on its first one, and whose first depends on nothing that is
carried (attention: scores, then their sum over values), the last runs one turn later: each turn
begins with the first product of its own and the last product of the turn before, and what lies
between them is computed while that one still runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iron.ir.build import Builder
from iron.ir.core import Kernel, Op, Value, carried, stop_flag
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.types import Tile


def skew(kernel: Kernel) -> Kernel:
    """`kernel` with its loops skewed where they can be; copies of reads and products keep sites."""
    if not any(op.name == "for" and _split(op) for op in kernel.body.walk()):
        return kernel
    return replace_blocks(kernel, body=_Skew().sweep.block(kernel.body))


def waits(loop: Op) -> tuple[Value, ...] | None:
    """What waits a turn where `loop` is skewed; None where it cannot be."""
    split = _split(loop)
    return None if split is None else split.cut


@dataclass(frozen=True, slots=True)
class Split:
    """How a loop's body comes apart.

    `early` is the first product with what it needs, `late` the last one with what only it needs,
    `both` the scalars that `late` needs as well, `cut` the values that go from the rest of a turn
    to its `late`, and `sums` the carried numbers that are the last product's result.
    """

    early: tuple[Op, ...]
    rest: tuple[Op, ...]
    late: tuple[Op, ...]
    both: frozenset[Op]
    last: Value
    cut: tuple[Value, ...]
    sums: tuple[int, ...]


def _split(loop: Op) -> Split | None:
    (body,) = loop.regions
    products = [op for op in body.ops if op.name == "mma"]
    if len(products) < 2 or stop_flag(loop) is not None or any(op.regions for op in body.ops):
        return None
    first, last = products[0], products[-1]
    inside = set(body.ops)
    params = set(body.params[1:])
    before = _needed([first.results[0]], inside)
    if any(a in params for op in before for a in op.args):
        return None
    if first not in _needed([last.results[0]], inside):
        return None
    (total,) = last.results
    sums = tuple(i for i, v in enumerate(carried(loop)) if v is total)
    if not sums or any(total in op.args for op in body.ops if op.name != "yield"):
        return None
    late, both = {last}, set[Op]()
    for factor in last.args[:2]:
        found = _needed([factor], inside)
        if not any(op.name == "mma" for op in found):
            tiles = {op for op in found if isinstance(op.results[0].type, Tile)}
            late |= tiles
            both |= found - tiles
    if any(_used(op, inside - late - {body.ops[-1]}) for op in late - {last}):
        return None
    cut = tuple(a for a in last.args if (a.op in inside and a.op not in late) or a in params)
    ops = [op for op in body.ops if op.name != "yield" and op not in late]
    return Split(
        tuple(op for op in ops if op in before),
        tuple(op for op in ops if op not in before),
        tuple(op for op in body.ops if op in late or op in both),
        frozenset(both),
        total,
        cut,
        sums,
    )


def _needed(values: Iterable[Value], inside: set[Op]) -> set[Op]:
    """The ops of a body that `values` are made from."""
    found: set[Op] = set()
    waiting = list(values)
    while waiting:
        op = waiting.pop().op
        if op is not None and op in inside and op not in found:
            found.add(op)
            waiting += op.args
    return found


def _used(op: Op, others: set[Op]) -> bool:
    return any(r in other.args for r in op.results for other in others)


class _Skew:
    """The sweep."""

    def __init__(self) -> None:
        self.sweep = Sweep({"for": self.loop})

    def loop(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """A turn without a late product, turns with one of the turn before, a late product; or
        what a loop without turns leaves."""
        split = _split(op)
        if split is None:
            return None
        low, high, step, *init = args
        with b.block() as some:
            b.emit_all("yield", self._turns(b, op, split, low, high, step, init))
        with b.block() as none:
            b.emit_all("yield", init)
        b.loc = op.loc
        return b.emit_all("if", (b.emit("lt", low, high),), (), (some, none))

    def _turns(
        self,
        b: Builder,
        op: Op,
        split: Split,
        low: Value,
        high: Value,
        step: Value,
        init: Sequence[Value],
    ) -> list[Value]:
        values, (old,) = self.sweep.values, op.regions
        values.update(zip(old.params, (low, *init), strict=True))
        self.sweep.ops(split.early)
        self.sweep.ops(split.rest)
        kept = [i for i in range(len(init)) if i not in split.sums]
        start = [values[carried(op)[i]] for i in kept] + [values[c] for c in split.cut]
        names = [old.params[1 + i].name for i in kept] + [c.name for c in split.cut]
        counter = Value(low.type, None, old.params[0].name)
        params = [Value(v.type, None, n) for v, n in zip(start, names, strict=True)]
        with b.block((counter, *params)) as block:
            self._turn(b, op, split, counter, step, params)
        b.loc = op.loc
        second = b.emit("add", low, step)
        made = b.emit_all("for", (second, high, step, *start), op.attrs, (block,), op.surface)
        left = b.emit("sub", b.emit("sub", high, second), b.const(1, low.type))
        gone = b.emit("mul", b.emit("floordiv", left, step), step)
        final = b.emit("add", second, gone)  # the last turn's number; `low` where there is one
        total = self._late(split, old.params[0], final, made[len(kept) :])
        out = dict(zip(kept, made, strict=False)) | dict.fromkeys(split.sums, total)
        return [out[i] for i in range(len(init))]

    def _turn(
        self,
        b: Builder,
        op: Op,
        split: Split,
        counter: Value,
        step: Value,
        params: Sequence[Value],
    ) -> None:
        values, (old,) = self.sweep.values, op.regions
        kept = [i for i in range(len(op.results)) if i not in split.sums]
        values[old.params[0]] = counter
        values.update((old.params[1 + i], p) for i, p in zip(kept, params, strict=False))
        self.sweep.ops(split.early)
        before = b.emit("sub", counter, step)
        total = self._late(split, old.params[0], before, params[len(kept) :])
        values.update((old.params[1 + i], total) for i in split.sums)
        self.sweep.ops(split.rest)
        left = [values[carried(op)[i]] for i in kept] + [values[c] for c in split.cut]
        b.emit_all("yield", left)

    def _late(self, split: Split, counter: Value, number: Value, cut: Sequence[Value]) -> Value:
        """The last product of the turn `number`; what the current turn knows stays known."""
        values = self.sweep.values
        touched = [counter, *split.cut, *(r for op in split.late for r in op.results)]
        saved = {v: values[v] for v in touched if v in values}
        values[counter] = number
        values.update(zip(split.cut, cut, strict=True))
        self.sweep.ops(split.late)
        total = values[split.last]
        values.update(saved)
        return total
