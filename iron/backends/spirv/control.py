"""Branches and counted loops as structured SPIR-V: each construct has its merge block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv import guarded, steps
from iron.backends.spirv.words import Code
from iron.ir.core import Block, Op, carried, const_of, stop_flag
from iron.ir.types import element

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder, Rule

Turn = Callable[[int, Sequence[int]], tuple[Sequence[int], int]]


def if_(e: Encoder, op: Op) -> None:
    """A branch; what its sides yield meets in the merge block."""
    if guarded.only_guards(e, op):
        guarded.write(e, op)
        return
    m = e.m
    condition = e.id(op.args[0])
    then, other, merge = m.fresh(), m.fresh(), m.fresh()
    plain = len(op.regions[1].ops) <= 1 and not op.results
    m.do(Code.SelectionMerge, merge, 0)
    m.do(Code.BranchConditional, condition, then, merge if plain else other)
    sides = [_side(e, then, op.regions[0], merge)]
    if not plain:
        sides.append(_side(e, other, op.regions[1], merge))
    e.label(merge)
    for number, result in enumerate(op.results):
        incoming = [word for ids, end in sides for word in (ids[number], end)]
        e.ids[result] = m.put(Code.Phi, e.held(element(result.type)), *incoming)


def _side(e: Encoder, label: int, region: Block, merge: int) -> tuple[list[int], int]:
    """What one side yields, and the block it ends in."""
    e.label(label)
    with e.nested():
        e.block(region)
    ids = [e.id(v) for v in region.yielded]
    end = e.here
    e.m.do(Code.Branch, merge)
    return ids, end


def for_(e: Encoder, op: Op) -> None:
    """A counted loop; what it carries are phis of its header."""
    body = op.regions[0]
    counter, *params = body.params
    flag = stop_flag(op)
    low, high, step = (e.id(a) for a in op.args[:3])

    def turn(i: int, values: Sequence[int]) -> tuple[Sequence[int], int]:
        e.ids[counter] = i
        e.ids.update(zip(params, values, strict=True))
        for value in body.params:
            if value.name:
                e.m.name(e.ids[value], value.name)
        e.block(body)
        stop = e.id(flag) if flag is not None else 0
        return [e.id(v) for v in carried(op)], stop

    signed = element(counter.type).kind == "i"
    bounds, inits = (low, high, step), [e.id(a) for a in op.args[3:]]
    if steps.hides_latency(op):
        made = side_by_side(e, bounds, int(const_of(op.args[2])), signed, inits, turn)
    else:
        made = loop(e, bounds, signed, inits, turn)
    e.ids.update(zip(op.results, made, strict=True))


def loop(
    e: Encoder, bounds: tuple[int, int, int], signed: bool, inits: Sequence[int], turn: Turn
) -> list[int]:
    """`for i in low, low + step, .. < high`: the carried values after the last turn.

    `turn` writes the body from the counter and the carried values; it returns the next ones and
    the bool that ends the loop after this turn, or 0.
    """
    low, high, step = bounds
    less = Code.SLessThan if signed else Code.ULessThan
    return _while(e, (low, step), lambda i: e.m.test(less, i, high), inits, turn)[1]


def side_by_side(
    e: Encoder,
    bounds: tuple[int, int, int],
    apart: int,
    signed: bool,
    inits: Sequence[int],
    turn: Turn,
) -> list[int]:
    """As `loop`, `steps.TURNS` turns at a time while there are as many; `apart` is the step."""
    m, (low, high, step) = e.m, bounds
    less, last = Code.SLessThan if signed else Code.ULessThan, (steps.TURNS - 1) * apart

    def several_left(i: int) -> int:
        left = m.op(Code.ISub, high, i)  # right as an unsigned number where i < high
        several = m.test(Code.ULessThan, m.number(last), left)
        return m.test(Code.LogicalAnd, m.test(less, i, high), several)

    def several(i: int, values: Sequence[int]) -> tuple[Sequence[int], int]:
        for number in range(steps.TURNS):
            at = m.op(Code.IAdd, i, m.number(number * apart)) if number else i
            values, _ = turn(at, values)
        return values, 0

    stride = m.number(steps.TURNS * apart)
    reached, values = _while(e, (low, stride), several_left, inits, several)
    return loop(e, (reached, high, step), signed, values, turn)


def _while(
    e: Encoder,
    counted: tuple[int, int],
    goes_on: Callable[[int], int],
    inits: Sequence[int],
    turn: Turn,
) -> tuple[int, list[int]]:
    """The counter, from a start in steps, and the carried values where it does not go on."""
    m, (low, step) = e.m, counted
    header, test, body, tail, merge = (m.fresh() for _ in range(5))
    before = e.here
    m.do(Code.Branch, header)
    e.label(header)
    slots = [_open_phi(e, init, before, tail) for init in (low, *inits)]
    i, *values = (made for made, _ in slots)
    m.do(Code.LoopMerge, merge, tail, 0)
    m.do(Code.Branch, test)
    e.label(test)
    m.do(Code.BranchConditional, goes_on(i), body, merge)
    e.label(body)
    with e.nested():
        nexts, stop = turn(i, values)
    end = e.here
    if stop:
        m.do(Code.BranchConditional, stop, merge, tail)
    else:
        m.do(Code.Branch, tail)
    e.label(tail)
    advanced = m.op(Code.IAdd, i, step)
    m.do(Code.Branch, header)
    for (_, slot), made in zip(slots, (advanced, *nexts), strict=True):
        slot(made)
    e.label(merge)
    if not stop:
        return i, values
    pairs = zip(values, nexts, strict=True)
    return i, [m.put(Code.Phi, m.types[v], v, test, n, end) for v, n in pairs]


def _open_phi(e: Encoder, init: int, before: int, tail: int) -> tuple[int, Callable[[int], None]]:
    """A phi of a loop header, and the function that says what the next turn brings."""
    m = e.m
    made = m.put(Code.Phi, m.types[init], init, before, 0, tail)
    code, at = m.code, len(m.code) - 2

    def close(value: int) -> None:
        code[at] = value

    return made, close


RULES: dict[str, Rule] = {"if": if_, "for": for_}
