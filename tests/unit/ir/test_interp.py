"""The interpreter's results: control flow, vectors, collectives, memory, launch geometry."""

import numpy as np
import pytest

from iron.dtypes import bf16, bool_, f16, f32, i32, i64, u8, u32, u64
from iron.ir.core import Block, Kernel, Value
from iron.ir.interp import run
from iron.ir.types import tensor, vector
from iron.ir.verify import verify
from tests.unit.ir.handmade import Handmade


def execute(kernel: Kernel, arrays, grid=(1,), scalars=None, dims=None, **options) -> None:
    verify(kernel)
    run(kernel, arrays, scalars or {}, dims or {}, grid, **options)


def region(p: Handmade, params: list[Value], make) -> Block:
    with p.b.block(params) as block:
        p.do("yield", *make())
    return block


def test_elementwise_over_many_chunks():
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    s = p.scalar("s", f32)
    at = p.place()
    p.store(y, at, p.emit("fma", p.load(x, at), s, p.const(1.0, f32)))
    n = 32 * 700
    a, out = np.random.default_rng(0).normal(size=n).astype(np.float32), np.full(n, np.nan, "f4")
    execute(p.done(), {"x": a, "y": out}, (700,), {"s": np.float32(3)})
    assert np.array_equal(out, (a.astype(np.float64) * 3 + 1).astype(np.float32))


def test_group_indices_run_first_axis_fastest():
    p = Handmade(threads=1, rank=3)
    y = p.tensor("y", i32, "out", 3)
    axes = [p.group(a) for a in range(3)]
    code = axes[0]
    for axis, scale in ((1, 10), (2, 100)):
        code = p.emit("add", code, p.emit("mul", axes[axis], p.const(scale)))
    p.store(y, *axes, code)
    out = np.full((2, 3, 5), -1, np.int32)
    execute(p.done(), {"y": out}, (2, 3, 5))
    i, j, k = np.indices(out.shape)
    assert np.array_equal(out, i + 10 * j + 100 * k)


@pytest.mark.parametrize("grid", [(0,), (4, 0), (0, 7)])
def test_empty_launch_does_nothing(grid):
    p = Handmade(rank=len(grid))
    y = p.tensor("y", i32, "out")
    p.store(y, p.thread(), p.thread())
    execute(p.done(), {"y": np.zeros(0, np.int32)}, grid)


def test_strided_and_reversed_arrays_are_used_in_place():
    p = Handmade(threads=4)
    x, y = p.tensor("x", f32, rank=2), p.tensor("y", f32, "out", 2)
    row, t = p.group(), p.thread()
    p.store(y, t, row, p.load(x, row, t))
    base, target = np.arange(60, dtype=np.float32).reshape(6, 10), np.full((8, 9), np.nan, "f4")
    a, out = base[::-2, 1:9:2], target[::-2, ::3]
    execute(p.done(), {"x": a, "y": out}, (3,))
    assert np.array_equal(target[::-2, ::3], a.T)
    assert np.isnan(target).sum() == 72 - 12


@pytest.mark.parametrize("elem", [f16, bf16, u8, f32, i64])
def test_vectors_load_take_apart_and_store(elem):
    p = Handmade(threads=4)
    x, y = p.tensor("x", elem), p.tensor("y", elem, "out")
    at = p.emit("mul", p.thread(), p.const(3))
    v = p.load(x, at, count=3)
    parts = [p.emit("extract", v, attrs=(i,)) for i in (2, 0, 1)]
    p.store(y, at, p.emit("pack", *parts))
    a, out = np.arange(12).astype(elem.np), np.zeros(12, elem.np)
    execute(p.done(), {"x": a, "y": out})
    assert np.array_equal(out.reshape(4, 3), a.reshape(4, 3)[:, [2, 0, 1]])


def test_bitcasts_between_widths_keep_memory_order():
    p = Handmade(threads=4)
    x, y = p.tensor("x", u32), p.tensor("y", u8, "out")
    z = p.tensor("z", u32, "out")
    t = p.thread()
    parts = p.emit("bitcast", p.load(x, t), attrs=(u8,))
    p.store(y, p.emit("mul", t, p.const(4)), parts)
    whole = p.emit("bitcast", parts, attrs=(u32,))
    p.store(z, t, p.emit("extract", whole, attrs=(0,)))
    a = np.array([0x04030201, 1, 0xFFEEDDCC, 7], np.uint32)
    low, back = np.zeros(16, np.uint8), np.zeros(4, np.uint32)
    execute(p.done(), {"x": a, "y": low, "z": back})
    assert np.array_equal(low, a.view(np.uint8))
    assert np.array_equal(back, a)


