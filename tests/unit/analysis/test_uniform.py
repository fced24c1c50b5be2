"""Uniformity levels, and the errors for collectives that only some threads reach."""

import linecache

import pytest

from iron.analysis.uniform import GROUP, SIMD, VARYING, Uniformity, check_uniform, uniformity
from iron.dtypes import bool_, f32, i32, u32
from iron.errors import KernelError, Loc
from iron.ir.core import Block, Value
from iron.ir.types import tensor
from tests.unit.ir.handmade import Handmade


def levels(p: Handmade) -> Uniformity:
    return uniformity(p.done())


def empty(p: Handmade) -> Block:
    with p.b.block() as block:
        p.do("yield")
    return block


def looped(p: Handmade, low: Value, high: Value, body, *inits: Value, stop: bool = False):
    counter = Value(low.type)
    params = [Value(v.type) for v in inits]
    with p.b.block((counter, *params)) as block:
        p.do("yield", *body(counter, *params))
    step = p.const(1, low.type)
    return counter, params, p.b.emit_all("for", (low, high, step, *inits), (stop,), (block,))


def branch(p: Handmade, condition: Value, then, other):
    blocks = []
    for side in (then, other):
        with p.b.block() as block:
            p.do("yield", *side())
        blocks.append(block)
    return p.b.emit_all("if", (condition,), (), tuple(blocks))


def test_sources():
    p = Handmade(threads=64, simd=32)
    x, s, n = p.tensor("x", f32), p.scalar("s", f32), p.dim("N")
    t, g = p.thread(), p.group()
    both = p.emit("add", t, n)
    same, moved = p.load(x, g), p.load(x, both)
    u = levels(p)
    assert [u.of(v) for v in (s, n, t, g, both, same, moved)] == [0, 0, 2, 0, 2, 0, 2]
    assert (u.width, u.simdgroups) == (32, 2)


def test_one_thread_is_uniform():
    p = Handmade(threads=1, simd=32)
    memory = p.tensor("m", i32, "inout")
    t = p.thread()
    old = p.emit("atomic", memory, t, t, attrs=("add",))
    (scanned,) = p.b.emit_all("scan", (t, t), (0, False), (p.function("add", i32),))
    u = levels(p)
    assert [u.of(v) for v in (t, old, scanned)] == [0, 0, 0]


