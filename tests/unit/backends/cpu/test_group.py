"""Collectives and barriers agree with the interpreter at every width and number of simdgroups."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from iron.analysis.uniform import uniformity
from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.simt import Alone, Join, Loop, Piece, split
from iron.dtypes import DType, bool_, f32, i32, u8, u32, u64
from iron.ir.core import Block, Kernel, Value
from iron.ir.types import Type, tensor, vector
from iron.targets.cpu import AARCH64, X86_64_V3, X86_64_V4
from iron.targets.target import Target
from tests.unit.backends.cpu.agree import both
from tests.unit.backends.cpu.test_control import branch, loop
from tests.unit.ir.handmade import Handmade

RNG = np.random.default_rng(9)
SHAPES = [(1, 32), (8, 8), (32, 8), (24, 8), (32, 32), (64, 32), (96, 32), (64, 64), (128, 16)]


def function(p: Handmade, types: Sequence[Type], make: Callable[..., Sequence[Value]]) -> Block:
    low, high = [Value(t) for t in types], [Value(t) for t in types]
    with p.b.block((*low, *high)) as block:
        p.do("yield", *make(*low, *high))
    return block


def arrays(threads: int, groups: int, outs: int, dtype: DType = f32) -> dict:
    n = threads * groups
    x = RNG.normal(size=n).astype(np.float32)
    x[:: 5 if n > 5 else 1] = np.resize([np.nan, -0.0, np.inf, 0.0], len(x[:: 5 if n > 5 else 1]))
    return {"x": x} | {f"y{k}": np.zeros(n, dtype.np) for k in range(outs)}


def widths(threads: int) -> list[int]:
    return [w for w in (0, 1, 2, 8, 16, 32, 64) if w == 0 or threads % w == 0]


@pytest.mark.parametrize(("threads", "simd"), SHAPES)
@pytest.mark.parametrize("name", ["add", "max", "sub"])
def test_reduce_and_scan(threads: int, simd: int, name: str):
    """`sub` is not associative: the order of combination shows."""
    p = Handmade(threads=threads, simd=simd)
    x = p.tensor("x", f32)
    wanted = widths(threads)
    outs = [p.tensor(f"y{k}", f32, "out") for k in range(3 * len(wanted))]
    at = p.place()
    v = p.load(x, at)
    for k, width in enumerate(wanted):
        (total,) = p.b.emit_all("reduce", (v,), (width,), (p.function(name, f32),))
        unit = p.const(0.25, f32)
        made = [total]
        for exclusive in (False, True):
            made += p.b.emit_all("scan", (v, unit), (width, exclusive), (p.function(name, f32),))
        for out, value in zip(outs[3 * k : 3 * k + 3], made, strict=True):
            p.store(out, at, value)
    both(p.done(), arrays(threads, 3, len(outs)), (3,))


@pytest.mark.parametrize(("threads", "simd"), SHAPES)
def test_joint_reduction_of_value_and_place(threads: int, simd: int):
    """The arg-max form: two values combined together, ties to the lower place."""
    p = Handmade(threads=threads, simd=simd)
    x, y0, y1 = p.tensor("x", f32), p.tensor("y0", f32, "out"), p.tensor("y1", f32, "out")
    at = p.place()
    v = p.load(x, at)

    def better(a: Value, i: Value, b: Value, j: Value) -> list[Value]:
        tie = p.emit("and", p.emit("eq", b, a), p.emit("lt", j, i))
        take = p.emit("or", p.emit("gt", b, a), tie)
        return [p.emit("where", take, b, a), p.emit("where", take, j, i)]

    types = [f32, i32]
    for width in (0, 8 if threads % 8 == 0 else 1):
        made = p.b.emit_all("reduce", (v, p.thread()), (width,), (function(p, types, better),))
        unit = (p.const(-1.0, f32), p.const(99))
        run = p.b.emit_all("scan", (v, p.thread(), *unit), (0, True), (function(p, types, better),))
        p.store(y0, at, p.emit("add", made[0], run[0]))
        p.store(y1, at, p.emit("cast", p.emit("add", made[1], run[1]), attrs=(f32,)))
    given = arrays(threads, 2, 2)
    given["x"] = RNG.integers(0, 5, threads * 2).astype(np.float32)
    both(p.done(), given, (2,))


@pytest.mark.parametrize(("threads", "simd"), SHAPES)
@pytest.mark.parametrize("elem", [bool_, u8, u64, f32], ids=str)
def test_collectives_of_other_types_and_of_vectors(threads: int, simd: int, elem: DType):
    p = Handmade(threads=threads, simd=simd)
    x, y = p.tensor("x", f32), p.tensor("y0", f32, "out")
    at = p.place()
    v = p.emit("cast", p.load(x, at), attrs=(elem,))
    pair = p.emit("pack", v, p.emit("cast", p.thread(), attrs=(elem,)))
    name = "xor" if elem is not f32 else "add"
    t = vector(elem, 2)
    body = function(p, [t], lambda a, b: [p.emit(name, a, b)])
    values = [v, *(p.emit("extract", pair, attrs=(1,)) for _ in range(1))]
    for width in (0, 1 if threads == 1 else 8):
        (total,) = p.b.emit_all("reduce", (pair,), (width,), (body,))
        values.append(p.emit("extract", total, attrs=(0,)))
    (run,) = p.b.emit_all("scan", (pair, p.const(1, t)), (0, False), (body,))
    values.append(p.emit("extract", run, attrs=(0,)))
    masks = [m for m in (0, 1, 3, 7, 16, 33) if all(i ^ m < threads for i in range(threads))]
    values += [p.emit("exchange", v, attrs=(m,)) for m in masks]
    sum_ = p.const(0.0, f32)
    for number, value in enumerate(values):
        wide = p.emit("cast", value, attrs=(f32,))
        sum_ = p.emit("fma", wide, p.const(float(number + 1), f32), sum_)
    p.store(y, at, sum_)
    both(p.done(), arrays(threads, 2, 1), (2,))


@pytest.mark.parametrize(("threads", "simd"), SHAPES)
def test_ballot(threads: int, simd: int):
    p = Handmade(threads=threads, simd=simd)
    x, y = p.tensor("x", f32), p.tensor("y0", u64, "out")
    at = p.place()
    votes = p.emit("ballot", p.emit("gt", p.load(x, at), p.const(0.0, f32)))
    all_ = p.emit("ballot", p.emit("ge", p.group(), p.const(0)))
    p.store(y, at, p.emit("xor", votes, p.emit("shr", all_, p.const(1, u64))))
    both(p.done(), arrays(threads, 2, 1, u64), (2,))


@pytest.mark.parametrize(("threads", "simd"), SHAPES)
def test_shared_memory_is_seen_after_a_barrier(threads: int, simd: int):
    """A rotation repeated in a loop with two barriers, an accumulator alive across both."""
    p = Handmade(threads=threads, simd=simd)
    x, y, n = p.tensor("x", f32), p.tensor("y0", f32, "out"), p.dim("N")
    shared = p.emit("shared", attrs=(tensor(f32, 1, "shared", (threads,)),))
    at, t = p.place(), p.thread()
    v = p.load(x, at)
    other = p.emit("mod", p.emit("add", t, p.const(3)), p.const(threads))

    def body(i: Value, mine: Value, total: Value) -> list[Value]:
        p.store(shared, t, mine)
        p.do("barrier")
        theirs = p.load(shared, other)
        first = p.load(shared, p.const(0))
        p.do("barrier")
        scaled = p.emit("mul", p.emit("cast", i, attrs=(f32,)), first)
        return [theirs, p.emit("fma", theirs, scaled, total)]

    mine, total = loop(p, (p.const(0), n, 1), [v, p.const(0.5, f32)], body)
    p.store(y, at, p.emit("sub", mine, total))
    both(p.done(), arrays(threads, 2, 1), (2,), dims={"N": 5})


def tangled(threads: int, simd: int) -> Kernel:
    """Cuts in a uniform branch in a uniform loop that stops, with values of every level carried
    and swapped."""
    p = Handmade(threads=threads, simd=simd)
    x, y, n = p.tensor("x", f32), p.tensor("y0", f32, "out"), p.dim("N")
    at, t, g = p.place(), p.thread(), p.group()
    v = p.load(x, at)
    mine = p.emit("floordiv", t, p.const(simd))

    def body(i: Value, a: Value, b: Value, level: Value, same: Value) -> list[Value]:
        odd = p.emit("eq", p.emit("and", p.emit("add", i, g), p.const(1)), p.const(1))

        def collective() -> list[Value]:
            add = p.function("add", f32)
            (total,) = p.b.emit_all("reduce", (a,), (0,), (add,))
            (run,) = p.b.emit_all("scan", (b, p.const(0.0, f32)), (0, False), (add,))
            return [p.emit("add", total, b), run, p.emit("add", same, p.const(2))]

        def plain() -> list[Value]:
            p.do("barrier")
            return [p.emit("sub", b, a), p.emit("mul", a, v), p.emit("add", same, i)]

        c, d, s = branch(p, odd, collective, plain)
        (most,) = p.b.emit_all("reduce", (level,), (0,), (p.function("max", i32),))
        stop = p.emit("gt", p.emit("add", s, most), p.const(40))
        return [stop, d, c, p.emit("add", level, mine), s]

    inits = [v, p.const(1.0, f32), mine, g]
    a, b, level, same = loop(p, (p.const(0), n, 1), inits, body, stop=True)
    number = p.emit("cast", p.emit("add", level, same), attrs=(f32,))
    p.store(y, at, p.emit("add", p.emit("sub", a, b), number))
    return p.done()


@pytest.mark.parametrize(("threads", "simd"), SHAPES)
def test_tangled_control_around_cuts(threads: int, simd: int):
    given = arrays(threads, 3, 1)
    given["x"] = RNG.integers(-4, 5, threads * 3).astype(np.float32)
    both(tangled(threads, simd), given, (3,), dims={"N": 9})


def test_a_load_stays_behind_the_store_of_its_piece():
    """A group-uniform load after a store in the same interval, by the thread that stored."""
    p = Handmade(threads=16, simd=8)
    memory, y = p.tensor("x", f32, "inout"), p.tensor("y0", f32, "out")
    p.do("barrier")
    t = p.thread()
    one = p.emit("eq", t, p.const(9))

    def write() -> list[Value]:
        p.store(memory, p.const(2), p.const(7.0, f32))
        return [p.load(memory, p.const(2))]

    (seen,) = branch(p, one, write, lambda: [p.const(0.0, f32)])
    p.do("barrier")
    p.store(y, t, p.emit("add", seen, p.load(memory, p.const(2))))
    both(p.done(), {"x": np.zeros(4, np.float32), "y0": np.zeros(16, np.float32)})


# --- the split itself -----------------------------------------------------------------------------


def plan_of(kernel: Kernel):
    return split(kernel, uniformity(kernel))


def test_one_simdgroup_is_one_piece():
    plan = plan_of(tangled(32, 32))
    assert [type(n) for n in plan.nodes] == [Piece]
    assert not plan.slots


def test_cuts_make_pieces_joins_and_group_loops():
    plan = plan_of(tangled(64, 32))
    (outer,) = [n for n in plan.nodes if isinstance(n, Loop)]
    assert any(isinstance(n, Join) for n in outer.body)
    assert plan.slots


def test_group_uniform_ops_run_once_and_thread_arithmetic_is_repeated():
    p = Handmade(threads=64, simd=32)
    x, y, n = p.tensor("x", u32), p.tensor("y0", u32, "out"), p.dim("N")
    t = p.thread()
    once = p.load(x, n)
    at = p.emit("add", p.emit("mul", t, p.const(3)), n)
    v = p.load(x, at)
    p.do("barrier")
    p.store(y, at, p.emit("add", v, once))
    plan = plan_of(p.done())
    assert once.op in [node.op for node in plan.nodes if isinstance(node, Alone)]
    assert v in plan.slots
    assert at in plan.rematerialised
    assert t in plan.rematerialised
    assert at not in plan.slots


@pytest.mark.parametrize(("target", "register"), [(X86_64_V4, 16), (X86_64_V3, 8), (AARCH64, 4)])
def test_reductions_halve_their_vectors_down_to_a_register(target: Target, register: int):
    """Then partners meet in place: one shuffle a level and no narrower sum."""
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y0", f32, "out")
    (total,) = p.b.emit_all("reduce", (p.load(x, p.thread()),), (0,), (p.function("add", f32),))
    p.store(y, p.const(0), total)
    text = compile_kernel(p.done(), target).text
    for width in (2, 4, 8, 16, 32):
        sums = text.count(f"fadd <{width} x float>")
        in_place = register.bit_length() - 1 if width == register else 0
        assert sums == (register <= width < 32) + in_place, width
    assert "fadd float" not in text
