"""The language's functions and methods: from each function of `lang` to the ops it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iron import lang
from iron.dtypes import DType, f32, i32
from iron.errors import KernelError
from iron.front import arithmetic, collectives, launching, tiles
from iron.front.calls import call, cast, read_isinstance, read_len, read_range, read_sum
from iron.front.iterate import iterated
from iron.front.scope import Mask, PackedView, View, Weak
from iron.front.state import Handler, Trace
from iron.front.values import (
    as_value,
    compile_time,
    const_int,
    described,
    dtype_of,
    is_number,
    joined_dtype,
    not_a_value,
    runtime,
    truth,
)
from iron.front.views import load_both, loaded, vector_of, vector_type, whole
from iron.ir import scalar
from iron.ir.core import Value
from iron.ir.table import TABLE
from iron.ir.types import Tile, Vector, tensor

LANG: Any = lang

MAX_TABLE = 1 << 24


def elementwise(row: str, fn: Any) -> Handler:
    """The emitter of a function that is one row of the op table."""

    def emit(trace: Trace, *operands: object) -> object:
        held = [loaded(trace, x) for x in operands]
        if not any(runtime(x) for x in held):
            return _eagerly(trace, fn, held)
        values = arithmetic.agreed(trace, row, *_floats_for_dims(trace, row, held))
        return trace.emit(row, *values, surface=fn.__name__)

    return emit


def _floats_for_dims(trace: Trace, row: str, operands: Sequence[object]) -> list[object]:
    """Integers of dims are f32 where the op is defined on floats alone, as a literal would be."""
    if TABLE[row].kinds != "f" or any(dtype_of(x) is not None for x in operands):
        return list(operands)
    return [as_value(trace, x, f32) if isinstance(x, Weak | int) else x for x in operands]


def _eagerly(trace: Trace, fn: Any, operands: Sequence[object]) -> object:
    for x in operands:
        if not is_number(x) and not isinstance(x, np.ndarray):
            raise not_a_value(trace, x)
    try:
        return fn(*operands)
    except KernelError as wrong:
        d = wrong.diagnostic
        raise trace.fail(d.id, d.message, *d.notes, help=d.help) from None


def extreme(op: str) -> Handler:
    """`min`, `max` of values or of one list; `minimum`, `maximum`."""

    def emit(trace: Trace, *operands: Any) -> object:
        given = iterated(trace, operands[0]) if len(operands) == 1 else list(operands)
        if not given:
            raise trace.fail("E0113", f"`{op}` of nothing")
        held = [loaded(trace, x) for x in given]
        bad = next((x for x in held if not runtime(x) and not is_number(x)), None)
        if bad is not None:
            raise not_a_value(trace, bad)
        return arithmetic.extreme(trace, op, *held)

    return emit


def add(trace: Trace, a: object, b: object) -> object:
    """`add(a, b)`."""
    return arithmetic.binary(trace, "add", loaded(trace, a), loaded(trace, b))


def absolute(trace: Trace, x: object) -> object:
    """`abs(x)`."""
    held = loaded(trace, x)
    if runtime(held):
        return arithmetic.magnitude(trace, held)
    if not is_number(held):
        raise not_a_value(trace, held)
    return abs(held)  # pyright: ignore[reportArgumentType]


def cdiv(trace: Trace, a: object, b: object) -> object:
    """`cdiv(a, b)`."""
    return arithmetic.ceil_div(trace, loaded(trace, a), loaded(trace, b))


def next_pow2(trace: Trace, n: object) -> int:
    """`next_pow2(n)` of a compile-time integer."""
    return LANG.next_pow2(const_int(trace, n, "`next_pow2`"))


def where(trace: Trace, condition: object, a: object, b: object) -> object:
    """`where(c, a, b)`: both sides are evaluated."""
    c, a, b = (loaded(trace, x) for x in (condition, a, b))
    if not runtime(c):
        return a if arithmetic.python(trace, "ne", c, 0) else b
    many = isinstance(c, Value) and isinstance(c.type, Vector | Tile)
    flag = c if many else truth(trace, c)
    assert isinstance(flag, Value)
    if isinstance(a, Mask) or isinstance(b, Mask):
        raise not_a_value(trace, a)
    x, y = arithmetic.agreed(trace, "where", a, b)
    return trace.emit("where", *arithmetic.broadcast(trace, [flag, x, y]))


def bitcast(trace: Trace, x: object, dtype: object) -> object:
    """`bitcast(x, dtype)`."""
    to = _dtype(trace, dtype)
    held = loaded(trace, x)
    if is_number(held) or isinstance(held, Weak):
        own = dtype_of(held) or joined_dtype(trace, held, held)
        held = as_value(trace, held, own)
    if not isinstance(held, Value):
        raise not_a_value(trace, held)
    return trace.emit("bitcast", held, attrs=(to,))


def _dtype(trace: Trace, x: object) -> DType:
    if not isinstance(x, DType):
        raise trace.fail("E0113", f"a dtype is needed, not {described(x)}")
    return x


# --- vectors --------------------------------------------------------------------------------------


def vec(trace: Trace, items: object) -> Value:
    """`vec(xs)`: the vector of scalars of one dtype."""
    held = [loaded(trace, x) for x in iterated(trace, items)]
    own = next((t for x in held if (t := dtype_of(x)) is not None), None)
    if own is None:
        raise trace.fail("E0204", "`vec` needs a value with a dtype, such as `f32(1)`")
    return vector_of(trace, [as_value(trace, x, own) for x in held])


def _length(trace: Trace, shape: object) -> int:
    if isinstance(shape, tuple | list):
        if len(shape) != 1:
            raise trace.fail("E0210", f"a vector has one axis, not {len(shape)}")
        (shape,) = shape
    return const_int(trace, shape, "the length of a vector")


def zeros(trace: Trace, shape: object, dtype: object) -> Value:
    """`zeros(n, dtype)`; a tile where the compiler divides the work."""
    if trace.launch.open:
        return tiles.zeros(trace, shape, _dtype(trace, dtype))
    return full(trace, shape, 0, dtype)


def full(trace: Trace, shape: object, value: object, dtype: object) -> Value:
    """`full(n, value, dtype)`; a tile where the compiler divides the work."""
    to = _dtype(trace, dtype)
    held = cast(trace, value, to)
    if not isinstance(held.type, DType):
        raise trace.fail("E0210", "`full` repeats one scalar")
    if trace.launch.open:
        return tiles.full(trace, shape, held)
    kind = vector_type(trace, to, _length(trace, shape))
    return trace.emit("splat", held, attrs=(kind.count,))


def iota(trace: Trace, n: object, dtype: object = i32) -> Value:
    """`iota(n)`; a tile where the compiler divides the work."""
    to = _dtype(trace, dtype)
    if trace.launch.open:
        return tiles.iota(trace, n, to)
    kind = vector_type(trace, to, _length(trace, n))
    return vector_of(trace, [trace.const(i, to) for i in range(kind.count)])


def dot(trace: Trace, a: object, b: object) -> object:
    """`dot(a, b)`: products summed from left to right."""
    x, y = load_both(trace, a, b)
    if not (_f32_vector(x) and _f32_vector(y)) or x.type is not y.type:  # pyright: ignore[reportAttributeAccessIssue]
        shown = f"{described(x)} and {described(y)}"
        raise trace.fail("E0201", f"`dot` takes two f32 vectors of one length, not {shown}")
    products = trace.emit("mul", x, y)  # pyright: ignore[reportArgumentType]
    return reduced(trace, products, "add")


def dot4(trace: Trace, a: object, b: object, c: object) -> object:
    """`dot4(a, b, c)`: the bytes of two words multiplied and added to c."""
    held = [loaded(trace, x) for x in (a, b, c)]
    if not any(runtime(x) for x in held):
        return _eagerly(trace, LANG.dot4, held)
    return trace.emit("dot4", *(as_value(trace, x, i32) for x in held), surface="dot4")


def _f32_vector(x: object) -> bool:
    return isinstance(x, Value) and isinstance(x.type, Vector) and x.type.elem is f32


def reduced(trace: Trace, x: object, op: str, axis: object = None) -> object:
    """The elements of a vector combined from left to right, or one axis of a tile."""
    value = loaded(trace, x)
    if isinstance(value, Value) and isinstance(value.type, Tile):
        return tiles.reduced(trace, value, op, axis)
    if not isinstance(value, Value) or not isinstance(value.type, Vector):
        raise trace.fail("E0204", f"{described(value)} is not a vector")
    if axis is not None:
        raise trace.fail("E0113", "a vector has one axis: leave `axis` out")
    total = trace.emit("extract", value, attrs=(0,))
    for i in range(1, value.type.count):
        total = trace.emit(op, total, trace.emit("extract", value, attrs=(i,)))
    return total


def reduction(op: str) -> Handler:
    """`x.sum()`, `t.max(axis=1)` and their kin."""

    def emit(trace: Trace, owner: object, axis: object = None) -> object:
        return reduced(trace, owner, op, axis)

    return emit


def table(trace: Trace, array: object, dtype: object) -> View:
    """`table(array, dtype)`: a constant array."""
    to = _dtype(trace, dtype)
    compile_time(trace, "`table`", array)
    try:
        with scalar.quiet():
            data = np.ascontiguousarray(scalar.cast(np.asarray(array), to))
    except Exception as wrong:
        raise trace.fail("E0110", f"`table`: {wrong}") from None
    if data.ndim == 0 or not 1 <= data.size <= MAX_TABLE:
        raise trace.fail("E0113", f"`table` of shape {data.shape}: give 1 to {MAX_TABLE} numbers")
    data = data.astype(to.np)
    kind = tensor(to, data.ndim, "table", data.shape)
    return whole(trace.emit("table", attrs=(kind, data.tobytes())), data.shape)


# --- methods --------------------------------------------------------------------------------------


def to(trace: Trace, owner: object, dtype: object) -> Value:
    """`x.to(dtype)`."""
    return cast(trace, owner, _dtype(trace, dtype))


def count_lanes(trace: Trace, owner: Mask) -> Value:
    """`mask.count()`."""
    return trace.emit("cast", trace.emit("popcount", owner.value), attrs=(LANG.u32,))


def count_below(trace: Trace, owner: Mask) -> Value:
    """`mask.below()`: lanes of the mask below this one."""
    wide = LANG.u64
    at = trace.emit("thread", attrs=(trace.index,))
    lane = arithmetic.binary(trace, "mod", at, trace.simd)
    assert isinstance(lane, Value)
    bit = trace.emit("shl", trace.const(1, wide), trace.emit("cast", lane, attrs=(wide,)))
    under = trace.emit("sub", bit, trace.const(1, wide))
    return count_lanes(trace, Mask(trace.emit("and", owner.value, under)))


def packed(name: str) -> Handler:
    """`w.decode(...)`, `w.dot(...)`: the codec's own body, inlined."""

    def emit(trace: Trace, owner: PackedView, *args: object) -> object:
        codec = getattr(owner.format, "codec", None)
        body = getattr(codec, name, None) or getattr(owner.format, name, None)
        if body is None:
            raise trace.fail("E0601", f"format {owner.format!r} has no `{name}`")
        return call(trace, body, [owner, *args], {})

    return emit