@pytest.mark.parametrize("simd", [8, 32])
def test_quotients_of_the_thread_number(simd: int):
    """`thread // c` and `thread >> k`, exhaustively, against the numbers themselves."""
    for c in [*range(-70, 140), 2**31 - 1, -(2**31)]:
        for name in ("floordiv", "shr"):
            p = Handmade(threads=64, simd=simd)
            v = p.emit(name, p.thread(), p.const(c))
            level = levels(p).of(v)
            number = [t // c if c else 0 for t in range(64)]
            if name == "shr":
                number = [t >> (c % 32) for t in range(64)]
            parts = [set(number[i : i + simd]) for i in range(0, 64, simd)]
            if level == GROUP:
                assert len(set(number)) == 1, (name, c)
            if level == SIMD:
                assert all(len(part) == 1 for part in parts), (name, c)
    p = Handmade(threads=64, simd=simd)
    v = p.emit("floordiv", p.thread(), p.const(simd))
    assert levels(p).of(v) == SIMD


@pytest.mark.parametrize(
    ("width", "level"), [(0, GROUP), (128, GROUP), (64, SIMD), (32, SIMD), (16, VARYING)]
)
def test_reductions_share_their_result(width: int, level: int):
    p = Handmade(threads=128, simd=32)
    (total,) = p.b.emit_all("reduce", (p.thread(),), (width,), (p.function("add", i32),))
    (same,) = p.b.emit_all("reduce", (p.group(),), (width,), (p.function("add", i32),))
    u = levels(p)
    assert (u.of(total), u.of(same)) == (level, GROUP)


def test_other_collectives():
    p = Handmade(threads=64, simd=32)
    t = p.thread()
    low = p.emit("lt", t, p.const(3))
    (scanned,) = p.b.emit_all("scan", (p.group(), p.group()), (0, True), (p.function("add", i32),))
    values = [
        p.emit("exchange", t, attrs=(1,)),
        p.emit("exchange", p.group(), attrs=(1,)),
        p.emit("ballot", low),
        scanned,
    ]
    u = levels(p)
    assert [u.of(v) for v in values] == [VARYING, GROUP, SIMD, VARYING]


def test_a_single_simdgroup_makes_ballots_group_uniform():
    p = Handmade(threads=32, simd=32)
    votes = p.emit("ballot", p.emit("lt", p.thread(), p.const(3)))
    assert levels(p).of(votes) == GROUP


def test_branches_join_their_condition():
    p = Handmade(threads=8, simd=8)
    n = p.dim("N")
    varying = p.emit("lt", p.thread(), n)
    uniform = p.emit("lt", p.group(), n)
    (a,) = branch(p, varying, lambda: [n], lambda: [p.group()])
    (b,) = branch(p, uniform, lambda: [n], lambda: [p.group()])
    (c,) = branch(p, uniform, lambda: [n], lambda: [p.thread()])
    u = levels(p)
    assert [u.of(v) for v in (a, b, c)] == [VARYING, GROUP, VARYING]


def test_loops_join_bounds_stop_and_what_they_carry():
    p = Handmade(threads=8, simd=8)
    n, t = p.dim("N"), p.thread()
    zero = p.const(0)
    counter, params, results = looped(p, zero, n, lambda i, a, b: [b, t], zero, zero)
    moved, _, (turns,) = looped(p, zero, t, lambda i, a: [p.emit("add", a, p.const(1))], zero)
    started, _, _ = looped(p, t, n, lambda i: [])
    flag = p.emit("eq", t, zero)
    _, _, (stopped,) = looped(p, zero, n, lambda i, a: [flag, a], zero, stop=True)
    u = levels(p)
    assert [u.of(v) for v in (counter, *params, *results)] == [GROUP] + [VARYING] * 4
    assert [u.of(v) for v in (moved, turns, started, stopped)] == [GROUP, VARYING, VARYING, VARYING]


# --- the check ------------------------------------------------------------------------------------

SOURCE = [
    "total = 0.0",
    "if thread < n:",
    "    total = group_sum(s)",
    "for i in range(thread, n):",
    "    barrier()",
]


@pytest.fixture
def source(tmp_path):
    name = str(tmp_path / "bad.py")
    linecache.cache[name] = (1, None, [line + "\n" for line in SOURCE], name)
    yield name
    del linecache.cache[name]


def refusal(p: Handmade) -> KernelError:
    with pytest.raises(KernelError) as caught:
        check_uniform(p.done())
    assert caught.value.id == "E0312"
    return caught.value


def test_a_reduction_in_a_varying_branch_is_refused(source: str):
    p = Handmade(threads=64, simd=32)
    s, n = p.scalar("s", f32), p.dim("n")
    p.b.loc = Loc(source, 2, 3, 13)
    condition = p.emit("lt", p.thread(), n)
    with p.b.block() as then:
        p.b.loc = Loc(source, 3, 12, 24)
        total = p.b.emit_all("reduce", (s,), (0,), (p.function("add", f32),), "group_sum")
        p.do("yield", *total)
    with p.b.block() as other:
        p.do("yield", s)
    p.b.loc = Loc(source, 2, 0, 14)
    p.do("if", condition, regions=(then, other))
    lines = str(refusal(p)).splitlines()
    assert lines[0] == (
        "error[E0312]: `group_sum` needs every thread of the group, but only some threads reach it"
    )
    assert lines[1].startswith(" --> bad.py:3:13 in kernel handmade")
    assert lines[3:5] == ["3 |     total = group_sum(s)", "  |             ^^^^^^^^^^^^"]
    assert lines[5] == (
        "  = note: the branch on line 2 depends on `thread < n`, which differs between threads"
    )
    assert lines[6] == (
        "  = help: move the call out of the branch and pass 0 from threads that have no value"
    )


def test_a_barrier_in_a_varying_loop_is_refused(source: str):
    p = Handmade(threads=64, simd=32)
    n = p.dim("n")
    t = p.thread()
    t.name = "thread"
    p.b.loc = Loc(source, 4, 0, 26)
    looped(p, t, n, lambda i: p.do("barrier"))
    fault = refusal(p).diagnostic
    assert fault.notes == (
        "the loop on line 4 runs a number of turns that depends on `thread`, "
        "which differs between threads",
    )
    assert "barrier" in fault.help


def test_a_varying_stop_is_refused():
    p = Handmade(threads=8, simd=8)
    n, t = p.dim("n"), p.thread()

    def body(i: Value):
        p.do("barrier")
        return [p.emit("eq", t, i)]

    looped(p, p.const(0), n, body, stop=True)
    refusal(p)


def test_even_a_narrow_collective_must_be_reached_by_the_group():
    p = Handmade(threads=64, simd=32)
    mine = p.emit("floordiv", p.thread(), p.const(32))
    condition = p.emit("eq", mine, p.const(0))
    branch(p, condition, lambda: [p.emit("exchange", p.thread(), attrs=(1,))], lambda: [mine])
    refusal(p)


def test_uniform_control_is_accepted():
    p = Handmade(threads=64, simd=32)
    n, t = p.dim("n"), p.thread()
    shared = p.emit("shared", attrs=(tensor(u32, 1, "shared", (4,)),))

    def body(i: Value):
        p.do("barrier")
        found = p.load(shared, p.const(0))
        branch(p, p.emit("eq", found, p.const(1, u32)), lambda: p.do("barrier"), list)
        return []

    looped(p, p.const(0), n, body)
    branch(
        p,
        p.emit("lt", t, n),
        lambda: [p.emit("not", p.emit("lt", t, n))],
        lambda: [p.const(True, bool_)],
    )
    check_uniform(p.done())


def test_one_thread_needs_no_company():
    p = Handmade(threads=1, simd=32)
    x = p.tensor("x", i32)
    condition = p.emit("lt", p.load(x, p.thread()), p.const(0))
    branch(p, condition, lambda: p.do("barrier"), list)
    check_uniform(p.done())
