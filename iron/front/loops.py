"""`for`: a region at run time, repeated reading at compile time; and `break` out of either.

`if c: ...; break` is read as a branch: what follows it in the body goes to the other side, and a
stop flag says whether the loop ends after this turn.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from iron.front.carries import read_loop
from iron.front.iterate import iterated
from iron.front.joins import branch
from iron.front.scope import Range, View, Weak
from iron.front.source import assigned
from iron.front.state import Trace
from iron.front.statements import assign
from iron.front.values import (
    truth,
)
from iron.front.views import load
from iron.ir.core import Value

STOP = " stop"  # names that no source can spell
HELD = " held"
WALKERS = ("enumerate", "zip", "reversed")


def read_for(trace: Trace, node: ast.For) -> None:
    """`for target in iterable: body`."""
    over = trace.evaluate(node.iter)
    trace.at = node
    if isinstance(over, Range):
        read_loop(trace, node, over, loop_body)
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


def never(trace: Trace, node: ast.AST) -> None:
    """`break` anywhere but at the end of an `if` directly inside a `for`."""
    raise trace.fail(
        "E0104",
        "`break` must be the last statement of an `if` directly inside a `for`",
        node=node,
    )
