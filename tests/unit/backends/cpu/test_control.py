"""Branches and loops agree with the interpreter: varying, nested, stopped, at the edges."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import host
from iron.dtypes import DType, f32, i32, i64, u32
from iron.ir.core import Kernel, Value
from iron.ir.types import Type, vector
from tests.unit.backends.cpu.agree import both
from tests.unit.ir.handmade import Handmade

RNG = np.random.default_rng(8)
WIDTHS = [1, 8, 16, 32, 64]


def loop(
    p: Handmade,
    bounds: tuple[Value, Value, int],
    inits: Sequence[Value],
    body: Callable[..., Sequence[Value]],
    stop: bool = False,
) -> tuple[Value, ...]:
    low, high, step = bounds
    params = [Value(low.type), *(Value(v.type) for v in inits)]
    with p.b.block(params) as block:
        p.do("yield", *body(*params))
    args = (low, high, p.const(step, low.type), *inits)
    return p.b.emit_all("for", args, (stop,), (block,))


def branch(
    p: Handmade, condition: Value, then: Callable[[], Sequence[Value]], other
) -> tuple[Value, ...]:
    sides = []
    for side in (then, other):
        with p.b.block() as block:
            p.do("yield", *(side() or ()))
        sides.append(block)
    return p.b.emit_all("if", (condition,), (), tuple(sides))


def integers(size: int, low: int, high: int, dtype: DType = i32):
    return RNG.integers(low, high, size).astype(dtype.np)


def run(kernel: Kernel, arrays, **rest) -> None:
    total = len(arrays["y"])
    both(kernel, arrays, (total // kernel.threads,), **rest)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("counter", [i32, u32, i64], ids=str)
def test_every_lane_has_its_own_bounds(width: int, counter: DType):
    p = Handmade(threads=width, simd=max(8, width))
    low, high = p.tensor("low", counter), p.tensor("high", counter)
    y = p.tensor("y", i64, "out")
    at = p.place()

    def body(i: Value, total: Value) -> list[Value]:
        mixed = p.emit("mul", total, p.const(3, i64))
        return [p.emit("add", mixed, p.emit("cast", i, attrs=(i64,)))]

    bounds = (p.load(low, at), p.load(high, at), 2)
    p.store(y, at, *loop(p, bounds, [p.const(1, i64)], body))
    arrays = {"low": integers(64, 0, 9, counter), "high": integers(64, 0, 20, counter)}
    run(p.done(), arrays | {"y": np.zeros(64, np.int64)})


@pytest.mark.parametrize("width", WIDTHS)
def test_lanes_step_together_and_leave_a_tail(width: int):
    """The form of every row reduction: from the thread's number by the group's size."""
    for n in (0, 1, width - 1, width, width + 1, 5 * width + 3):
        p = Handmade(threads=width, simd=max(8, width))
        x, y, size = p.tensor("x", f32), p.tensor("y", f32, "out"), p.dim("N")
        t = p.thread()

        def body(i: Value, total: Value) -> list[Value]:
            return [p.emit("add", total, p.load(x, i))]  # noqa: B023

        p.store(y, t, *loop(p, (t, size, width), [p.const(0.5, f32)], body))
        arrays = {"x": RNG.normal(size=n).astype(np.float32), "y": np.zeros(width, np.float32)}
        both(p.done(), arrays, dims={"N": n})


@pytest.mark.parametrize("start", [3, -1, -2, 5])
def test_lanes_that_start_apart(start: int):
    """Counters `start * thread + c`, rising and falling, with and without a uniform stop."""
    p = Handmade(threads=16, simd=16)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    n, t = p.dim("N"), p.thread()
    low = p.emit("add", p.emit("mul", t, p.const(start)), p.const(40))

    def body(i: Value, total: Value) -> list[Value]:
        nearly = p.emit("gt", total, p.const(3.0, f32))
        return [nearly, p.emit("add", p.emit("mul", total, p.const(0.5, f32)), p.load(x, i))]

    p.store(y, t, *loop(p, (low, n, 7), [p.const(0.0, f32)], body, stop=True))
    arrays = {"x": RNG.normal(size=200).astype(np.float32), "y": np.zeros(16, np.float32)}
    both(p.done(), arrays, dims={"N": 190})


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("uniform", [False, True])
def test_stops(width: int, uniform: bool):
    p = Handmade(threads=width, simd=max(8, width))
    x, y, n = p.tensor("x", i32), p.tensor("y", i32, "out"), p.dim("N")
    at = p.place()
    limit = n if uniform else p.load(x, at)

    def body(i: Value, a: Value, b: Value) -> list[Value]:
        return [p.emit("ge", i, limit), b, p.emit("add", a, i)]

    first, second = loop(p, (p.const(0), p.const(12), 1), [n, p.thread()], body, stop=True)
    p.store(y, at, p.emit("sub", first, second))
    run(p.done(), {"x": integers(64, -2, 15), "y": np.zeros(64, np.int32)}, dims={"N": 7})


@pytest.mark.parametrize("t", [i32, f32, vector(f32, 3)], ids=str)
def test_divergent_loops_in_divergent_branches(t: Type):
    """Collatz in a branch in a loop, results of several types blended at each join."""
    p = Handmade(threads=32, simd=32)
    x, y, z = p.tensor("x", i32), p.tensor("y", i32, "out"), p.tensor("z", i32, "inout")
    at = p.place()
    start = p.load(x, at)
    zero, one = p.const(0, t), p.const(1, t)

    def body(i: Value, v: Value, turns: Value) -> list[Value]:
        def odd() -> list[Value]:
            p.store(z, at, i)
            up = p.emit("add", p.emit("mul", v, p.const(3)), p.const(1))
            return [up, p.emit("add", turns, one)]

        def even() -> list[Value]:
            return [p.emit("shr", v, p.const(1)), p.emit("sub", turns, one)]

        bit = p.emit("and", v, p.const(1))
        one_left = p.emit("le", v, p.const(1))
        return [one_left, *branch(p, p.emit("eq", bit, p.const(1)), odd, even)]

    def positive() -> tuple[Value, ...]:
        return loop(p, (p.const(0), start, 1), [start, zero], body, stop=True)

    v, turns = branch(p, p.emit("gt", start, p.const(3)), positive, lambda: [start, one])
    last = (
        turns if not isinstance(t, type(vector(f32, 3))) else p.emit("extract", turns, attrs=(2,))
    )
    p.store(y, at, p.emit("add", v, p.emit("cast", last, attrs=(i32,))))
    arrays = {"x": integers(96, -3, 80), "y": np.zeros(96, np.int32), "z": integers(96, 0, 9)}
    run(p.done(), arrays)


@pytest.mark.parametrize("threads", [8, 32])
def test_group_uniform_branches_and_swaps(threads: int):
    p = Handmade(threads=threads, simd=8)
    y, n = p.tensor("y", i32, "out"), p.dim("N")
    at, t = p.place(), p.thread()

    def body(i: Value, a: Value, b: Value, c: Value) -> list[Value]:
        odd = p.emit("eq", p.emit("and", p.emit("add", i, p.group()), p.const(1)), p.const(1))
        (d,) = branch(p, odd, lambda: [p.emit("add", c, t)], lambda: [p.emit("sub", c, i)])
        return [b, a, d]

    a, b, c = loop(p, (p.const(0), n, 1), [t, n, p.const(0)], body)
    p.store(y, at, p.emit("add", p.emit("mul", c, p.const(10)), p.emit("sub", a, b)))
    run(p.done(), {"y": np.zeros(64, np.int32)}, dims={"N": 5})


def test_counters_do_not_overflow():
    """Bounds at the end of the type: the last turn is not followed by a first one."""
    top = 2**31 - 1
    for width in (1, 8):
        p = Handmade(threads=width, simd=8)
        x, y = p.tensor("x", i32), p.tensor("y", i32, "out")
        at, n = p.place(), p.dim("N")

        def body(i: Value, total: Value) -> list[Value]:
            return [p.emit("add", total, p.const(1))]  # noqa: B023

        zero = p.const(0)
        (a,) = loop(p, (n, p.const(top), 2), [zero], body)
        (b,) = loop(p, (p.load(x, at), p.const(top), 3), [zero], body)
        (c,) = loop(p, (p.emit("add", p.thread(), n), p.const(top), 5), [zero], body)
        p.store(
            y,
            at,
            p.emit(
                "add",
                p.emit("add", a, p.emit("mul", b, p.const(100))),
                p.emit("mul", c, p.const(10000)),
            ),
        )
        x_data = (top - RNG.integers(1, 20, 16)).astype(np.int32)
        arrays = {"x": x_data, "y": np.zeros(16, np.int32)}
        run(p.done(), arrays, dims={"N": top - 20})


def guarded(relation: str, turned: bool) -> Kernel:
    p = Handmade(threads=16, simd=16)
    x, y, n = p.tensor("x", f32), p.tensor("y", f32, "inout"), p.dim("N")
    at = p.place()
    condition = p.emit(relation, *((n, at) if turned else (at, n)))
    branch(p, condition, lambda: p.store(y, at, p.load(x, at)), list)
    return p.done()


@pytest.mark.parametrize("relation", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("turned", [False, True])
def test_guards_take_the_full_path_only_when_all_lanes_do(relation: str, turned: bool):
    kernel = guarded(relation, turned)
    for n in (-(2**31), -1, 0, 1, 15, 16, 17, 31, 32, 47, 48, 2**31 - 1):
        x = RNG.normal(size=48).astype(np.float32)
        run(kernel, {"x": x, "y": np.zeros(48, np.float32)}, dims={"N": n})


def test_a_guard_is_tested_on_one_lane():
    text = compile_kernel(guarded("lt", False), host()).text
    before = text[: text.index("full")]
    assert "icmp slt i64" in before
    assert "bitcast <16 x i1>" not in before


def test_a_loop_in_steps_of_a_block_reads_whole_words():
    """The counter of a loop that all lanes share is a multiple of what its start and step are."""
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", i32), p.tensor("y", i32, "out")

    def body(base: Value) -> list[Value]:
        at = p.emit("add", base, p.thread())
        p.store(y, at, p.load(x, p.emit("shr", at, p.const(3))))
        return []

    first = p.emit("mul", p.emit("group", attrs=(0, i32)), p.const(64))
    loop(p, (first, p.emit("add", first, p.const(64)), 32), [], body)
    kernel = p.done()
    both(kernel, {"x": integers(16, -9, 9), "y": np.zeros(128, np.int32)}, (2,))
    assert "gather" not in compile_kernel(kernel, host()).text
