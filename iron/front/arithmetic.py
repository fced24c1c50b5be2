"""Operators: Python's on compile-time objects, ops on run-time values, weak numbers in between.

Operands that are views have been read by the caller.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from iron.dtypes import DType, bool_, f32, i32, u32
from iron.front.scope import Mask, Tiling, Weak, dynamic
from iron.front.state import Trace
from iron.front.values import (
    as_value,
    const_int,
    demand,
    described,
    dtype_of,
    is_number,
    joined_dtype,
    not_a_value,
    runtime,
)
from iron.ir.core import Value, const_of, is_const
from iron.ir.types import Tile, Vector, count, element, held

PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
SIGN = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
WEAK_KEPT = frozenset({"add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "min", "max"})


def binary(trace: Trace, op: str, a: object, b: object) -> object:
    """`a op b`."""
    if not runtime(a) and not runtime(b):
        return python(trace, op, a, b)
    if isinstance(a, list | tuple) or isinstance(b, list | tuple):
        return _sequence(trace, op, a, b)
    if isinstance(a, Mask) or isinstance(b, Mask):
        return _masks(trace, op, a, b)
    special = {"pow": _power, "shl": _shift, "shr": _shift, "div": _divide}.get(op)
    return special(trace, op, a, b) if special else combine(trace, op, a, b)


def python(trace: Trace, op: str, a: Any, b: Any) -> object:
    """`a op b` computed by Python; E0110 when Python raises."""
    for x in (a, b):
        if isinstance(x, Tiling) or (op not in ("add", "mul") and dynamic(x)):
            raise not_a_value(trace, x)
    try:
        with np.errstate(all="ignore"):
            return PYTHON[op](a, b)
    except Exception as wrong:
        what = f"`{described(a)} {SIGN[op]} {described(b)}`"
        raise trace.fail("E0110", f"{what}: {wrong}") from None


def _sequence(trace: Trace, op: str, a: object, b: object) -> object:
    """A list or tuple repeated by an integer of dims."""
    times, items = (b, a) if isinstance(a, list | tuple) else (a, b)
    if op == "mul" and isinstance(times, Weak):
        return python(trace, op, items, const_int(trace, times, "the length of a list"))
    raise not_a_value(trace, items)


def _masks(trace: Trace, op: str, a: object, b: object) -> object:
    if isinstance(a, Mask) and isinstance(b, Mask) and op in ("and", "or", "xor"):
        return Mask(trace.emit(op, a.value, b.value))
    raise trace.fail(
        "E0201",
        f"`{SIGN[op]}` of {described(a)} and {described(b)}",
        help="lane masks take & | ^ ~",
    )


def combine(trace: Trace, op: str, a: object, b: object) -> object:
    """An elementwise op of two operands of one dtype; weak when both are integers of dims."""
    x, y = agreed(trace, op, a, b)
    result = trace.emit(op, x, y)
    return Weak(result) if op in WEAK_KEPT and _both_weak(a, b) else result


def agreed(trace: Trace, op: str, *operands: object) -> list[Value]:
    """The operands as values of one dtype and one length."""
    own = [dtype_of(x) for x in operands]
    first = next((t for t in own if t is not None), None)
    if first is None:
        first = joined_dtype(trace, operands[0], operands[-1])
        for x in operands[1:-1]:
            first = f32 if isinstance(x, float) else first
    wide = trace.index if _meets_index(trace, own, operands) else first
    values = [as_value(trace, x, wide) for x in operands]
    _refuse_mixture(trace, op, values)
    return broadcast(trace, values)


def _meets_index(trace: Trace, own: list[DType | None], operands: tuple[object, ...]) -> bool:
    """True when an index is among the operands: i32 then widens to a 64-bit one."""
    if trace.index in own:
        return True
    firm = {t for t in own if t is not None}
    return firm == {i32} and any(isinstance(x, Weak) for x in operands)


def _refuse_mixture(trace: Trace, op: str, values: list[Value]) -> None:
    found = list(dict.fromkeys(element(v.type) for v in values))
    if len(found) < 2:
        return
    integers = all(t.is_integer for t in found)
    help = "convert one side, such as `f32(x)` or `x.to(f32)`"
    if integers and {i32, u32} >= set(found):
        help = "signed and unsigned do not mix: write `i32(x)` or `u32(x)`"
    listed = " and ".join(map(repr, found))
    notes = [trace.entered[v] for v in values if v in trace.entered]
    raise trace.fail("E0201", f"operands of `{SIGN.get(op, op)}` are {listed}", *notes, help=help)


def broadcast(trace: Trace, values: list[Value]) -> list[Value]:
    """Scalars beside vectors or tiles are spread; vectors of different length are E0210."""
    if any(isinstance(v.type, Tile) for v in values):
        return _broadcast_tiles(trace, values)
    lengths = {count(v.type) for v in values} - {0}
    if not lengths:
        return values
    if len(lengths) > 1:
        listed = " and ".join(str(n) for n in sorted(lengths))
        raise trace.fail("E0210", f"vectors of {listed} elements meet")
    (length,) = lengths
    return [
        v if isinstance(v.type, Vector) else trace.emit("splat", v, attrs=(length,)) for v in values
    ]


def _broadcast_tiles(trace: Trace, values: list[Value]) -> list[Value]:
    """Every operand with the common shape, by numpy's rule; E0212 where there is none."""
    if any(isinstance(v.type, Vector) for v in values):
        raise trace.fail("E0210", "a vector meets a tile", help="make the vector a tile")
    shapes = [held(v.type) for v in values]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(list(s)) for s in dict.fromkeys(shapes) if s)
        raise trace.fail(
            "E0212",
            f"tiles of shape {listed} meet",
            help="equal sides, or 1: write `t[:, None]` or `t[None, :]` to add an axis",
        ) from None
    return [spread(trace, v, shape) for v in values]


