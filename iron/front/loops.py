"""`for`: a region at run time, repeated reading at compile time; and `break` out of either.

`if c: ...; break` is read as a branch: what follows it in the body goes to the other side, and a
stop flag says whether the loop ends after this turn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from iron.dtypes import bool_, f32, i32, i64, u32
from iron.front.joins import branch, carryable, has_second_name, lists_of, unchanged
from iron.front.scope import Broken, Mask, Range, View, Weak, leaves, replaced, same_shape
from iron.front.source import assigned
from iron.front.state import Trace
from iron.front.statements import assign
from iron.front.values import (
    as_value,
    const_int,
    described,
    dtype_of,
    is_number,
    misfit,
    truth,
)
from iron.front.views import load, vector_length
from iron.ir.core import Block, Value, const_of, is_const
from iron.ir.types import Type, Vector, element

STOP = " stop"  # names that no source can spell
HELD = " held"
WALKERS = ("enumerate", "zip", "reversed")


def read_for(trace: Trace, node: ast.For) -> None:
    """`for target in iterable: body`."""
    over = trace.evaluate(node.iter)
    trace.at = node
    if isinstance(over, Range):
        _run_time(trace, node, over)
    else:
        kept = trace.names.get(HELD, ())
        assert isinstance(kept, tuple)
        trace.names[HELD] = (*kept, *_walked(trace, node.iter, over))
        _compile_time(trace, node, iterated(trace, over))
        trace.names[HELD] = kept


def _walked(trace: Trace, node: ast.expr, over: object = None) -> list[list[object]]:
    """The lists that a loop walks; Python would see a change of one during the loop."""
    if isinstance(node, ast.Call):
        direct = isinstance(node.func, ast.Name) and node.func.id in WALKERS
        return [x for a in node.args for x in _walked(trace, a)] if direct else []
    if isinstance(node, ast.Name | ast.Subscript):
        held = trace.evaluate(node) if over is None else over
        return [held] if isinstance(held, list) else []
    return []


def iterated(trace: Trace, over: object) -> list[object]:
    """The objects of a compile-time iterable; a vector gives its elements."""
    if isinstance(over, Range):
        if any(isinstance(p, Value | Weak) for p in over.parts):
            raise trace.fail(
                "E0204",
                "the count of this iteration is known at run time only",
                help="`unrolled(n)` counts at compile time",
            )
        low, high, step = (const_int(trace, p, "a bound of `range`") for p in over.parts)
        return list(range(low, high, step))
    if isinstance(over, View) and vector_length(trace, over):
        over = load(trace, over)
    if isinstance(over, Value) and isinstance(over.type, Vector):
        return [trace.emit("extract", over, attrs=(i,)) for i in range(over.type.count)]
    if isinstance(over, Value | Weak | Mask | str):
        raise trace.fail("E0204", f"{described(over)} cannot be iterated over")
    try:
        return list(over)  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
    except TypeError:
        raise trace.fail("E0204", f"{described(over)} cannot be iterated over") from None


# --- compile time ---------------------------------------------------------------------------------


def _compile_time(trace: Trace, node: ast.For, items: Sequence[object]) -> None:
    for i, item in enumerate(items):
        assign(trace, node.target, item)
        stop = loop_body(trace, node.body)
        if stop is True:
            return
        if isinstance(stop, Value):
            _rest_of_turns(trace, node, stop, items[i + 1 :])
            return


def _rest_of_turns(trace: Trace, node: ast.For, stop: Value, items: Sequence[object]) -> None:
    trace.at = node
    go = trace.emit("not", stop)
    names = sorted(assigned([node]))
    branch(trace, go, lambda: _compile_time(trace, node, items), lambda: None, names)


# --- the body -------------------------------------------------------------------------------------


def loop_body(trace: Trace, body: list[ast.stmt]) -> Value | bool:
    """Reads a turn; whether the loop stops after it."""
    for i, statement in enumerate(body):
        if isinstance(statement, ast.Break):
            return True
        if isinstance(statement, ast.If) and _breaks(statement):
            trace.at = statement
            return _breaking(trace, statement, body[i + 1 :])
        trace.execute([statement])
    return False


def _breaks(statement: ast.If) -> bool:
    """True when a side, or an `elif` of it, ends with `break`."""
    sides = [statement.body, statement.orelse]
    if any(side and isinstance(side[-1], ast.Break) for side in sides):
        return True
    (*_, last) = sides
    return len(last) == 1 and isinstance(last[0], ast.If) and _breaks(last[0])


def _breaking(trace: Trace, statement: ast.If, rest: list[ast.stmt]) -> Value | bool:
    condition = trace.evaluate(statement.test)
    then = [*statement.body, *rest]
    other = [*statement.orelse, *rest]
    if statement.body and isinstance(statement.body[-1], ast.Break):
        then = statement.body
    if statement.orelse and isinstance(statement.orelse[-1], ast.Break):
        other = statement.orelse
    if not isinstance(condition, Value | Weak | View):
        return loop_body(trace, then if condition else other)

    def side(body: list[ast.stmt]) -> None:
        trace.names[STOP] = loop_body(trace, body)

    at = trace.at
    flag = truth(trace, load(trace, condition) if isinstance(condition, View) else condition)
    names = [*sorted(assigned([*then, *other])), STOP]
    branch(trace, flag, lambda: side(then), lambda: side(other), names)
    trace.at = at
    stop = trace.names.pop(STOP)
    return stop if isinstance(stop, Value) else bool(stop)


# --- run time -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Carried:
    """A name that a loop carries: its object at entry, its leaves as values."""

    name: str
    entry: object
    init: tuple[Value, ...]
    aliased: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """One reading of a loop body: the block, what it yields, and names that it cannot carry.

    `aliased` are carried names one of whose lists has a second name after the body.
    """

    block: Block
    stop: Value | None
    broken: dict[str, str]
    aliased: frozenset[str]


def _run_time(trace: Trace, node: ast.For, over: Range) -> None:
    if not isinstance(node.target, ast.Name):
        raise trace.fail("E0102", "a run-time loop has one counter", node=node.target)
    bounds = _bounds(trace, node, over)
    changed = assigned(node.body)
    names = sorted((changed & set(trace.names)) - {node.target.id})
    before, broken, aliased = trace.names, dict[str, str](), frozenset[str]()
    while True:
        carried = _entry(trace, [n for n in names if n not in broken], aliased)
        turn = _turn(trace, node, bounds, carried, broken)
        trace.frame.names = before
        if not turn.broken.keys() - broken.keys() and turn.aliased <= aliased:
            break
        broken |= turn.broken
        aliased |= turn.aliased
    trace.at = node
    _close(trace, node, bounds, carried, turn)
    for name in broken:
        trace.names[name] = Broken(broken[name])
    trace.names[node.target.id] = Broken(f"`{node.target.id}` has a value inside its loop only")
    for name in changed - set(names) - {node.target.id}:
        where = f"the loop on line {node.lineno}"
        why = f"`{name}` is first assigned in {where}, which may make no turn"
        trace.names.setdefault(name, Broken(why))


def _bounds(trace: Trace, node: ast.For, over: Range) -> tuple[Value, Value, Value]:
    parts = [load(trace, p) if isinstance(p, View) else p for p in over.parts]
    firm = [t for p in parts if (t := dtype_of(p)) is not None]
    counter = trace.index if trace.index in firm or not firm else firm[0]
    if counter not in (i32, u32, i64):
        raise trace.fail("E0201", f"a loop bound is {counter}", help="bounds are i32 or u32")
    low, high, step = (as_value(trace, p, counter) for p in parts)
    found = {v.type for v in (low, high, step)}
    if found != {counter}:
        listed = ", ".join(repr(v.type) for v in (low, high, step))
        raise trace.fail(
            "E0201",
            f"the loop's low, high and step are {listed}",
            help="all must be i32 or all u32: write `i32(x)` or `u32(x)`",
            node=node.iter,
        )
    if not is_const(step) or const_of(step) < 1:
        raise trace.fail(
            "E0106",
            "a loop's step is a compile-time integer of at least 1",
            help="count up and subtract inside the loop",
            node=node.iter,
        )
    return low, high, step


def _entry(trace: Trace, names: Sequence[str], aliased: frozenset[str]) -> list[Carried]:
    """The carried names, numbers made values: a number is i32, f32 or bool at loop entry."""
    found: list[Carried] = []
    for name in names:
        entry = trace.names[name]
        if not isinstance(entry, Broken) and carryable(entry):
            init = tuple(as_value(trace, x, entry_type(trace, x)) for x in leaves(entry))
            found.append(Carried(name, entry, init, name in aliased))
    return found


def entry_type(trace: Trace, x: object) -> Type:
    """The type with which a leaf enters a loop."""
    if isinstance(x, Value):
        return x.type
    own = dtype_of(x)
    if own is not None:
        return own
    if isinstance(x, Weak):
        return trace.index
    return bool_ if isinstance(x, bool | np.bool_) else f32 if isinstance(x, float) else i32


def _turn(
    trace: Trace,
    node: ast.For,
    bounds: tuple[Value, Value, Value],
    carried: Sequence[Carried],
    broken: dict[str, str],
) -> Turn:
    """Reads the body once with the carried names as parameters of its block."""
    before = trace.names
    names = dict(before)
    counter = Value(bounds[0].type, None, _target(node))
    params = [Value(v.type, None, c.name) for c in carried for v in c.init]
    fresh = iter(params)
    for c in carried:
        names[c.name] = replaced(c.entry, fresh, _marks(trace, c, before))
    for name, why in broken.items():
        names[name] = Broken(why)
    names[_target(node)] = counter
    trace.frame.names = names
    trace.depth += 1
    with trace.builder.block((counter, *params)) as block:
        stop = loop_body(trace, node.body)
        trace.at = node
        yields, wrong = _yields(trace, node, carried)
        aliased = frozenset(c.name for c in carried if _gained_a_name(trace, c))
        flag = trace.const(stop, bool_) if stop is True else stop or None
        if not wrong:
            trace.emit_all("yield", tuple(yields if flag is None else [flag, *yields]))
    trace.depth -= 1
    wrong |= _changed(trace, node, before, carried, broken)
    return Turn(block, flag, wrong, aliased)


def _gained_a_name(trace: Trace, c: Carried) -> bool:
    lists = lists_of(trace.names[c.name])
    return any([has_second_name(trace, x, trace.names) for x in lists])


def _target(node: ast.For) -> str:
    assert isinstance(node.target, ast.Name)
    return node.target.id


def _marks(trace: Trace, c: Carried, names: dict[str, object]) -> Iterator[bool]:
    """For each list of a carried object: whether it may have a second name."""
    return (has_second_name(trace, x, names) or c.aliased for x in lists_of(c.entry))


def _yields(
    trace: Trace, node: ast.For, carried: Sequence[Carried]
) -> tuple[list[Value], dict[str, str]]:
    """The carried values after the body, and the reasons for names that do not fit."""
    out: list[Value] = []
    wrong: dict[str, str] = {}
    for c in carried:
        now = trace.names[c.name]
        after = list(leaves(now))
        loop = f"the loop on line {node.lineno}"
        if isinstance(now, Broken):
            wrong[c.name] = now.why
        elif not same_shape(c.entry, now) or not carryable(now):
            wrong[c.name] = f"`{c.name}` changes its shape or kind in {loop}"
        else:
            for x, init in zip(after, c.init, strict=True):
                value = _carried_value(trace, x, init.type)
                if value is None:
                    was, now_ = repr(init.type), described(x)
                    wrong[c.name] = f"`{c.name}` is {was} before {loop} and {now_} after its body"
                    break
                out.append(value)
    return out, wrong


def _carried_value(trace: Trace, x: object, t: Type) -> Value | None:
    """The leaf as a value of the carried type; None when it is not one."""
    if isinstance(x, Weak) and not (element(t).is_float or element(t).bits >= 32):
        return None
    if is_number(x) and dtype_of(x) is None:
        plain = x.item() if isinstance(x, np.generic) else x
        if misfit(plain, element(t)):  # pyright: ignore[reportArgumentType]
            return None
    value = as_value(trace, x, t)
    return value if value.type is t else None


def _changed(
    trace: Trace,
    node: ast.For,
    before: dict[str, object],
    carried: Sequence[Carried],
    broken: dict[str, str],
) -> dict[str, str]:
    """Names that are not run-time values, and change in the body."""
    held = {c.name for c in carried}
    found: dict[str, str] = {}
    for name in set(before) & assigned(node.body) - held - set(broken) - {_target(node)}:
        was = before[name]
        if not isinstance(was, Broken) and not unchanged(was, trace.names[name]):
            found[name] = (
                f"`{name}` is {described(was)} before the loop on line {node.lineno} "
                f"and cannot change in it"
            )
    return found


def _close(
    trace: Trace,
    node: ast.For,
    bounds: tuple[Value, Value, Value],
    carried: Sequence[Carried],
    turn: Turn,
) -> None:
    """Emits the loop and gives the carried names its results."""
    init = [v for c in carried for v in c.init]
    attrs = (turn.stop is not None,)
    results = trace.emit_all("for", (*bounds, *init), attrs, (turn.block,))
    fresh = iter(results)
    names = trace.names
    after = {c.name: replaced(c.entry, fresh, _marks(trace, c, names)) for c in carried}
    for name, held in after.items():
        for value in leaves(held):
            if isinstance(value, Value) and not value.name:
                value.name = name
    names.update(after)


def never(trace: Trace, node: ast.AST) -> None:
    """`break` anywhere but at the end of an `if` directly inside a `for`."""
    raise trace.fail(
        "E0104",
        "`break` must be the last statement of an `if` directly inside a `for`",
        node=node,
    )
