"""Calls: casts, the language's functions, methods, inlined helpers, and Python at compile time."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from iron.dtypes import DType
from iron.errors import KernelError
from iron.front.arithmetic import binary
from iron.front.expressions import items
from iron.front.iterate import iterated
from iron.front.scope import Closure, Method, Range, Returned, Specialise, View, dynamic
from iron.front.source import source_of
from iron.front.state import MAX_DEPTH, Handler, Trace
from iron.front.values import (
    as_value,
    compile_time,
    described,
    is_number,
    not_a_value,
    runtime,
)
from iron.front.views import loaded
from iron.ir.core import Value
from iron.ir.types import count, like
from iron.lang import InlineFunction, KernelFunction, PlanFunction

IN_PLACE = """
append extend insert pop remove clear sort reverse update add discard setdefault popitem
fill put itemset resize partition setfield setflags
"""
MUTATORS = frozenset(IN_PLACE.split())
STRUCTURE: tuple[Callable[..., Any], ...] = (list, tuple, zip, enumerate, reversed)


def read_call(trace: Trace, node: ast.Call) -> object:
    """`f(...)`."""
    fn = trace.evaluate(node.func)
    args = items(trace, node.args)
    keywords = _keywords(trace, node.keywords)
    trace.at = node
    return call(trace, fn, args, keywords)


def _keywords(trace: Trace, nodes: Sequence[ast.keyword]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for k in nodes:
        value = trace.evaluate(k.value)
        if k.arg is not None:
            found[k.arg] = value
        elif isinstance(value, Mapping):
            found |= value
        else:
            raise trace.fail("E0113", f"`**` needs a dict, not {described(value)}")
    return found


def call(trace: Trace, fn: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """What calling `fn` yields."""
    if isinstance(fn, Method):
        return _method(trace, fn, args, keywords)
    if isinstance(fn, DType):
        return _cast(trace, fn, args, keywords)
    if isinstance(fn, Closure):
        return _call_closure(trace, fn, args, keywords)
    emitter = trace.grammar.functions.get(fn) if isinstance(fn, Hashable) else None
    if emitter is not None:
        return _emit(trace, emitter, fn, args, keywords)
    if isinstance(fn, partial):
        return call(trace, fn.func, [*fn.args, *args], {**fn.keywords, **keywords})
    if isinstance(fn, InlineFunction):
        return _inline(trace, fn.fn, args, keywords, exact=fn.exact)
    if isinstance(fn, KernelFunction | PlanFunction):
        raise trace.fail("E0113", f"{fn!r} cannot be called from a kernel", help="write a plan")
    return _python_function(trace, fn, args, keywords)


def called(trace: Trace) -> str:
    """What is being called, as the source spells it."""
    node = trace.at
    return ast.unparse(node.func) if isinstance(node, ast.Call) else "the function"


def _python_function(trace: Trace, fn: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    given = [*args, *keywords.values()]
    if _changes_its_owner(fn):
        raise trace.fail(
            "E0112",
            f"`.{fn.__name__}` changes a compile-time object in place",
            help="make a new one: `xs = xs + [v]`, or `xs[i] = v`",
        )
    if fn in STRUCTURE if isinstance(fn, Hashable) else False:
        return _structure(trace, fn, args, keywords)
    if any(dynamic(x) for x in given):
        if isinstance(fn, types.FunctionType):
            return _inline(trace, fn, args, keywords)
        if isinstance(fn, types.MethodType) and isinstance(fn.__func__, types.FunctionType):
            return _inline(trace, fn.__func__, [fn.__self__, *args], keywords)
        compile_time(trace, f"`{called(trace)}`", *given)
    return _by_python(trace, fn, args, keywords)


def _changes_its_owner(fn: Any) -> bool:
    owner = getattr(fn, "__self__", None)
    mutable = isinstance(owner, list | dict | set | bytearray | np.ndarray)
    return mutable and getattr(fn, "__name__", "") in MUTATORS


def _structure(trace: Trace, fn: Any, args: Sequence[Any], keywords: dict[str, Any]) -> object:
    """`list`, `zip` and their kin rearrange objects without looking inside."""
    spread = [iterated(trace, a) if not isinstance(a, int) else a for a in args]
    made = _by_python(trace, fn, spread, keywords)
    return made if isinstance(made, tuple) else _by_python(trace, list, [made], {})


def _by_python(trace: Trace, fn: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return fn(*args, **keywords)
    except KernelError as wrong:
        d = wrong.diagnostic
        raise trace.fail(d.id, d.message, *d.notes, help=d.help) from None
    except (Specialise, Returned):
        raise
    except Exception as wrong:
        raise trace.fail(
            "E0110",
            f"compile-time call of `{called(trace)}` failed: {type(wrong).__name__}: {wrong}",
            help="a helper that uses dims or language functions is marked @inline",
        ) from None


def _emit(
    trace: Trace,
    emitter: Handler,
    fn: Any,
    args: Sequence[Any],
    keywords: dict[str, Any],
) -> Any:
    """Calls a language function's emitter after checking the arguments against its signature."""
    known = signature(fn)
    if known is not None:
        try:
            known.bind(*args, **keywords)
        except TypeError as wrong:
            raise trace.fail("E0113", f"`{called(trace)}`: {wrong}") from None
    try:
        return emitter(trace, *args, **keywords)
    except TypeError as wrong:
        if known is None and "argument" in str(wrong):
            raise trace.fail("E0113", f"`{called(trace)}`: {wrong}") from None
        raise


