"""Names: what they mean in a kernel, and the sentinels that stand for run-time facts.

Dims, dtype variables, `thread` and their kin are resolved wherever an expression yields one, so a
dim kept in a tuple or reached through a module works like one named directly.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from iron.front.arithmetic import binary, negative
from iron.front.state import Trace
from iron.front.values import runtime
from iron.lang import Dim, DimExpr, FormatVar, TypeVar, lane, simd_width, thread

MUTABLE = (list, dict, set, bytearray)


def read_name(trace: Trace, node: ast.Name) -> object:
    """What a name means here; a global that can change is E0107."""
    found, own = trace.look_up(node.id)
    if own:
        return resolve(trace, found)
    immutable(trace, node.id, found)
    return resolve(trace, found)


def immutable(trace: Trace, name: str, found: object) -> None:
    """Refuses a global that can change after compilation (E0107)."""
    writable = isinstance(found, np.ndarray) and found.flags.writeable
    if isinstance(found, MUTABLE) or writable:
        raise trace.fail(
            "E0107",
            f"global `{name}` is a {type(found).__name__}, which can change after compilation",
            help="make it a tuple, or pass it as a Const",
        )
    if isinstance(found, tuple):
        for item in found:
            immutable(trace, name, item)


def resolve(trace: Trace, x: object) -> object:
    """Dims, dtype variables, `thread` and their kin, by what they are and not by their name."""
    if isinstance(x, tuple) and type(x) is tuple:
        return tuple(resolve(trace, y) for y in x)
    if isinstance(x, Dim):
        return _dim(trace, x)
    if isinstance(x, DimExpr):
        return dim_expression(trace, x)
    if isinstance(x, TypeVar):
        return _bound(trace, trace.dtypes, x.name, "dtype variable")
    if isinstance(x, FormatVar):
        return _bound(trace, trace.formats, x.name, "format variable")
    if x is thread:
        return trace.own_thread()
    if x is lane:
        return binary(trace, "mod", trace.own_thread(), trace.simd)
    return trace.simd if x is simd_width else x


def _dim(trace: Trace, dim: Dim) -> object:
    return _bound(trace, trace.dims, dim.name, "dim")


def _bound(trace: Trace, known: dict[str, Any], name: str, kind: str) -> Any:
    if name not in known:
        raise trace.fail("E0105", f"{kind} `{name}` is bound by no parameter of {trace.name}")
    return known[name]


SIZES = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}


def dim_expression(trace: Trace, x: object) -> object:
    """The value of a declared size."""
    if isinstance(x, Dim):
        return _dim(trace, x)
    if not isinstance(x, DimExpr):
        return x
    a, b = dim_expression(trace, x.a), dim_expression(trace, x.b)
    if x.op == "cdiv":
        return negative_of(trace, binary(trace, "floordiv", negative_of(trace, a), b))
    return binary(trace, SIZES[x.op], a, b)


def negative_of(trace: Trace, x: object) -> object:
    """`-x` of a number or a run-time value."""
    return negative(trace, x) if runtime(x) else -x  # pyright: ignore[reportOperatorIssue]