METHODS: dict[str, Handler] = {
    "to": to,
    "sum": reduction("add"),
    "max": reduction("max"),
    "min": reduction("min"),
    "any": reduction("or"),
    "all": reduction("and"),
    "tiles": tiles.tiles,
    "at": tiles.at,
    "gather": tiles.gather,
    "scatter": tiles.scatter,
    "count": count_lanes,
    "below": count_below,
    "decode": packed("decode"),
    "dot": packed("dot"),
}

# lang function -> row, where the names differ
ROWS = {"absolute": "abs", "power": "pow"}
SINGULAR = """
fma mulhi sign copysign fmin fmax sqrt rint floor ceil trunc popcount clz ctz reverse_bits
exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh
acosh atanh erf erfinv power rsqrt sigmoid fast_exp2 fast_rcp fast_rsqrt
"""


def functions() -> dict[Any, Handler]:
    """The emitter of every function the language knows."""
    known: dict[Any, Handler] = {
        getattr(LANG, name): elementwise(ROWS.get(name, name), getattr(LANG, name))
        for name in SINGULAR.split()
    }
    own = (add, absolute, cdiv, next_pow2, where, bitcast, vec, zeros, full, iota, dot, dot4, table)
    for handler in (*own, *launching.EMITTERS, *collectives.EMITTERS, *tiles.EMITTERS):
        known[getattr(LANG, handler.__name__)] = handler
    known |= collectives.family()
    known |= {LANG.minimum: extreme("min"), LANG.maximum: extreme("max")}
    known |= {min: extreme("min"), max: extreme("max"), abs: absolute, range: read_range}
    known |= {len: read_len, sum: read_sum, isinstance: read_isinstance}
    return known
