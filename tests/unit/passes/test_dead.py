"""`dead` removes exactly what is unused, and shrinks loops and branches with it."""

import numpy as np

from iron.dtypes import bool_, f32, i32
from iron.ir.core import Kernel, Value
from iron.ir.interp import run
from iron.ir.verify import verify
from iron.passes.dead import dead, sliced, writes
from tests.unit.ir.handmade import Handmade


def names(kernel: Kernel) -> list[str]:
    verify(kernel)
    return [op.name for op in kernel.body.walk() if op.name != "const"]


def loop(p: Handmade, inits, body, *, stop: bool = False, count: int = 5):
    """`for i in range(count)` over `inits`; `body` gives what the loop yields."""
    params = [Value(i32, None, "i"), *(Value(v.type) for v in inits)]
    with p.b.block(params) as block:
        p.do("yield", *body(*params))
    bounds = [p.const(v) for v in (0, count, 1)]
    return p.do("for", *bounds, *inits, attrs=(stop,), regions=(block,))


def result_of(kernel: Kernel, size: int = 4) -> np.ndarray:
    x, y = np.arange(1, size + 1, dtype=np.float32), np.full(size, np.nan, np.float32)
    run(kernel, {"x": x, "y": y}, {}, {}, (1,))
    return y


def start() -> tuple[Handmade, Value, Value, Value]:
    p = Handmade()
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    return p, x, y, p.thread()


def test_unused_ops_loads_and_collectives_go():
    p, x, y, t = start()
    v = p.load(x, t)
    p.load(x, p.emit("add", t, p.const(0)))
    p.emit("mul", v, v)
    p.do("reduce", v, attrs=(0,), regions=(p.function("add", f32),))
    p.store(y, t, v)
    assert names(dead(p.done())) == ["thread", "load", "store"]


def test_a_carried_value_that_only_feeds_itself_goes():
    p, x, y, t = start()
    v, zero = p.load(x, t), p.const(0.0, f32)
    a, _ = loop(p, [v, zero], lambda i, a, b: (p.emit("add", a, v), p.emit("add", b, a)))
    p.store(y, t, a)
    before = p.done()
    after = dead(before)
    (kept,) = [op for op in after.body.walk() if op.name == "for"]
    assert len(kept.results) == len(kept.args) - 3 == 1
    assert names(after).count("add") == 1
    assert np.array_equal(result_of(before), result_of(after))


def test_a_carried_value_that_feeds_another_stays_although_its_result_is_unused():
    p, x, y, t = start()
    v, one = p.load(x, t), p.const(1.0, f32)
    a, *_ = loop(
        p,
        [v, one, one, one],
        lambda i, a, b, c, d: (
            p.emit("add", a, b),
            p.emit("mul", b, c),
            p.emit("add", c, v),
            p.emit("sub", d, v),
        ),
    )
    p.store(y, t, a)
    before = p.done()
    after = dead(before)
    (kept,) = [op for op in after.body.walk() if op.name == "for"]
    assert len(kept.results) == 3
    assert np.array_equal(result_of(before), result_of(after))


def test_the_stop_flag_keeps_what_decides_it():
    p, x, y, t = start()
    v, zero = p.load(x, t), p.const(0, i32)
    three = p.const(3)

    def body(i, a, count):
        more = p.emit("add", count, p.const(1))
        return p.emit("ge", more, three), p.emit("add", a, a), more

    a, _ = loop(p, [v, zero], body, stop=True)
    p.store(y, t, a)
    after = dead(p.done())
    (kept,) = [op for op in after.body.walk() if op.name == "for"]
    assert len(kept.results) == 2
    assert result_of(after).tolist() == [8, 16, 24, 32]


def test_a_loop_without_use_or_effect_goes_and_one_with_a_store_stays():
    p, x, y, t = start()
    v = p.load(x, t)
    loop(p, [v], lambda i, a: (p.emit("add", a, a),))

    def store(i, a):
        p.store(y, t, v)
        return (p.emit("add", a, a),)

    loop(p, [v], store)
    after = dead(p.done())
    assert names(after) == ["thread", "load", "for", "store", "yield"]
    (kept,) = [op for op in after.body.walk() if op.name == "for"]
    assert kept.results == ()


def test_unused_results_of_a_branch_go_on_both_sides():
    p, x, y, t = start()
    v = p.load(x, t)
    with p.b.block() as then:
        p.do("yield", p.emit("add", v, v), p.emit("mul", v, v))
    with p.b.block() as other:
        p.do("yield", v, p.emit("sub", v, v))
    first, _ = p.do("if", p.emit("lt", t, p.const(2)), regions=(then, other))
    p.store(y, t, first)
    before = p.done()
    after = dead(before)
    assert [n for n in names(after) if n in ("add", "mul", "sub")] == ["add"]
    assert np.array_equal(result_of(before), result_of(after))


def test_effects_stay():
    p = Handmade()
    y = p.tensor("y", i32, "inout")
    p.do("barrier")
    p.do("atomic", y, p.const(0), p.const(1), attrs=("add",))
    p.emit("cast", p.thread(), attrs=(bool_,))
    assert names(dead(p.done())) == ["barrier", "atomic"]


def test_names_locations_and_exactness_survive():
    p, x, y, t = start()
    p.at(7)
    p.b.exact = True
    v = p.emit("add", p.load(x, t), p.const(1.0, f32))
    v.name = "sum"
    p.store(y, t, v)
    (add,) = [op for op in dead(p.done()).body.ops if op.name == "add"]
    assert add.results[0].name == "sum"
    assert add.exact
    assert add.loc is not None
    assert add.loc.line == 7


def test_dead_takes_along_what_stays_and_a_slice_shares_nothing():
    p, x, y, t = start()
    v = p.load(x, t)
    p.emit("mul", v, v)
    p.store(y, t, v)
    kernel = p.done()
    ops = set(kernel.body.ops)
    assert set(dead(kernel).body.ops) < ops
    assert not set(sliced(kernel.body, writes).ops) & ops
