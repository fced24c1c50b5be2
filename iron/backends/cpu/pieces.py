"""Emits a plan: pieces as loops over simdgroups, the rest once for the group."""

from __future__ import annotations

import itertools

from iron.analysis.uniform import GROUP
from iron.backends.cpu import group
from iron.backends.cpu.simt import (
    Alone,
    Branch,
    Copy,
    Give,
    Join,
    Loop,
    Node,
    Pairs,
    Piece,
    Plan,
    Take,
)
from iron.backends.cpu.state import Emitter, Fixed
from iron.backends.cpu.types import scalar
from iron.ir.core import Op, Value, stop_flag
from iron.ir.types import element

WRITTEN_OUT = 8
"""Simdgroups up to which a small piece is written out: LLVM then keeps its slots in registers."""

SMALL = 200
"""Ops, over all simdgroups, up to which a piece counts as small."""


def emit(e: Emitter, plan: Plan, nodes: list[Node] | None = None) -> None:
    """Emits `nodes` of the plan, all of them by default."""
    for node in plan.nodes if nodes is None else nodes:
        if isinstance(node, Piece):
            _piece(e, plan, node)
        elif isinstance(node, Alone):
            _alone(e, node.op)
        elif isinstance(node, Join):
            with e.fresh_scope():
                group.join(e, node.op)
                if node.total:
                    totals = group.take(e, node.op)
                    for result, names in zip(node.op.results, totals, strict=True):
                        e.places[result] = Fixed(names)
        elif isinstance(node, Copy):
            _copy(e, node.pairs)
        elif isinstance(node, Loop):
            _loop(e, plan, node)
        else:
            _branch(e, plan, node)


def _alone(e: Emitter, op: Op) -> None:
    with e.fresh_scope():
        e.op(op)
        for result in op.results:
            e.places[result] = Fixed(e.scope.names[result])


def _piece(e: Emitter, plan: Plan, piece: Piece) -> None:
    many = e.uniform.simdgroups
    if many == 1 or (many <= WRITTEN_OUT and many * _size(piece) <= SMALL):
        for number in range(many):
            e.simdgroup = str(number)
            _steps(e, plan, piece)
    else:
        _piece_loop(e, plan, piece)
    e.simdgroup = "0"


def _size(piece: Piece) -> int:
    """Ops of a piece with their regions."""
    ops = [step if isinstance(step, Op) else step.op for step in piece.steps]
    return sum(1 + sum(1 for region in op.regions for _ in region.walk()) for op in ops)


def _piece_loop(e: Emitter, plan: Plan, piece: Piece) -> None:
    cell = e.w.cell("i64")
    head, end = e.w.fresh("piece"), e.w.fresh("piece_end")
    e.w.do(f"store i64 0, ptr {cell}")
    e.w.jump(head)
    e.w.label(head)
    e.simdgroup = e.w.let(f"load i64, ptr {cell}")
    _steps(e, plan, piece)
    following = e.w.let(f"add nuw i64 {e.simdgroup}, 1")
    e.w.do(f"store i64 {following}, ptr {cell}")
    e.w.branch(e.w.let(f"icmp ult i64 {following}, {e.uniform.simdgroups}"), head, end)
    e.w.label(end)


def _steps(e: Emitter, plan: Plan, piece: Piece) -> None:
    with e.fresh_scope():
        for number, step in enumerate(piece.steps):
            if isinstance(step, Give):
                group.give(e, step.op)
                continue
            if isinstance(step, Take):
                op = step.op
                for result, names in zip(op.results, group.take(e, op), strict=True):
                    e.bind(result, names)
            else:
                op = step
                e.step(op, _plain(piece.steps[number + 1 :]))
            for result in op.results:
                if result in plan.slots:
                    e.put(result, e.names(result))
        moved = [(t, e.names(s, e.width(t))) for t, s in piece.moves]
        for target, names in moved:
            e.put(target, names)


def _plain(steps: list[Op | Give | Take]) -> list[Op]:
    """The ops before the next part of a wide collective."""
    return [s for s in itertools.takewhile(lambda s: isinstance(s, Op), steps) if isinstance(s, Op)]


def _copy(e: Emitter, pairs: Pairs) -> None:
    with e.fresh_scope():
        moved = [(t, e.names(s)) for t, s in pairs]
        for target, names in moved:
            e.put(target, names)


def _branch(e: Emitter, plan: Plan, node: Branch) -> None:
    with e.fresh_scope():
        (condition,) = e.names(node.op.args[0])
    yes, no, end = (e.w.fresh(p) for p in ("group_then", "group_else", "group_end"))
    e.w.branch(condition, yes, no)
    for label, side in zip((yes, no), node.sides, strict=True):
        e.w.label(label)
        emit(e, plan, side)
        e.w.jump(end)
    e.w.label(end)


def _loop(e: Emitter, plan: Plan, node: Loop) -> None:
    counter, *params = node.op.regions[0].params
    with e.fresh_scope():
        low, high, step = (_wide(e, v) for v in node.op.args[:3])
    cell = e.w.cell("i64")
    e.w.do(f"store i64 {low}, ptr {cell}")
    head, turn, end = (e.w.fresh(p) for p in ("group_head", "group_turn", "group_end"))
    e.w.jump(head)
    e.w.label(head)
    at = e.w.let(f"load i64, ptr {cell}")
    e.w.branch(e.w.let(f"icmp slt i64 {at}, {high}"), turn, end)
    e.w.label(turn)
    dtype = element(counter.type)
    name = at if dtype.bits == 64 else e.w.let(f"trunc i64 {at} to {scalar(dtype)}")
    e.places[counter] = Fixed((name,))
    with e.turn(node.op):
        emit(e, plan, node.body)
    stop = stop_flag(node.op)
    with e.fresh_scope():
        flag = e.names(stop)[0] if stop is not None else ""
        _copy(e, node.latch)
    following = e.w.let(f"add nsw i64 {at}, {step}")
    e.w.do(f"store i64 {following}, ptr {cell}")
    if flag:
        e.w.branch(flag, end, head)
    else:
        e.w.jump(head)
    e.w.label(end)
    for result, param in zip(node.op.results, params, strict=True):
        e.places[result] = e.slot(param)


def _wide(e: Emitter, value: Value) -> str:
    dtype = element(value.type)
    assert e.uniform.of(value) == GROUP
    (name,) = e.names(value)
    if dtype.bits == 64 or not name.startswith("%"):
        return name
    return e.w.let(f"{'sext' if dtype.kind == 'i' else 'zext'} {scalar(dtype)} {name} to i64")