def test_divergent_if_blends_scalars_and_vectors():
    p = Handmade(threads=8, simd=8)
    y, z = p.tensor("y", i32, "out"), p.tensor("z", i32, "out")
    t = p.thread()
    low = p.emit("lt", t, p.const(3))
    two = vector(i32, 2)
    sides = [
        region(p, [], lambda k=k: (p.emit("add", t, p.const(k)), p.const(k, two))) for k in (10, 20)
    ]
    a, v = p.do("if", low, regions=tuple(sides))
    p.store(y, t, a)
    p.store(z, p.emit("mul", t, p.const(2)), v)
    out, pairs = np.zeros(8, np.int32), np.zeros(16, np.int32)
    execute(p.done(), {"y": out, "z": pairs})
    want = np.where(np.arange(8) < 3, 10, 20)
    assert np.array_equal(out, want + np.arange(8))
    assert np.array_equal(pairs, want.repeat(2))


def loop(p: Handmade, bounds, inits, body, stop=False):
    params = [Value(bounds[0].type), *(Value(v.type) for v in inits)]
    with p.b.block(params) as block:
        p.do("yield", *body(*params))
    return p.do("for", *bounds, *inits, attrs=(stop,), regions=(block,))


def test_loop_with_bounds_that_differ_by_thread():
    p = Handmade(threads=8, simd=8)
    y = p.tensor("y", i32, "out")
    t = p.thread()
    (total,) = loop(
        p, (p.const(1), t, p.const(2)), [p.const(100)], lambda i, s: (p.emit("add", s, i),)
    )
    p.store(y, t, total)
    out = np.zeros(8, np.int32)
    execute(p.done(), {"y": out})
    assert out.tolist() == [100 + sum(range(1, t, 2)) for t in range(8)]


def test_loop_that_stops_ends_after_the_turn_that_says_so():
    p = Handmade(threads=8, simd=8)
    y = p.tensor("y", i32, "out")
    t = p.thread()

    def body(i, s):
        return p.emit("eq", i, t), p.emit("add", s, p.const(1))

    (turns,) = loop(p, (p.const(0), p.const(5), p.const(1)), [p.const(0)], body, stop=True)
    p.store(y, t, turns)
    out = np.zeros(8, np.int32)
    execute(p.done(), {"y": out})
    assert out.tolist() == [1, 2, 3, 4, 5, 5, 5, 5]


@pytest.mark.parametrize(
    ("dtype", "low", "high", "step"),
    [
        (i32, 2**31 - 5, 2**31 - 1, 3),
        (u32, 2**32 - 7, 2**32 - 1, 4),
        (i32, -(2**31), 2**31 - 1, 2**30),
    ],
)
def test_loop_near_the_end_of_its_type_does_not_wrap(dtype, low, high, step):
    p = Handmade(threads=1)
    y = p.tensor("y", i32, "out")
    bounds = tuple(p.const(v, dtype) for v in (low, high, step))
    (turns,) = loop(p, bounds, [p.const(0)], lambda i, n: (p.emit("add", n, p.const(1)),))
    p.store(y, p.const(0), turns)
    out = np.zeros(1, np.int32)
    execute(p.done(), {"y": out})
    assert out[0] == len(range(low, high, step))


def test_break_under_a_branch_with_an_inner_loop():
    p = Handmade(threads=4)
    y = p.tensor("y", i32, "out")
    t = p.thread()

    def outer(i, s):
        (inner,) = loop(p, (p.const(0), i, p.const(1)), [s], lambda j, a: (p.emit("add", a, j),))
        return (inner,)

    odd = p.emit("eq", p.emit("and", t, p.const(1)), p.const(1))
    then = region(p, [], lambda: loop(p, (p.const(0), t, p.const(1)), [p.const(0)], outer))
    other = region(p, [], lambda: (p.const(-1),))
    (r,) = p.do("if", odd, regions=(then, other))
    p.store(y, t, r)
    out = np.zeros(4, np.int32)
    execute(p.done(), {"y": out})
    assert out.tolist() == [-1, 0, -1, sum(j for i in range(3) for j in range(i))]