@lru_cache(maxsize=512)
def signature(fn: Any) -> inspect.Signature | None:
    """The signature of a function; None for a builtin without one."""
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None


# --- casts and methods ----------------------------------------------------------------------------


def _cast(trace: Trace, to: DType, args: Sequence[Any], keywords: dict[str, Any]) -> Value:
    if len(args) != 1 or keywords:
        raise trace.fail("E0113", f"`{to}(x)` takes one value")
    return cast(trace, args[0], to)


def cast(trace: Trace, x: object, to: DType) -> Value:
    """`x` converted to `to`: explicit, so any number is allowed."""
    x = loaded(trace, x)
    if is_number(x):
        return trace.const(x, to)
    value = as_value(trace, x, trace.index)
    like(value.type, to)
    return trace.emit("cast", value, attrs=(to,))


def _method(trace: Trace, method: Method, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    handler = trace.grammar.methods[method.name]
    try:
        signature_of = signature(handler)
        assert signature_of is not None
        signature_of.bind(trace, method.owner, *args, **keywords)
    except TypeError as wrong:
        raise trace.fail("E0113", f"`.{method.name}`: {wrong}") from None
    return handler(trace, method.owner, *args, **keywords)


# --- inlining -------------------------------------------------------------------------------------


def _inline(
    trace: Trace,
    fn: types.FunctionType,
    args: Sequence[Any],
    keywords: dict[str, Any],
    exact: bool = False,
) -> Any:
    """Reads the body of `fn` with these arguments; what it returns."""
    try:
        known = signature(fn)
        assert known is not None
        bound = known.bind(*args, **keywords)
    except TypeError as wrong:
        raise trace.fail("E0113", f"`{fn.__name__}`: {wrong}") from None
    bound.apply_defaults()
    source = source_of(fn)
    before = trace.builder.exact
    trace.builder.exact = before or exact
    try:
        return read_body(trace, source, fn, dict(bound.arguments))
    finally:
        trace.builder.exact = before


def read_body(trace: Trace, source: Any, fn: types.FunctionType, names: dict[str, Any]) -> Any:
    """Reads a function's statements in a frame of its own; the object it returns, or None."""
    with trace.inside(source, fn, names):
        try:
            trace.execute(source.body)
        except Returned as left:
            return left.result
    return None


def _call_closure(
    trace: Trace, fn: Closure, args: Sequence[Any], keywords: dict[str, Any]
) -> object:
    """Evaluates a lambda's body with its parameters beside the names of where it stands."""
    a = fn.tree.args
    if a.posonlyargs or a.vararg or a.kwonlyargs or a.kwarg or a.defaults or keywords:
        raise trace.fail("E0101", "a lambda in a kernel has plain parameters only", node=fn.tree)
    if len(args) != len(a.args):
        raise trace.fail("E0113", f"the lambda takes {len(a.args)} values, got {len(args)}")
    if len(trace.frames) > MAX_DEPTH:
        raise trace.fail("E0111", f"calls are nested more than {MAX_DEPTH} levels deep")
    kept = trace.frames
    outer = fn.frame
    names = outer.names
    outer.names = {**names, **{p.arg: x for p, x in zip(a.args, args, strict=True)}}
    trace.frames = [*kept, outer]
    try:
        return trace.evaluate(fn.tree.body)
    finally:
        outer.names = names
        trace.frames = kept


# --- Python's own functions -----------------------------------------------------------------------


def read_range(trace: Trace, *bounds: object) -> Range:
    """`range(n)`, `range(low, high)`, `range(low, high, step)`."""
    if not 1 <= len(bounds) <= 3:
        raise trace.fail("E0113", "`range` takes one to three bounds")
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    step = bounds[2] if len(bounds) == 3 else 1
    for part in (low, high, step):
        if not runtime(part) and not isinstance(part, int | np.integer):
            raise trace.fail("E0201", f"a bound of `range` is {described(part)}")
    return Range(*(loaded(trace, p) for p in (low, high, step)))


def read_len(trace: Trace, x: object) -> object:
    """`len(xs)`: of a list, a vector, or the first axis of a view."""
    if isinstance(x, View) and x.spans:
        return x.spans[0].length
    if isinstance(x, Value) and count(x.type):
        return count(x.type)
    if isinstance(x, Range):
        return len(iterated(trace, x))
    if runtime(x):
        raise not_a_value(trace, x)
    return _by_python(trace, len, [x], {})


def read_isinstance(trace: Trace, x: object, kinds: Any) -> bool:
    """`isinstance` of a compile-time object; a run-time value is an instance of nothing."""
    return not dynamic(x) and isinstance(x, kinds)


def read_sum(trace: Trace, xs: Any, start: object = 0) -> object:
    """`sum(xs)`: from left to right, beginning with the first element when `start` is 0."""
    parts = iterated(trace, xs)
    if not any(dynamic(p) for p in parts) and not dynamic(start):
        return _by_python(trace, sum, [parts, start], {})
    total: Any = start
    for i, part in enumerate(parts):
        first = i == 0 and isinstance(start, int) and start == 0
        total = loaded(trace, part) if first else binary(trace, "add", total, loaded(trace, part))
    return total
