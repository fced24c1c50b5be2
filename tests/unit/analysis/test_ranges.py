"""Facts of ranges: launch, loops, guards, requirements, wrapping."""

from dataclasses import replace

import pytest

from iron.analysis.interval import Range, between
from iron.analysis.ranges import Ranges, compared, ranges
from iron.dtypes import bool_, f32, i8, i32, u8, u32
from iron.ir.core import Kernel, Require, Value
from tests.unit.ir.handmade import Handmade


def with_host(p: Handmade, extents, conditions) -> Kernel:
    """The kernel of `p` with a host block made by functions of (p, values by name)."""
    k = p.done()
    params = tuple(Value(q.type, None, q.name) for q in p.params if q.role != "tensor")
    given = {v.name: v for v in params}
    with p.b.block(params) as host:
        checks = [c(p, given) for c in conditions]
        p.do("yield", *(e(p, given) for e in extents), *checks)
    return replace(k, host=host, requires=tuple(Require("r") for _ in checks))


def bounds(facts: Ranges, value: Value) -> tuple[int, int]:
    found = facts.of(value)
    assert found is not None
    return found.low, found.high


def test_launch_bounds_threads_groups_and_places():
    p = Handmade(threads=256, simd=32)
    p.tensor("y", f32, "out")
    n = p.dim("N")
    t, g, place = p.thread(), p.group(), p.place()

    def blocks(p, given):
        minus = p.emit("neg", given["N"])
        return p.emit("neg", p.emit("floordiv", minus, p.const(256)))

    facts = ranges(with_host(p, [blocks], []))
    assert bounds(facts, t) == (0, 255)
    assert bounds(facts, g) == (0, 2**23 - 1)
    assert bounds(facts, place) == (0, 2**31 - 1)
    assert place.op in facts.exact
    assert bounds(facts, n) == (0, 2**31 - 1)


@pytest.mark.parametrize(
    ("condition", "low", "high", "multiple"),
    [
        (lambda p, v: p.emit("lt", v["N"], p.const(100)), 0, 99, 1),
        (lambda p, v: p.emit("ge", p.const(100), v["N"]), 0, 100, 1),
        (lambda p, v: p.emit("gt", v["N"], p.const(7)), 8, 2**31 - 1, 1),
        (lambda p, v: p.emit("eq", v["N"], p.const(64)), 64, 64, 64),
        (
            lambda p, v: p.emit("eq", p.emit("mod", v["N"], p.const(8)), p.const(0)),
            0,
            2**31 - 8,
            8,
        ),
        (
            lambda p, v: p.emit("eq", p.emit("and", v["N"], p.const(7)), p.const(0)),
            0,
            2**31 - 8,
            8,
        ),
        (
            lambda p, v: p.emit(
                "and",
                p.emit("le", v["N"], p.const(50)),
                p.emit("not", p.emit("lt", v["N"], p.const(3))),
            ),
            3,
            50,
            1,
        ),
        (lambda p, v: p.emit("ne", v["N"], p.const(3)), 0, 2**31 - 1, 1),
        (
            lambda p, v: p.emit(
                "or", p.emit("lt", v["N"], p.const(3)), p.emit("gt", v["N"], p.const(9))
            ),
            0,
            2**31 - 1,
            1,
        ),
    ],
)
def test_requirements_are_facts(condition, low, high, multiple):
    p = Handmade()
    n = p.dim("N")
    facts = ranges(with_host(p, [lambda p, v: p.const(1)], [condition]))
    assert bounds(facts, n) == (low, high)
    found = facts.of(n)
    assert found is not None
    assert found.multiple_of(multiple)
    assert not found.multiple_of(multiple * 2)


def test_guards_hold_inside_and_only_there():
    p = Handmade(threads=64, simd=32)
    n, t = p.dim("N"), p.thread()
    seen = []
    with p.b.block() as then:
        seen.append(p.emit("add", t, p.const(1)))
        p.do("yield", t)
    with p.b.block() as other:
        seen.append(p.emit("sub", t, p.const(1)))
        p.do("yield", t)
    (r,) = p.do("if", p.emit("lt", t, p.const(10)), regions=(then, other))
    after = p.emit("add", t, p.const(2))
    facts = ranges(p.done())
    assert bounds(facts, seen[0]) == (1, 10)
    assert bounds(facts, seen[1]) == (9, 62)
    assert bounds(facts, after) == (2, 65)
    assert bounds(facts, r) == (0, 63)
    assert bounds(facts, n) == (0, 2**31 - 1)


