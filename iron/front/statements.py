"""Statements: assignment to names, elements and views, branches, returns."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from iron.front import tiles
from iron.front.arithmetic import binary
from iron.front.iterate import iterated
from iron.front.joins import branch, has_second_name
from iron.front.scope import Returned, Tiling, View, Weak
from iron.front.source import assigned
from iron.front.state import Trace
from iron.front.values import const_int, described, runtime, truth
from iron.front.views import load_both, loaded, narrow, store
from iron.ir.core import Value, is_const

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "shr",
}


def read_pass(trace: Trace, node: ast.Pass) -> None:
    """`pass`."""


def read_expression(trace: Trace, node: ast.Expr) -> None:
    """An expression for its effect; a docstring."""
    if not isinstance(node.value, ast.Constant):
        trace.evaluate(node.value)


def read_assign(trace: Trace, node: ast.Assign) -> None:
    """`a = b = value`."""
    value = trace.evaluate(node.value)
    for target in node.targets:
        assign(trace, target, value)


def read_augmented(trace: Trace, node: ast.AugAssign) -> None:
    """`target op= value`; the target's base and index are read once."""
    op = operator_name(trace, node.op)
    if isinstance(node.target, ast.Name):
        _augment_name(trace, node.target, op, node.value)
    elif isinstance(node.target, ast.Subscript):
        _augment_element(trace, node.target, op, node.value)
    else:
        raise trace.fail("E0102", "this cannot be assigned", node=node.target)


def operator_name(trace: Trace, op: ast.operator) -> str:
    """The op of an operator; E0101 for one that the language lacks."""
    name = OPERATORS.get(type(op))
    if name is None:
        raise trace.fail("E0101", f"`{type(op).__name__}` is not part of the language")
    return name


def _augment_name(trace: Trace, target: ast.Name, op: str, value: ast.expr) -> None:
    old = trace.evaluate(ast.copy_location(ast.Name(target.id, ast.Load()), target))
    if isinstance(old, list):
        _only_name(trace, target.id, old)
    if isinstance(old, View) and old.spans:
        raise trace.fail(
            "E0102",
            f"`{target.id}` is a view of {old.elem}",
            help="write to its elements, or load it first with `.to(...)`",
        )
    new = binary(trace, op, *load_both(trace, old, trace.evaluate(value)))
    bind(trace, target.id, new)


def _augment_element(trace: Trace, target: ast.Subscript, op: str, value: ast.expr) -> None:
    base = trace.evaluate(target.value)
    key = trace.evaluate(target.slice)
    if isinstance(base, Tiling):
        old = tiles.read(trace, base, key)
        new = binary(trace, op, old, loaded(trace, trace.evaluate(value)))
        tiles.write(trace, base, key, new)
        return
    if isinstance(base, View):
        place = narrow(trace, base, key)
        old = loaded(trace, place)
        store(trace, place, binary(trace, op, old, loaded(trace, trace.evaluate(value))))
        return
    if not isinstance(base, list):
        raise _no_element(trace, base, target)
    at = _position(trace, base, key)
    new = binary(trace, op, *load_both(trace, base[at], trace.evaluate(value)))
    _rebind(trace, target, base, at, new)


