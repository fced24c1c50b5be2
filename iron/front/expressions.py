"""Expressions: what each yields, a value or an ordinary Python object."""

from __future__ import annotations

import ast
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from iron.dtypes import bool_
from iron.front import tiles
from iron.front.arithmetic import binary, compare, inverted, negative
from iron.front.host import is_pure
from iron.front.iterate import iterated
from iron.front.joins import branch
from iron.front.names import immutable, resolve
from iron.front.scope import (
    Broken,
    Closure,
    Mask,
    Method,
    PackedView,
    Range,
    Tiling,
    View,
    Weak,
    dynamic,
)
from iron.front.state import Trace
from iron.front.statements import assign, decided, operator_name
from iron.front.values import (
    compile_time,
    const_int,
    demand,
    described,
    is_number,
    not_a_value,
    runtime,
    truth,
)
from iron.front.views import index, load, load_both, loaded, shape, size, vector_of
from iron.ir.core import Value
from iron.ir.types import Tile, Vector

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
CHOICE = " choice"  # a name no source can spell


def read_constant(trace: Trace, node: ast.Constant) -> object:
    """A number, a string, None or `...`."""
    if isinstance(node.value, bytes | complex):
        raise trace.fail("E0101", f"a {type(node.value).__name__} is not part of the language")
    return node.value


# --- displays -------------------------------------------------------------------------------------


def items(trace: Trace, nodes: list[ast.expr]) -> list[Any]:
    """The elements of a display or the arguments of a call, starred ones spread."""
    out: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            out += iterated(trace, trace.evaluate(node.value))
        else:
            out.append(trace.evaluate(node))
    return out


def read_tuple(trace: Trace, node: ast.Tuple) -> object:
    """`(a, b, *c)`."""
    return tuple(items(trace, node.elts))


def read_list(trace: Trace, node: ast.List) -> object:
    """`[a, b, *c]`."""
    return items(trace, node.elts)


def read_comprehension(trace: Trace, node: ast.ListComp | ast.GeneratorExp) -> object:
    """A list made at compile time; its counters are its own."""
    kept = dict(trace.names)
    own = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    out: list[Any] = []
    _generate(trace, node, 0, out)
    for name in own:
        if name in kept:
            trace.names[name] = kept[name]
        else:
            trace.names.pop(name, None)
    return out


def _generate(
    trace: Trace, node: ast.ListComp | ast.GeneratorExp, level: int, out: list[Any]
) -> None:
    if level == len(node.generators):
        out.append(trace.evaluate(node.elt))
        return
    generator = node.generators[level]
    if generator.is_async:
        raise trace.fail("E0101", "`async` is not part of the language")
    for item in iterated(trace, trace.evaluate(generator.iter)):
        assign(trace, generator.target, item)
        if all(_kept(trace, c) for c in generator.ifs):
            _generate(trace, node, level + 1, out)


def _kept(trace: Trace, node: ast.expr) -> bool:
    condition = trace.evaluate(node)
    compile_time(trace, "the condition of a comprehension", condition)
    return decided(trace, condition)


def read_joined(trace: Trace, node: ast.JoinedStr) -> object:
    """An f-string of compile-time objects."""
    return "".join(str(trace.evaluate(v)) for v in node.values)


def read_formatted(trace: Trace, node: ast.FormattedValue) -> object:
    """One `{...}` of an f-string."""
    value = trace.evaluate(node.value)
    if dynamic(value):
        raise trace.fail("E0204", f"{described(value)} has no text at compile time")
    shown: Any = {-1: lambda x: x, 115: str, 114: repr, 97: ascii}[node.conversion](value)
    spec = trace.evaluate(node.format_spec) if node.format_spec is not None else ""
    try:
        return format(shown, spec)
    except (TypeError, ValueError) as wrong:
        raise trace.fail("E0110", f"f-string: {wrong}") from None


def read_lambda(trace: Trace, node: ast.Lambda) -> object:
    """A function of one expression, for `group_reduce` and helpers."""
    return Closure(node, trace.frame)


# --- operators ------------------------------------------------------------------------------------


def read_binary(trace: Trace, node: ast.BinOp) -> object:
    """`a op b`."""
    op = operator_name(trace, node.op)
    a = trace.evaluate(node.left)
    return binary(trace, op, *load_both(trace, a, trace.evaluate(node.right)))


def read_unary(trace: Trace, node: ast.UnaryOp) -> object:
    """`-x`, `+x`, `~x`; `not x` of a compile-time object."""
    x = loaded(trace, trace.evaluate(node.operand))
    if not runtime(x):
        return _python_unary(trace, node.op, x)
    if isinstance(node.op, ast.Not):
        if isinstance(x, Value) and x.type is bool_ and is_pure(trace, x):
            return inverted(trace, x)
        raise _logic(trace, "not", "~")
    if isinstance(node.op, ast.UAdd):
        return x
    return negative(trace, x) if isinstance(node.op, ast.USub) else inverted(trace, x)