def reference_reduce(x, threads, simd, width, f):
    """The order of reductions, one thread after another."""
    width = width or threads
    out = np.empty_like(x)
    for start in range(0, len(x), width):
        totals = []
        for part in range(start, start + width, min(simd, width)):
            lanes = list(x[part : part + min(simd, width)])
            step = 1
            while step < len(lanes):
                lanes = [f(lanes[i & ~step], lanes[i | step]) for i in range(len(lanes))]
                step *= 2
            totals.append(lanes[0])
        total = totals[0]
        for other in totals[1:]:
            total = f(total, other)
        out[start : start + width] = total
    return out


@pytest.mark.parametrize("width", [0, 1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("name", ["add", "sub"])
def test_reduce_keeps_its_order(width, name):
    p = Handmade(threads=32, simd=8)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    at = p.place()
    f = p.function(name, f32)
    p.store(y, at, p.emit("reduce", p.load(x, at), attrs=(width,), regions=(f,)))
    a = np.random.default_rng(width).normal(size=96).astype(np.float32) * 1e3
    out = np.full(96, np.nan, np.float32)
    execute(p.done(), {"x": a, "y": out}, (3,))
    combine = np.add if name == "add" else np.subtract
    assert np.array_equal(out, reference_reduce(a, 32, 8, width, combine))


def test_reduce_combines_tuples_jointly():
    p = Handmade(threads=16, simd=4)
    x, y = p.tensor("x", i32), p.tensor("y", i32, "out")
    t = p.thread()
    v1, k1, v2, k2 = (Value(i32) for _ in range(4))
    with p.b.block((v1, k1, v2, k2)) as best:
        better = p.emit("gt", v2, v1)
        p.do("yield", p.emit("where", better, v2, v1), p.emit("where", better, k2, k1))
    _, where = p.do("reduce", p.load(x, t), t, attrs=(0,), regions=(best,))
    p.store(y, t, where)
    a = np.array([3, 9, 2, 9, 1, 8, 9, 0, 5, 5, 5, 5, 9, 9, 9, 9], np.int32)
    out = np.zeros(16, np.int32)
    execute(p.done(), {"x": a, "y": out})
    assert (out == 1).all()


def test_function_of_a_reduction_does_not_run_for_absent_groups():
    """Group 1 stays away; its values would make the function's loop very long."""
    p = Handmade(threads=4)
    x, y = p.tensor("x", i32), p.tensor("y", i32, "inout")
    at, here = p.place(), p.emit("eq", p.group(), p.const(0))
    v = p.load(x, at)
    a, b = Value(i32), Value(i32)
    with p.b.block((a, b)) as body:
        one = p.const(1)
        p.do("yield", *loop(p, (p.const(0), a, one), [b], lambda i, s: (p.emit("add", s, one),)))

    def then():
        p.store(y, at, p.emit("reduce", v, attrs=(0,), regions=(body,)))
        return ()

    p.do("if", here, regions=(region(p, [], then), region(p, [], lambda: ())))
    given, out = np.array([1, 2, 3, 4] + [2**21] * 4, np.int32), np.zeros(8, np.int32)
    execute(p.done(), {"x": given, "y": out}, (2,))
    assert out.tolist() == [10] * 4 + [0] * 4


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("width", [0, 1, 4, 16])
def test_scan_runs_in_thread_order(width, exclusive):
    p = Handmade(threads=32, simd=8)
    x, y = p.tensor("x", i32), p.tensor("y", i32, "out")
    at = p.place()
    # the right operand, unless it is the unit: associative, not commutative
    a, b = Value(i32), Value(i32)
    with p.b.block((a, b)) as right:
        p.do("yield", p.emit("where", p.emit("eq", b, p.const(0)), a, b))
    p.store(
        y,
        at,
        p.emit("scan", p.load(x, at), p.const(0), attrs=(width, exclusive), regions=(right,)),
    )
    a = np.random.default_rng(1).integers(0, 3, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    execute(p.done(), {"x": a, "y": out}, (2,))
    want, state = [], 0
    for i, value in enumerate(a):
        last = 0 if i % (width or 32) == 0 else state
        state = value or last
        want.append(last if exclusive else state)
    assert out.tolist() == want


def test_exchange_and_ballot():
    p = Handmade(threads=16, simd=8)
    x, y, z = p.tensor("x", i32), p.tensor("y", i32, "out"), p.tensor("z", u64, "out")
    at = p.place()
    v = p.load(x, at)
    p.store(y, at, p.emit("exchange", v, attrs=(11,)))
    p.store(z, at, p.emit("ballot", p.emit("gt", v, p.const(0))))
    a = np.random.default_rng(5).integers(-9, 9, 32).astype(np.int32)
    out, votes = np.zeros(32, np.int32), np.zeros(32, np.uint64)
    execute(p.done(), {"x": a, "y": out, "z": votes}, (2,))
    lane = np.arange(32)
    assert np.array_equal(out, a[lane ^ 11])
    want = [sum(int(a[n // 8 * 8 + k] > 0) << k for k in range(8)) for n in lane]
    assert votes.tolist() == want


def test_group_of_one_thread_has_trivial_collectives():
    p = Handmade(threads=1, simd=32)
    x, y = p.tensor("x", i32), p.tensor("y", i32, "out")
    g = p.group()
    v = p.load(x, g)
    r = p.emit("reduce", v, attrs=(0,), regions=(p.function("add", i32),))
    s = p.emit("scan", r, p.const(0), attrs=(0, True), regions=(p.function("add", i32),))
    vote = p.emit("cast", p.emit("ballot", p.emit("eq", v, v)), attrs=(i32,))
    p.do("barrier")
    p.store(y, g, p.emit("add", p.emit("add", r, s), vote))
    a, out = np.arange(5, dtype=np.int32), np.zeros(5, np.int32)
    execute(p.done(), {"x": a, "y": out}, (5,))
    assert np.array_equal(out, a + 1)


def test_shared_memory_belongs_to_its_group():
    p = Handmade(threads=8, simd=4)
    x, y = p.tensor("x", i32), p.tensor("y", i32, "out")
    t, at = p.thread(), p.place()
    buffer = p.emit("shared", attrs=(tensor(i32, 1, "shared", (8,)),))
    p.store(buffer, t, p.load(x, at))
    p.do("barrier")
    p.store(y, at, p.load(buffer, p.emit("sub", p.const(7), t)))
    a, out = np.arange(24, dtype=np.int32), np.zeros(24, np.int32)
    execute(p.done(), {"x": a, "y": out}, (3,))
    assert np.array_equal(out.reshape(3, 8), a.reshape(3, 8)[:, ::-1])


def test_atomics_take_turns_and_cross_groups():
    p = Handmade(threads=8, simd=8)
    x, y = p.tensor("x", u32), p.tensor("y", u32, "inout")
    at = p.place()
    old = p.emit("atomic", y, p.load(x, at), p.const(1, u32), attrs=("add",))
    p.do("atomic", y, p.const(3), old, attrs=("max",))
    a = np.array([0, 1, 2, 2, 2, 1, 0, 2] * 3, np.uint32)
    out = np.array([0, 5, 2**32 - 4, 0], np.uint32)
    execute(p.done(), {"x": a, "y": out}, (3,))
    assert out.tolist() == [6, 11, 8, 2**32 - 1]


def test_tables_are_constant_memory():
    p = Handmade(threads=4)
    y = p.tensor("y", f32, "out")
    t = p.thread()
    values = np.array([[1.5, -2.0], [np.inf, 0.25]], np.float32)
    place = tensor(f32, 2, "table", (2, 2))
    data = p.emit("table", attrs=(place, values.tobytes()))
    row, column = p.emit("shr", t, p.const(1)), p.emit("and", t, p.const(1))
    p.store(y, t, p.load(data, row, column))
    out = np.zeros(4, np.float32)
    execute(p.done(), {"y": out})
    assert np.array_equal(out, values.reshape(-1))


def test_long_index_type():
    p = Handmade(threads=4, index=i64)
    y = p.tensor("y", i64, "out")
    n = p.dim("N")
    at = p.place()
    p.store(y, at, p.emit("mul", n, p.emit("add", at, p.const(1, i64))))
    out = np.zeros(8, np.int64)
    execute(p.done(), {"y": out}, (2,), dims={"N": 2**33})
    assert out.tolist() == [2**33 * (i + 1) for i in range(8)]


def test_zero_dimensional_tensors():
    p = Handmade(threads=1)
    x, y = p.tensor("x", f32, rank=0), p.tensor("y", f32, "out", 0)
    p.store(y, p.emit("neg", p.load(x)))
    out = np.array(np.nan, np.float32)
    execute(p.done(), {"x": np.array(2, np.float32), "y": out})
    assert out == -2


def test_bool_tensors():
    p = Handmade(threads=4)
    x, y = p.tensor("x", bool_), p.tensor("y", bool_, "out")
    t = p.thread()
    p.store(y, t, p.emit("not", p.load(x, t)))
    a, out = np.array([True, False, False, True]), np.zeros(4, bool)
    execute(p.done(), {"x": a, "y": out})
    assert np.array_equal(out, ~a)