def assign(trace: Trace, target: ast.expr, value: object) -> None:
    """Gives `value` to a name, a tuple of targets, an element of a list, or a part of a view."""
    if isinstance(target, ast.Name):
        bind(trace, target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(trace, target, value)
    elif isinstance(target, ast.Subscript):
        _assign_element(trace, target, value)
    else:
        raise trace.fail(
            "E0102",
            f"`{type(target).__name__}` cannot be assigned",
            help="assign to a name, an element `xs[i]` or a view `x[i, j]`",
            node=target,
        )


def bind(trace: Trace, name: str, value: object) -> None:
    """Lets `name` mean `value`."""
    held = value.value if isinstance(value, Weak) else value
    if isinstance(held, Value) and not held.name and not is_const(held):
        held.name = name
    trace.names[name] = value


def _unpack(trace: Trace, target: ast.Tuple | ast.List, value: object) -> None:
    items = iterated(trace, value)
    if any(isinstance(t, ast.Starred) for t in target.elts):
        raise trace.fail("E0102", "a starred target is not part of the language", node=target)
    if len(items) != len(target.elts):
        raise trace.fail("E0102", f"{len(target.elts)} targets for {len(items)} values")
    for one, item in zip(target.elts, items, strict=True):
        assign(trace, one, item)


def _assign_element(trace: Trace, target: ast.Subscript, value: object) -> None:
    base = trace.evaluate(target.value)
    key = trace.evaluate(target.slice)
    if isinstance(base, View):
        store(trace, narrow(trace, base, key), value)
    elif isinstance(base, Tiling):
        tiles.write(trace, base, key, value)
    elif isinstance(base, list):
        _rebind(trace, target, base, _position(trace, base, key), value)
    else:
        raise _no_element(trace, base, target)


def _no_element(trace: Trace, base: object, target: ast.Subscript) -> Exception:
    return trace.fail(
        "E0102",
        f"an element of {described(base)} cannot be assigned",
        help="elements of lists, `Out`, `InOut` and `shared` can",
        node=target,
    )


def _position(trace: Trace, held: list[Any], key: object) -> int:
    at = const_int(trace, key, "the index of a list")
    if not -len(held) <= at < len(held):
        raise trace.fail("E0208", f"index {at} of a list of {len(held)}")
    return at


def _rebind(trace: Trace, target: ast.Subscript, base: list[Any], at: int, value: object) -> None:
    """`xs[i] = v` makes a new list and gives it to what named the old one."""
    root: ast.expr = target.value
    while isinstance(root, ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in trace.names:
        raise trace.fail("E0102", "only an element of a named list can be assigned", node=target)
    _only_name(trace, ast.unparse(target.value), base)
    new = list(base)
    new[at] = value
    if isinstance(target.value, ast.Subscript):
        outer = trace.evaluate(target.value.value)
        if not isinstance(outer, list):
            raise _no_element(trace, outer, target)
        place = _position(trace, outer, trace.evaluate(target.value.slice))
        _rebind(trace, target.value, outer, place, new)
    else:
        bind(trace, root.id, new)


def _only_name(trace: Trace, shown: str, held: list[Any]) -> None:
    if has_second_name(trace, held, trace.names):
        raise trace.fail(
            "E0205",
            f"the list `{shown}` has a second name, which would not see the change",
            help="give that name a list of its own: `list(xs)`",
        )


def read_if(trace: Trace, node: ast.If) -> None:
    """`if`: one side at compile time; both, as a region, at run time."""
    condition = loaded(trace, trace.evaluate(node.test))
    if not runtime(condition):
        trace.execute(node.body if decided(trace, condition) else node.orelse)
        return
    trace.at = node.test
    flag = truth(trace, condition)
    trace.at = node
    names = sorted(assigned(node.body + node.orelse))
    then, other = node.body, node.orelse
    branch(trace, flag, lambda: trace.execute(then), lambda: trace.execute(other), names)


def decided(trace: Trace, condition: object) -> bool:
    """The truth of a compile-time object."""
    if isinstance(condition, np.ndarray) and condition.size != 1:
        raise trace.fail("E0206", "the condition is an array")
    return bool(condition)


def read_return(trace: Trace, node: ast.Return) -> None:
    """`return`: leaves the function at once, so it must not stand in a run-time region."""
    if trace.depth != trace.frame.depth:
        raise trace.fail(
            "E0103",
            "`return` inside a run-time branch or loop",
            help="give a name its value on both sides, and return it at the end",
        )
    raise Returned(trace.evaluate(node.value) if node.value is not None else None)