def loop(p: Handmade, low, high, step, inits, body):
    params = [Value(i32), *(Value(v.type) for v in inits)]
    with p.b.block(params) as block:
        p.do("yield", *body(*params))
    results = p.do("for", low, high, step, *inits, attrs=(False,), regions=(block,))
    return params[0], results, block


def test_counters_and_carried_values():
    p = Handmade(threads=32, simd=32)
    n, c = p.dim("N"), p.const
    start = p.emit("mul", p.thread(), c(4))
    i, _, _ = loop(p, start, n, c(128), [], lambda i: ())
    counting, results, _ = loop(
        p, c(0), c(10), c(1), [c(0), c(5)], lambda i, a, b: (p.emit("add", a, c(8)), b)
    )
    facts = ranges(p.done())
    assert bounds(facts, i) == (0, 2**31 - 4)
    assert facts.of(i) == between(0, 2**31 - 2, 4, 0)
    assert bounds(facts, counting) == (0, 9)
    total, same = (facts.of(r) for r in results)
    assert total is not None
    assert total.multiple_of(8)
    assert same == Range(5, 5, 0, 5)
    outer, inner = [op for op in p.body.ops if op.name == "for"]
    assert facts.turns(outer) is None
    assert not facts.runs(outer)
    assert facts.turns(inner) == 10
    assert facts.runs(inner)


def test_a_carried_value_that_shrinks_and_grows_is_given_up():
    p = Handmade()
    c = p.const
    _, (r,), _ = loop(p, c(0), p.dim("N"), c(1), [c(1)], lambda i, a: (p.emit("mul", a, c(-3)),))
    assert ranges(p.done()).of(r) == between(-(2**31), 2**31 - 1, 4, 1)


def test_what_may_wrap_is_not_exact_and_keeps_powers_of_two():
    p = Handmade()
    x = p.scalar("x", i8)
    four = p.emit("mul", x, p.const(4, i8))
    eight = p.emit("mul", four, p.const(2, i8))
    facts = ranges(p.done())
    assert four.op not in facts.exact
    assert bounds(facts, four) == (-128, 124)
    found = facts.of(eight)
    assert found is not None
    assert found.multiple_of(8)


def test_casts_bits_and_selections():
    p = Handmade(threads=64, simd=32)
    t = p.thread()
    u = p.emit("cast", p.emit("sub", t, p.const(32)), attrs=(u32,))
    b = p.emit("cast", t, attrs=(u8,))
    f = p.emit("cast", t, attrs=(f32,))
    back = p.emit("cast", f, attrs=(i32,))
    chosen = p.emit("where", p.emit("lt", t, p.const(8)), t, p.const(7))
    bits = p.emit("popcount", t)
    some = p.emit("and", t, p.const(12))
    truth = p.emit("lt", t, p.const(64))
    nothing = p.emit("cast", t, attrs=(bool_,))
    facts = ranges(p.done())
    assert bounds(facts, u) == (0, 2**32 - 1)
    assert bounds(facts, b) == (0, 63)
    assert facts.of(f) is None
    assert bounds(facts, back) == (-(2**31), 2**31 - 1)
    assert bounds(facts, chosen) == (0, 7)
    assert bounds(facts, bits) == (0, 32)
    assert bounds(facts, some) == (0, 12)
    assert bounds(facts, truth) == (1, 1)
    assert bounds(facts, nothing) == (0, 1)


def test_loaded_values_are_anything():
    p = Handmade()
    x = p.tensor("x", u8)
    v = p.load(x, p.thread())
    w = p.emit("shr", v, p.const(4, u8))
    facts = ranges(p.done())
    assert bounds(facts, v) == (0, 255)
    assert bounds(facts, w) == (0, 15)


def test_comparisons_of_ranges():
    low, high, five = between(0, 4), between(5, 9), between(5, 5)
    assert [compared(n, low, high) for n in ("lt", "le", "gt", "ge", "eq", "ne")] == [
        True, True, False, False, False, True,
    ]  # fmt: skip
    assert compared("lt", low, five) is True
    assert compared("lt", high, five) is False
    assert compared("le", high, five) is None
    assert compared("eq", five, five) is True
    assert compared("eq", between(0, 8, 4, 0), between(1, 9, 4, 1)) is False


def test_a_loop_that_begins_at_its_end_has_no_turn():
    p = Handmade(threads=32, simd=32)
    t = p.thread()
    loops = []
    for last in (0, 31, 32):
        with p.b.block((Value(i32),)) as body:
            p.do("yield")
        high = p.const(last)
        p.do("for", t, high, p.const(256), attrs=(False,), regions=(body,))
        loops.append([op for op in p.body.ops if op.name == "for"][-1])
    facts = ranges(p.done())
    assert [facts.turns(op) for op in loops] == [0, None, None]
