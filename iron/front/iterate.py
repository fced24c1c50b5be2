"""Compile-time iteration: the objects that a list, a range, a view or a vector gives one by one."""

from __future__ import annotations

from iron.front.scope import Mask, Range, View, Weak
from iron.front.state import Trace
from iron.front.values import const_int, described
from iron.front.views import load, vector_length
from iron.ir.core import Value
from iron.ir.types import Vector


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