def _python_unary(trace: Trace, op: ast.unaryop, x: object) -> object:
    if isinstance(op, ast.Not) or (isinstance(op, ast.Invert) and isinstance(x, bool)):
        return not decided(trace, x)
    if isinstance(x, list | tuple):
        raise not_a_value(trace, x)
    try:
        with np.errstate(all="ignore"):
            return UNARY[type(op)](x)
    except Exception as wrong:
        raise trace.fail("E0110", f"{type(op).__name__} of {described(x)}: {wrong}") from None


def _logic(trace: Trace, word: str, sign: str) -> Exception:
    return trace.fail(
        "E0109",
        f"`{word}` of run-time values",
        help=f"use `{sign}`, which evaluates both sides; `a if c else b` is lazy",
    )


def read_boolean(trace: Trace, node: ast.BoolOp) -> object:
    """`and`, `or`: of compile-time objects, and of conditions on dims and Scalars alone."""
    word, sign = ("or", "|") if isinstance(node.op, ast.Or) else ("and", "&")
    result: object = None
    for part in node.values:
        value = loaded(trace, trace.evaluate(part))
        if runtime(value):
            if not (isinstance(value, Value) and value.type is bool_ and is_pure(trace, value)):
                raise _logic(trace, word, sign)
            result = value if not isinstance(result, Value) else trace.emit(word, result, value)
        elif decided(trace, value) == (word == "or"):
            return value
        elif not isinstance(result, Value):
            result = value
    return result


def read_compare(trace: Trace, node: ast.Compare) -> object:
    """`a < b`; a chain of run-time comparisons is refused, since it would not be lazy."""
    left = trace.evaluate(node.left)
    result: object = True
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = trace.evaluate(right_node)
        if not isinstance(op, ast.Is | ast.IsNot):
            left, right = load_both(trace, left, right)
        one = _compare(trace, op, left, right)
        if len(node.ops) == 1:
            return one
        if runtime(one):
            result = _chained(trace, result, one)
        elif not decided(trace, one):
            return False
        left = right
    return result


def _chained(trace: Trace, result: object, one: object) -> object:
    assert isinstance(one, Value)
    if not is_pure(trace, one):
        raise trace.fail(
            "E0109",
            "a chain of comparisons of run-time values",
            help="write `(a < b) & (b < c)`",
        )
    return trace.emit("and", result, one) if isinstance(result, Value) else one


def _compare(trace: Trace, op: ast.cmpop, a: object, b: object) -> object:
    if isinstance(op, ast.Is | ast.IsNot):
        if runtime(a) and runtime(b):
            raise trace.fail("E0204", "`is` of two run-time values", help="use `==`")
        return (a is b) == isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        compile_time(trace, "`in`", a, b)
        try:
            return (a in b) == isinstance(op, ast.In)  # pyright: ignore[reportOperatorIssue]
        except Exception as wrong:
            raise trace.fail("E0110", f"`in`: {wrong}") from None
    return compare(trace, COMPARISONS[type(op)], a, b)


def read_choice(trace: Trace, node: ast.IfExp) -> object:
    """`a if c else b`: only the taken side is evaluated."""
    condition = loaded(trace, trace.evaluate(node.test))
    if not runtime(condition):
        return trace.evaluate(node.body if decided(trace, condition) else node.orelse)

    def side(part: ast.expr) -> None:
        value = trace.evaluate(part)
        trace.names[CHOICE] = load(trace, value) if isinstance(value, View) else value

    flag = truth(trace, condition)
    before = trace.names.get(CHOICE)
    branch(trace, flag, lambda: side(node.body), lambda: side(node.orelse), [CHOICE])
    result = trace.names.pop(CHOICE)
    if before is not None:
        trace.names[CHOICE] = before
    if isinstance(result, Broken):
        raise trace.fail("E0203", result.why.replace(f"`{CHOICE}`", "the conditional"))
    return result


# --- parts ----------------------------------------------------------------------------------------

VALUE_METHODS = ("to", "sum", "max", "min")
TILE_METHODS = ("any", "all")
VIEW_METHODS = ("tiles", "gather", "scatter")
TILING_METHODS = ("at",)
TILING_FACTS: dict[str, Callable[[Trace, Tiling], object]] = {
    "grid": tiles.grid,
    "shape": lambda _, a: a.shape,
    "dtype": lambda _, a: a.view.elem,
}
VIEW_FACTS: dict[str, Callable[[Trace, View], object]] = {
    "shape": lambda _, v: shape(v),
    "rank": lambda _, v: len(v.spans),
    "size": size,
    "dtype": lambda _, v: v.elem,
}