def spread(trace: Trace, x: Value, shape: tuple[int, ...]) -> Value:
    """A scalar or tile repeated to `shape`."""
    if not isinstance(x.type, Tile):
        return trace.emit("tile_full", x, attrs=(shape,))
    while isinstance(x.type, Tile) and len(x.type.shape) < len(shape):
        x = trace.emit("tile_expand", x, attrs=(0,))
    return x if held(x.type) == shape else trace.emit("tile_broadcast", x, attrs=(shape,))


def _both_weak(a: object, b: object) -> bool:
    return all(isinstance(x, Weak | int | np.integer) and not isinstance(x, bool) for x in (a, b))


def _divide(trace: Trace, op: str, a: object, b: object) -> object:
    """`/`: of floats; integers of dims become f32, since they are literals."""
    own = [dtype_of(x) for x in (a, b)]
    if any(t is not None and t.is_integer for t in own):
        raise trace.fail(
            "E0202",
            f"`/` of {described(a)} and {described(b)}",
            help="`//` floors; convert with `f32(x)` for a quotient",
        )
    if own == [None, None]:
        return trace.emit("div", as_value(trace, a, f32), as_value(trace, b, f32))
    return combine(trace, op, a, b)


def _power(trace: Trace, op: str, a: object, b: object) -> object:
    """`**`: at compile time, or a square."""
    if isinstance(a, Weak) or isinstance(b, Weak):
        demand(trace, a, b)
    if is_number(b) and b == 2 and isinstance(a, Value):
        return combine(trace, "mul", a, a)
    raise trace.fail(
        "E0201",
        f"`**` of {described(a)} and {described(b)}",
        help="write a product, or `power(x, y)` for floats",
    )


def _shift(trace: Trace, op: str, a: object, b: object) -> object:
    """`<<` and `>>`: the count may have any integer type; a constant count must be in range."""
    x = as_value(trace, a, dtype_of(a) or dtype_of(b) or joined_dtype(trace, a, b))
    if not element(x.type).is_integer:
        raise trace.fail("E0201", f"`{SIGN[op]}` of {described(x)}", help="shifts take integers")
    bits = element(x.type).bits
    amount = const_of(b) if isinstance(b, Value) and is_const(b) else b
    if is_number(amount) and not 0 <= amount < bits:  # pyright: ignore[reportOperatorIssue]
        raise trace.fail(
            "E0211",
            f"shift by {amount} of a {bits}-bit integer",
            help=f"a constant count is 0 to {bits - 1}; a run-time count is taken modulo {bits}",
        )
    result = trace.emit(op, *broadcast(trace, [x, _count(trace, b, element(x.type))]))
    return Weak(result) if isinstance(a, Weak) and _both_weak(a, b) else result


def _count(trace: Trace, b: object, t: DType) -> Value:
    b = b.value if isinstance(b, Weak) else b
    if not isinstance(b, Value):
        return as_value(trace, b, t)
    have = element(b.type)
    if not have.is_integer:
        raise trace.fail("E0201", f"a shift count is {have}", help="it must be an integer")
    return b if have is t else trace.emit("cast", b, attrs=(t,))


def compare(trace: Trace, op: str, a: object, b: object) -> object:
    """One comparison; of run-time operands a bool value."""
    for x, other in ((a, b), (b, a)):
        if (x is None or isinstance(x, str)) and runtime(other):
            raise not_a_value(trace, x)
    return binary(trace, op, a, b)


def negative(trace: Trace, x: object) -> object:
    """`-x`."""
    if isinstance(x, Weak):
        return Weak(trace.emit("neg", x.value))
    return trace.emit("neg", _one(trace, x))


def inverted(trace: Trace, x: object) -> object:
    """`~x`: bits of an integer, the opposite of a bool, the other lanes of a mask."""
    if isinstance(x, Weak):
        return Weak(trace.emit("not", x.value))
    if isinstance(x, Mask):
        return Mask(trace.emit("not", x.value))
    return trace.emit("not", _one(trace, x))


def magnitude(trace: Trace, x: object) -> object:
    """`abs(x)`."""
    if isinstance(x, Weak):
        return Weak(trace.emit("abs", x.value))
    return trace.emit("abs", _one(trace, x))


def _one(trace: Trace, x: object) -> Value:
    if isinstance(x, Value):
        return x
    raise not_a_value(trace, x)


def extreme(trace: Trace, op: str, *operands: object) -> object:
    """`min` or `max` of two or more operands, from left to right."""
    result = operands[0]
    for x in operands[1:]:
        if not runtime(result) and not runtime(x):
            pick: Callable[..., Any] = min if op == "min" else max
            result = pick(result, x)
            continue
        result = combine(trace, op, result, x)
    return result


def ceil_div(trace: Trace, a: object, b: object) -> object:
    """a / b rounded up, for any integer dtype without overflow."""
    down = binary(trace, "floordiv", a, b)
    rest = binary(trace, "ne", binary(trace, "mod", a, b), 0)
    if not runtime(rest):
        return binary(trace, "add", down, int(bool(rest)))
    quotient = down.value if isinstance(down, Weak) else down
    assert isinstance(quotient, Value)
    assert isinstance(rest, Value)
    if element(rest.type) is bool_:
        rest = trace.emit("cast", rest, attrs=(element(quotient.type),))
    total = trace.emit("add", quotient, rest)
    return Weak(total) if isinstance(down, Weak) else total
