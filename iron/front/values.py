"""Objects as run-time values: literals take the dtype of what they meet, or are refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.dtypes import DType, bool_, f32, i32, i64, of_numpy
from iron.front import host
from iron.front.advice import for_call
from iron.front.scope import Mask, Range, Specialise, Tiling, View, Weak, dynamic, leaves
from iron.front.state import Trace
from iron.ir.core import Value, const_of, is_const
from iron.ir.types import Tensor, Tile, Type, Vector, element, like

PLAIN: tuple[type, ...] = (np.float64, np.int64, np.bool_)


def is_number(x: object) -> bool:
    """True for a Python number or a numpy scalar."""
    return isinstance(x, int | float | np.number | np.bool_)


def dtype_of(x: object) -> DType | None:
    """The dtype `x` insists on: a value's or a numpy scalar's; None for a weak number."""
    if isinstance(x, Value):
        return element(x.type)
    if isinstance(x, np.generic) and not isinstance(x, PLAIN):
        return of_numpy(x.dtype)
    return None


def described(x: object) -> str:
    """What `x` is, for a message."""
    if isinstance(x, Value):
        return repr(x.type)
    if isinstance(x, Weak):
        return "an integer of dims"
    if isinstance(x, View):
        return f"a view of {x.elem}"
    if isinstance(x, Tiling):
        return f"a grid of tiles of {x.view.elem}"
    if isinstance(x, str | int | float | type(None)):
        return repr(x)
    return f"a {type(x).__name__}"


def as_value(trace: Trace, x: object, t: Type) -> Value:
    """`x` as a value; a weak number becomes one of type `t`, a value keeps its own type."""
    if isinstance(x, Value):
        return _widened(trace, x, t)
    if isinstance(x, Weak):
        return _of_dims(trace, x, t)
    if is_number(x):
        return literal(trace, x, t)
    raise not_a_value(trace, x)


def not_a_value(trace: Trace, x: object) -> Exception:
    """E0204 for an object that cannot be a run-time value."""
    help = ""
    if isinstance(x, Range):
        help = "a run-time range is for `for` only; `unrolled(n)` counts at compile time"
    elif isinstance(x, list | tuple):
        help = "take its elements one by one, or make a vector with `vec(xs)`"
    elif isinstance(x, Tiling):
        help = "read a tile of it: `A[i, k]`"
    return trace.fail("E0204", f"{described(x)} is not a run-time value", help=help)


def _widened(trace: Trace, x: Value, t: Type) -> Value:
    """With i64 indices, i32 values widen to them; otherwise a value stays as it is."""
    if trace.index is i64 and element(t) is i64 and element(x.type) is i32:
        return trace.emit("cast", x, attrs=(i64,))
    return x


def _of_dims(trace: Trace, x: Weak, t: Type) -> Value:
    to = element(t)
    if to is bool_ or (to.is_integer and to.bits < 32):
        raise trace.fail(
            "E0202", f"an integer of dims may not fit in {to}", help=f"convert it: `{to}(...)`"
        )
    value = x.value if element(x.value.type) is to else trace.emit("cast", x.value, attrs=(to,))
    if isinstance(t, Tile):
        return trace.emit("tile_full", value, attrs=(t.shape,))
    return trace.emit("splat", value, attrs=(t.count,)) if isinstance(t, Vector) else value


def literal(trace: Trace, x: Any, t: Type) -> Value:
    """The number `x` as a constant of type `t`; E0202 when it does not fit."""
    to = element(t)
    own = dtype_of(x)
    if own is not None:
        return trace.const(x, like_shape(t, own))
    plain = x.item() if isinstance(x, np.generic) else x
    wrong = misfit(plain, to)
    if wrong:
        raise trace.fail("E0202", f"{wrong} {plain!r} meets {to}", help=f"write `{to}({plain!r})`")
    return trace.const(plain, t)


def like_shape(t: Type, elem: DType) -> Type:
    """`elem`, as many of them as `t` has."""
    return t if isinstance(t, Tensor) else like(t, elem)


def misfit(x: int | float, to: DType) -> str:
    """Why the literal `x` cannot stand for a value of dtype `to`; empty when it can."""
    if isinstance(x, bool) != (to is bool_):
        return "the bool" if isinstance(x, bool) else "the number"
    if isinstance(x, bool):
        return ""
    if to.is_integer:
        if isinstance(x, float):
            return "the float literal"
        return "" if to.min <= x <= to.max else "the out-of-range literal"
    try:
        finite = abs(float(x)) != float("inf")
    except OverflowError:
        return "the out-of-range literal"
    with np.errstate(all="ignore"):
        held = to.np.type(x)
    return "the out-of-range literal" if finite and np.isinf(np.float32(held)) else ""


def joined_dtype(trace: Trace, a: object, b: object) -> DType:
    """The dtype of two different weak numbers that meet: f32, bool, or the integer of indices."""
    pair = [x.item() if isinstance(x, np.generic) else x for x in (a, b)]
    if any(isinstance(x, float) for x in pair):
        return f32
    if all(isinstance(x, bool) for x in pair):
        return bool_
    return trace.index if any(isinstance(x, Weak) for x in pair) else i32


def const_int(trace: Trace, x: object, what: str = "this") -> int:
    """`x` as a Python int; dims are specialised, anything else at run time is E0207."""
    if isinstance(x, Weak):
        demand(trace, x)
        x = x.value
    if isinstance(x, Value) and is_const(x) and element(x.type).is_integer:
        return int(const_of(x))
    if isinstance(x, int | np.integer) and not isinstance(x, bool):
        return int(x)
    raise trace.fail(
        "E0207",
        f"{what} needs a compile-time integer, not {described(x)}",
        help="use a Const, a literal, or `unrolled(n)` for the counter",
    )


def demand(trace: Trace, *objects: object) -> None:
    """Starts again with the dims of `objects` as numbers, when that makes them compile-time."""
    found: set[str] = set()
    for x in leaves(list(objects)):
        if isinstance(x, Weak) and not is_const(x.value):
            found |= host.dims_in(trace, x.value)
    if found:
        raise Specialise(frozenset(found))


def truth(trace: Trace, x: object) -> Value:
    """A run-time condition: a bool, or an integer compared with 0; else E0206."""
    x = x.value if isinstance(x, Weak) else x
    if isinstance(x, Value) and isinstance(x.type, DType):
        if x.type is bool_:
            return x
        if x.type.is_integer:
            return trace.emit("ne", x, trace.const(0, x.type))
    raise trace.fail(
        "E0206",
        f"the condition is {described(x)}, neither bool nor an integer",
        help="write a comparison",
    )


def firm_bool(trace: Trace, x: Value, name: str) -> Value:
    """`x` when it is a bool; E0206 otherwise."""
    if element(x.type) is not bool_:
        raise trace.fail(
            "E0206", f"`{name}` of {described(x)}, not of a bool", help="write a comparison"
        )
    return x


def runtime(x: object) -> bool:
    """True for an object that stands for one run-time value."""
    return isinstance(x, Value | Weak | View | Mask)


def compile_time(trace: Trace, what: str, *objects: object) -> None:
    """Refuses run-time objects where Python itself is to compute; dims are specialised first."""
    demand(trace, *objects)
    if any(dynamic(x) for x in objects):
        bad = next(x for x in leaves(list(objects)) if dynamic(x))
        advice = for_call(what.strip("`").rpartition(".")[2])
        message = f"{what} needs compile-time objects, not {described(bad)}"
        raise trace.fail("E0204", message, help=advice)
