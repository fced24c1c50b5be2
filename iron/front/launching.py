"""The launch statement, requirements, and the loops that share work among threads."""

from __future__ import annotations

from typing import Any

from iron.dtypes import u32
from iron.front import arithmetic
from iron.front.calls import read_range
from iron.front.host import is_pure
from iron.front.scope import Range, View, leaves
from iron.front.state import Handler, Trace
from iron.front.values import as_value, const_int, described, dtype_of, runtime, truth
from iron.front.views import loaded, whole
from iron.ir.core import Require, Value
from iron.ir.types import tensor
from iron.lang.tile import GroupOrder

EACH_THREADS = 256
MAX_THREADS = 1024
MAX_UNROLLED = 65536
MAX_STAGES = 16


def groups(
    trace: Trace, *extents: object, threads: object = None, order: object = None
) -> tuple[Value, ...]:
    """`groups(*extents, threads=n, order=o)`: this group's index along each extent."""
    _first(trace, "groups")
    n = 1 if threads is None else const_int(trace, threads, "`threads`")
    _legal_threads(trace, n)
    launch = trace.launch
    launch.threads, launch.done, launch.open = n, True, threads is None
    launch.order = _order(trace, order, len(extents))
    launch.extents = _extents(trace, extents)
    at = [trace.emit("group", attrs=(i, trace.index)) for i in range(len(extents))]
    return tuple(at)


def _order(trace: Trace, order: object, rank: int) -> tuple[int, int, bool] | None:
    """(axis, size, descending) of a group order."""
    if order is None:
        return None
    if not isinstance(order, GroupOrder):
        raise trace.fail("E0113", f"`order` is {described(order)}", help="`order=grouped(8)`")
    if not (0 <= order.axis < min(rank, 2) and order.size >= 0):
        raise trace.fail(
            "E0113",
            f"an order of {order.size} along axis {order.axis} of {rank} extents",
            help="the axis is that of one of the first two extents, the size at least 0",
        )
    return (order.axis, order.size, order.descending)


def _first(trace: Trace, name: str) -> None:
    if trace.launch.done:
        raise trace.fail("E0303", f"`{name}` after the launch", help="a kernel has one launch")
    if trace.depth:
        raise trace.fail("E0302", f"`{name}` inside a run-time branch or loop")