def read_attribute(trace: Trace, node: ast.Attribute) -> object:
    """`x.name`: facts of views, methods of values, attributes of Python objects."""
    owner = trace.evaluate(node.value)
    name = node.attr
    if isinstance(owner, View) and name in VIEW_FACTS:
        return VIEW_FACTS[name](trace, owner)
    if isinstance(owner, Tiling) and name in TILING_FACTS:
        return TILING_FACTS[name](trace, owner)
    if _has_method(owner, name):
        return Method(owner, name)
    if isinstance(owner, Value) and isinstance(owner.type, Tile):
        return _of_tile(trace, owner, owner.type, name)
    if isinstance(owner, Value | View | Weak) or is_number(owner):
        demand(trace, owner)
    if isinstance(owner, PackedView):
        return _packed(trace, owner, name)
    if runtime(owner) or isinstance(owner, Range | Method | Tiling) or name.startswith("__"):
        raise trace.fail("E0105", f"{described(owner)} has no attribute `{name}`")
    try:
        found = getattr(owner, name)
    except AttributeError as wrong:
        raise trace.fail("E0105", str(wrong)) from None
    if isinstance(owner, types.ModuleType):
        trace.capture(vars(owner), name, found)
        immutable(trace, ast.unparse(node), found)
    return resolve(trace, found)


def _has_method(owner: object, name: str) -> bool:
    """True for a method of a view, a mask or a run-time value."""
    if isinstance(owner, Mask):
        return name in ("count", "below")
    if isinstance(owner, View) and name in VIEW_METHODS:
        return True
    if isinstance(owner, Tiling):
        return name in TILING_METHODS
    if isinstance(owner, Value) and isinstance(owner.type, Tile) and name in TILE_METHODS:
        return True
    return name in VALUE_METHODS and (isinstance(owner, Value | View | Weak) or is_number(owner))


def _of_tile(trace: Trace, owner: Value, t: Tile, name: str) -> object:
    """Facts of a tile."""
    facts: dict[str, object] = {"shape": t.shape, "rank": len(t.shape), "dtype": t.elem}
    if name in facts:
        return facts[name]
    if name == "T":
        return tiles.transposed(trace, owner)
    raise trace.fail("E0105", f"a tile has no attribute `{name}`")


def _packed(trace: Trace, owner: PackedView, name: str) -> object:
    if name in owner.planes:
        return owner.planes[name]
    if name in ("decode", "dot"):
        return Method(owner, name)
    if name in ("shape", "format"):
        return getattr(owner, name)
    listed = ", ".join(owner.planes)
    raise trace.fail("E0105", f"`{owner.name}` has no plane `{name}`; it has {listed}")


def read_slice(trace: Trace, node: ast.Slice) -> object:
    """`low:high:step` in a subscript."""
    parts = (node.lower, node.upper, node.step)
    return slice(*(loaded(trace, trace.evaluate(p)) if p is not None else None for p in parts))


def read_subscript(trace: Trace, node: ast.Subscript) -> object:
    """`x[i]`: of a view, a vector, or a Python object with a compile-time index."""
    owner = trace.evaluate(node.value)
    key = trace.evaluate(node.slice)
    if isinstance(owner, View):
        return index(trace, owner, key)
    if isinstance(owner, Tiling):
        return tiles.read(trace, owner, key)
    if isinstance(owner, Value) and isinstance(owner.type, Tile):
        return tiles.of_tile(trace, owner, key)
    if isinstance(owner, Value) and isinstance(owner.type, Vector):
        return _of_vector(trace, owner, key)
    if runtime(owner):
        raise trace.fail("E0208", f"{described(owner)} has no elements")
    if isinstance(owner, Range):
        owner = tuple(iterated(trace, owner))
    held: Any = owner
    key = _python_key(trace, owner, key)
    try:
        return resolve(trace, held[key])
    except Exception as wrong:
        raise trace.fail("E0208", f"an element of {described(owner)}: {wrong}") from None


def _python_key(trace: Trace, owner: object, key: object) -> object:
    if isinstance(key, slice):
        ends = (key.start, key.stop, key.step)
        return slice(*(None if e is None else const_int(trace, e, "a slice") for e in ends))
    if runtime(key) or isinstance(owner, list | tuple | str):
        return const_int(trace, loaded(trace, key), f"an index of {described(owner)}")
    compile_time(trace, "an index", key)
    return key


def _of_vector(trace: Trace, owner: Value, key: object) -> object:
    assert isinstance(owner.type, Vector)
    length = owner.type.count
    at = _python_key(trace, (), key)
    if isinstance(at, slice):
        taken = [trace.emit("extract", owner, attrs=(i,)) for i in range(length)[at]]
        return vector_of(trace, taken)
    assert isinstance(at, int)
    if not -length <= at < length:
        raise trace.fail("E0208", f"element {at} of a vector of {length}")
    return trace.emit("extract", owner, attrs=(at % length,))
