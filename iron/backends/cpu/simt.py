"""Splits a kernel at its barriers: what each simdgroup runs between cuts, and what runs once.

A cut is a barrier or a collective wider than a simdgroup. Between cuts lies a piece, run by one
simdgroup after another. A loop or branch that contains a cut stays outside the pieces, run by the
group; its control is group-uniform (`analysis/uniform`). Ops whose values are group-uniform run
once, before the piece they stand in, unless that piece defines what they need or writes what they
load. This module writes no code; `pieces` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from iron.analysis.uniform import GROUP, Uniformity
from iron.backends.cpu.group import is_wide
from iron.ir.core import Kernel, Op, Value, carried, is_const, stop_flag
from iron.ir.table import Trait
from iron.ir.types import Tensor, Vector, count, element

DEPTH = 8
"""Levels of index arithmetic that are computed again instead of being kept."""

Pairs = list[tuple[Value, Value]]
"""Targets and sources of copies that happen at once."""


@dataclass(frozen=True, slots=True)
class Give:
    """A simdgroup stores its part of a wide collective."""

    op: Op


@dataclass(frozen=True, slots=True)
class Take:
    """A simdgroup loads its result of a wide collective."""

    op: Op


@dataclass(slots=True, eq=False)
class Piece:
    """Steps that every simdgroup runs, then copies into slots."""

    steps: list[Op | Give | Take] = field(default_factory=list["Op | Give | Take"])
    moves: Pairs = field(default_factory=list["tuple[Value, Value]"])


@dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """An op that runs once for the group."""

    op: Op


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """The totals of a wide collective are combined; `total` when its results are then known."""

    op: Op
    total: bool


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """Copies of group-uniform values, all at once."""

    pairs: Pairs


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A loop around cuts; `latch` holds the copies of group-uniform values after each turn."""

    op: Op
    body: list[Node]
    latch: Pairs


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A branch around cuts; each side ends with its copies into the results."""

    op: Op
    sides: list[list[Node]]


Node = Piece | Alone | Join | Copy | Loop | Branch


@dataclass(frozen=True, slots=True)
class Plan:
    """A kernel after the split.

    `slots` are the values that live on from one piece to another, `rematerialised` those that are
    computed again where they are needed.
    """

    nodes: list[Node]
    slots: frozenset[Value]
    rematerialised: frozenset[Value]


def split(kernel: Kernel, uniform: Uniformity) -> Plan:
    """The plan of `kernel`."""
    cutter = _Cutter(uniform)
    nodes, last = cutter.sequence(kernel.body.ops, [])
    assert not last
    keeper = _Keeper(uniform, nodes)
    return Plan(nodes, frozenset(keeper.slots), frozenset(keeper.again))


def has_cut(u: Uniformity, op: Op) -> bool:
    """True for a cut and for an op with a cut in one of its regions."""
    if u.simdgroups == 1:
        return False
    if op.name == "barrier" or is_wide(u, op):
        return True
    return any(has_cut(u, o) for region in op.regions for o in region.ops)


class _Cutter:
    """Cuts sequences of ops into nodes."""

    def __init__(self, uniform: Uniformity) -> None:
        self.u = uniform

    def sequence(self, ops: Sequence[Op], closing: Pairs) -> tuple[list[Node], Pairs]:
        """Nodes for `ops` with the copies `closing` at their end, those of group level apart."""
        line = _Line(self.u)
        for op in ops:
            if op.name in ("yield", "const"):
                continue
            if has_cut(self.u, op):
                self._cut(op, line)
            elif self.u.simdgroups > 1 and _runs_once(self.u, op):
                line.alone(op)
            else:
                line.step(op, op.results)
        line.piece.moves += [(t, s) for t, s in closing if self.u.of(t) != GROUP]
        line.flush()
        return line.nodes, [(t, s) for t, s in closing if self.u.of(t) == GROUP]

    def _cut(self, op: Op, line: _Line) -> None:
        if op.name == "barrier":
            line.flush()
        elif op.name == "if":
            self._branch(op, line)
        elif op.name == "for":
            self._loop(op, line)
        else:
            line.step(Give(op), ())
            line.flush()
            total = op.name == "reduce" and self.u.of(op.results[0]) == GROUP
            if op.name != "exchange":
                line.nodes.append(Join(op, total))
            if not total:
                line.step(Take(op), op.results)

    def _branch(self, op: Op, line: _Line) -> None:
        line.flush()
        sides: list[list[Node]] = []
        for side in op.regions:
            pairs = list(zip(op.results, side.yielded, strict=True))
            nodes, rest = self.sequence(side.ops, pairs)
            sides.append([*nodes, Copy(rest)])
        line.nodes.append(Branch(op, sides))

    def _loop(self, op: Op, line: _Line) -> None:
        params = op.regions[0].params[1:]
        entry = list(zip(params, op.args[3:], strict=True))
        line.piece.moves += [(t, s) for t, s in entry if self.u.of(t) != GROUP]
        line.flush()
        line.nodes.append(Copy([(t, s) for t, s in entry if self.u.of(t) == GROUP]))
        latch = list(zip(params, carried(op), strict=True))
        body, rest = self.sequence(op.regions[0].ops, latch)
        line.nodes.append(Loop(op, body, rest))


class _Line:
    """Nodes so far and the piece that is still open."""

    def __init__(self, uniform: Uniformity) -> None:
        self.u = uniform
        self.nodes: list[Node] = []
        self.piece = Piece()
        self.defined: set[Value] = set()

    def flush(self) -> None:
        if self.piece.steps or self.piece.moves:
            self.nodes.append(self.piece)
        self.piece = Piece()
        self.defined = set()

    def step(self, step: Op | Give | Take, results: Iterable[Value]) -> None:
        self.piece.steps.append(step)
        self.defined.update(results)

    def alone(self, op: Op) -> None:
        """Puts `op` before the open piece, closing it first where the order would matter."""
        needs = any(v in self.defined for v in _uses(op))
        reads = _touched([op], Trait.READS)
        writes = _touched((s for s in self.piece.steps if isinstance(s, Op)), Trait.WRITES)
        if needs or reads & writes:
            self.flush()
        self.nodes.append(Alone(op))


def _runs_once(u: Uniformity, op: Op) -> bool:
    """True for a group-uniform op without effects, all of whose regions are such ops."""
    if op.row.has(Trait.WRITES) or any(u.of(v) != GROUP for v in op.results):
        return False
    if op.name in ("for", "if", "reduce") and any(u.of(a) != GROUP for a in op.args):
        return False
    if op.name == "reduce":
        return True
    return all(_runs_once(u, o) for region in op.regions for o in region.ops if o.name != "yield")


def _touched(ops: Iterable[Op], trait: int) -> set[Value]:
    """The tensors that `ops` and their regions read or write."""
    found: set[Value] = set()
    for op in ops:
        if op.row.has(trait) and op.args:
            found.add(op.args[0])
        for region in op.regions:
            found |= _touched(region.ops, trait)
    return found


def _uses(op: Op) -> Iterator[Value]:
    """Operands of the op and of everything in its regions."""
    yield from op.args
    for region in op.regions:
        for inner in region.ops:
            yield from _uses(inner)


class _Keeper:
    """Finds which values need a slot and which are computed again."""

    def __init__(self, uniform: Uniformity, nodes: list[Node]) -> None:
        self.u = uniform
        self.slots: set[Value] = set()
        self.again: set[Value] = set()
        self._home: dict[Value, Piece] = {}
        self._settle(nodes)
        self._visit(nodes)

    def _settle(self, nodes: list[Node]) -> None:
        """Records where each value is defined, and the values that live in slots by nature."""
        for node in nodes:
            if isinstance(node, Piece):
                for step in node.steps:
                    if not isinstance(step, Give):
                        op = step.op if isinstance(step, Take) else step
                        self._home.update((r, node) for r in op.results)
            elif isinstance(node, Loop):
                self.slots.update(node.op.regions[0].params[1:])
                self._settle(node.body)
            elif isinstance(node, Branch):
                self.slots.update(node.op.results)
                for side in node.sides:
                    self._settle(side)

    def _visit(self, nodes: list[Node]) -> None:
        for node in nodes:
            for value in _demands(node):
                self._demand(value, node if isinstance(node, Piece) else None)
            if isinstance(node, Loop):
                self._visit(node.body)
            elif isinstance(node, Branch):
                for side in node.sides:
                    self._visit(side)

    def _demand(self, value: Value, piece: Piece | None) -> None:
        home = self._home.get(value)
        if home is None or home is piece:
            return
        if self._is_cheap(value, DEPTH):
            self.again.add(value)
            assert value.op is not None
            for operand in value.op.args:
                self._demand(operand, piece)
        else:
            self.slots.add(value)

    def _is_cheap(self, value: Value, depth: int) -> bool:
        """Thread numbers and integer arithmetic on them and on group-uniform values."""
        op = value.op
        if op is None or isinstance(value.type, Tensor | Vector) or not depth:
            return False
        if op.name == "thread":
            return True
        integers = [value, *op.args]
        if not op.row.has(Trait.ELEMENTWISE) or any(count(v.type) for v in integers):
            return False
        if any(element(v.type).is_float for v in integers):
            return False
        return all(
            is_const(a) or self.u.of(a) == GROUP or self._is_cheap(a, depth - 1) for a in op.args
        )


def _demands(node: Node) -> Iterator[Value]:
    """The values a node uses, its body's own nodes apart."""
    if isinstance(node, Piece):
        for step in node.steps:
            yield from _uses(step if isinstance(step, Op) else step.op)
        yield from (source for _, source in node.moves)
    elif isinstance(node, Alone | Join):
        yield from _uses(node.op)
    elif isinstance(node, Copy):
        yield from (source for _, source in node.pairs)
    elif isinstance(node, Branch):
        yield node.op.args[0]
    else:
        yield from node.op.args
        yield from (source for _, source in node.latch)
        stop = stop_flag(node.op)
        if stop is not None:
            yield stop