def _legal_threads(trace: Trace, n: int) -> None:
    if n == 1 or (0 < n <= MAX_THREADS and n % trace.simd == 0):
        return
    up = min(max(1, -(-n // trace.simd)) * trace.simd, MAX_THREADS // trace.simd * trace.simd)
    raise trace.fail(
        "E0301",
        f"threads={n} is neither 1 nor a multiple of simd_width ({trace.simd}) up to {MAX_THREADS}",
        help=f"the next legal value is {up}",
    )


def _extents(trace: Trace, extents: tuple[object, ...]) -> tuple[object, ...]:
    if not extents:
        raise trace.fail("E0113", "a launch has at least one extent")
    return tuple(_integer(trace, e) for e in extents)


def _integer(trace: Trace, x: object) -> Value:
    """A launch extent as a value of the index type."""
    held = loaded(trace, x)
    dtype = dtype_of(held)
    if isinstance(held, float | bool) or (dtype is not None and not dtype.is_integer):
        raise trace.fail("E0201", f"a launch extent is {described(held)}, not an integer")
    value = as_value(trace, held, trace.index)
    if value.type is not trace.index:
        value = trace.emit("cast", value, attrs=(trace.index,))
    if not is_pure(trace, value):
        raise trace.fail(
            "E0302",
            "a launch extent depends on memory or on a thread",
            help="extents are made of dims, Consts and Scalars",
        )
    return value


def each(trace: Trace, *extents: object) -> tuple[Value, ...]:
    """`each(*extents)`: this thread's index along each extent; the tail is masked."""
    _first(trace, "each")
    launch = trace.launch
    sizes = [v for v in _extents(trace, extents) if isinstance(v, Value)]
    total = sizes[0]
    for n in sizes[1:]:
        total = trace.emit("mul", total, n)
    launch.threads = -(-EACH_THREADS // trace.simd) * trace.simd
    held = arithmetic.ceil_div(trace, total, launch.threads)
    launch.done, launch.each, launch.extents = True, True, (held,)
    place = arithmetic.binary(
        trace, "mul", trace.emit("group", attrs=(0, trace.index)), launch.threads
    )
    assert isinstance(place, Value)
    at = trace.emit("add", place, trace.emit("thread", attrs=(trace.index,)))
    launch.tail = trace.emit("lt", at, total)
    trace.mask_the_rest()
    return _unravelled(trace, at, sizes)


def _unravelled(trace: Trace, at: Value, sizes: list[Value]) -> tuple[Value, ...]:
    """The index along each extent; the first varies fastest."""
    out: list[Value] = []
    for n in sizes[:-1]:
        out.append(trace.emit("mod", at, n))
        at = trace.emit("floordiv", at, n)
    return (*out, at)


def require(trace: Trace, condition: object, message: object = "") -> None:
    """`require(condition, message)`: checked on the host before the launch."""
    held = loaded(trace, condition)
    if not isinstance(message, str):
        raise trace.fail("E0113", f"a requirement's message is {described(message)}")
    if not runtime(held):
        if not held:
            raise trace.fail("E0702", f"requirement failed: {message or 'it is never true'}")
        return
    flag = truth(trace, held)
    if trace.depth or not is_pure(trace, flag):
        raise trace.fail(
            "E0302",
            "a requirement depends on memory, on a thread, or on a run-time branch",
            help="it is checked on the host: use dims, Consts and Scalars",
        )
    trace.launch.requires.append((flag, Require(message, trace.loc())))


def strided(trace: Trace, n: object, step: object = 1) -> Range:
    """`strided(n, step)`: this thread's share of 0 .. n."""
    by = const_int(trace, step, "the step of `strided`")
    if by < 1:
        raise trace.fail("E0106", f"`strided` with step {by}", help="the step is at least 1")
    if trace.launch.each:
        raise trace.fail("E0305", "`strided` in an `each` kernel", help="launch with `groups`")
    high = loaded(trace, n)
    at: object = trace.emit("thread", attrs=(trace.index,))
    if dtype_of(high) is u32:
        at = trace.emit("cast", at, attrs=(u32,))
    low = arithmetic.binary(trace, "mul", at, by)
    if not trace.launch.open:
        return Range(low, high, by * trace.launch.threads)
    count = trace.emit("threads", attrs=(trace.index,))
    if dtype_of(high) is u32:
        count = trace.emit("cast", count, attrs=(u32,))
    return Range(low, high, arithmetic.binary(trace, "mul", count, by))


def pipelined(trace: Trace, *bounds: object, stages: object = 1) -> Range:
    """`pipelined(*bounds, stages=s)`: a loop whose tile reads may be early."""
    held = read_range(trace, *bounds)
    n = const_int(trace, stages, "`stages`")
    if not 1 <= n <= MAX_STAGES:
        raise trace.fail("E0106", f"`pipelined` with {n} stages", help=f"1 to {MAX_STAGES}")
    return Range(*held.parts, stages=n)


def unrolled(trace: Trace, *bounds: object) -> range:
    """`unrolled(...)`: a compile-time range."""
    if not 1 <= len(bounds) <= 3:
        raise trace.fail("E0113", "`unrolled` takes one to three bounds")
    numbers = [const_int(trace, b, "a bound of `unrolled`") for b in bounds]
    if len(numbers) == 3 and not numbers[2]:
        raise trace.fail("E0106", "`unrolled` with step 0")
    made = range(*numbers)
    if len(made) > MAX_UNROLLED:
        raise trace.fail("E0106", f"`unrolled` makes {len(made)} turns", help="use `range`")
    return made


def shared(trace: Trace, shape: object, dtype: Any) -> View:
    """`shared(shape, dtype)`: an array of the group."""
    if trace.depth:
        raise trace.fail("E0403", "`shared` inside a run-time branch or loop")
    parts = shape if isinstance(shape, tuple | list) else (shape,)
    sizes = tuple(const_int(trace, n, "the shape of `shared`") for n in leaves(tuple(parts)))
    if not sizes or any(n < 1 for n in sizes):
        raise trace.fail("E0403", f"`shared` of shape {sizes}", help="every size is at least 1")
    if not hasattr(dtype, "bits"):
        raise trace.fail("E0113", f"`shared` needs a dtype, not {described(dtype)}")
    buffer = trace.emit("shared", attrs=(tensor(dtype, len(sizes), "shared", sizes),))
    return whole(buffer, sizes)


EMITTERS: tuple[Handler, ...] = (groups, each, require, strided, pipelined, unrolled, shared)
