"""Whose sign of zero nobody sees: through each op, loop, branch and reduction."""

from importlib import import_module

import numpy as np
import pytest

from iron.analysis.zeros import signless
from iron.dtypes import f32, i32
from iron.ir.core import Value
from iron.ir.interp import run
from iron.passes.elementary import elementary
from tests.unit.ir.handmade import Handmade
from tests.unit.shims.roads import opened


class Sample(Handmade):
    """A kernel that reads x and y, takes their greatest, and does something with it."""

    def __init__(self) -> None:
        super().__init__(threads=32, simd=32)
        x, y, self.out = self.tensor("x", f32), self.tensor("y", f32), self.tensor("z", f32, "out")
        at = self.thread()
        self.a, self.b_ = self.load(x, at), self.load(y, at)
        self.top = self.emit("max", self.a, self.b_)

    def keep(self, value: Value) -> None:
        self.store(self.out, self.thread(), value)

    def free(self) -> bool:
        return self.top in signless(self.done())


def number(p: Sample, value: float) -> Value:
    return p.const(value, f32)


LOST = {
    "compared": lambda p: p.emit("where", p.emit("lt", p.top, p.b_), number(p, 1), number(p, 2)),
    "power": lambda p: p.emit("fast_exp2", p.emit("sub", p.a, p.top)),
    "shifted": lambda p: p.emit("add", p.emit("mul", p.top, p.a), number(p, 3)),
    "size": lambda p: p.emit("abs", p.top),
    "integer": lambda p: p.emit("cast", p.emit("cast", p.top, attrs=(i32,)), attrs=(f32,)),
    "fused": lambda p: p.emit("fma", p.top, p.a, number(p, 0.5)),
}
SEEN = {
    "itself": lambda p: p.top,
    "divisor": lambda p: p.emit("div", p.a, p.top),
    "dividend": lambda p: p.emit("div", p.top, p.a),
    "difference": lambda p: p.emit("sub", p.a, p.top),
    "no shift": lambda p: p.emit("add", p.top, number(p, 0.0)),
    "bits": lambda p: p.emit("bitcast", p.emit("bitcast", p.top, attrs=(i32,)), attrs=(f32,)),
    "sign": lambda p: p.emit("copysign", p.a, p.top),
    "chosen": lambda p: p.emit("where", p.emit("lt", p.a, p.b_), p.top, p.a),
    "reciprocal": lambda p: p.emit("fast_rcp", p.top),
}


@pytest.mark.parametrize("use", LOST)
def test_a_sign_is_lost(use):
    p = Sample()
    p.keep(LOST[use](p))
    assert p.free()


@pytest.mark.parametrize("use", SEEN)
def test_a_sign_is_seen(use):
    p = Sample()
    p.keep(SEEN[use](p))
    assert not p.free()


def test_one_use_that_sees_is_enough():
    p = Sample()
    p.keep(p.emit("add", p.emit("abs", p.top), p.emit("neg", p.top)))
    assert not p.free()


@pytest.mark.parametrize("sees", [False, True])
def test_through_a_reduction(sees):
    p = Sample()
    (top,) = p.do("reduce", p.top, attrs=(0,), regions=(p.function("max", f32),))
    p.keep(top if sees else p.emit("abs", top))
    k = p.done()
    (reduce,) = [op for op in k.body.ops if op.name == "reduce"]
    inner = reduce.regions[0].ops[0].results[0]
    assert [v not in signless(k) for v in (p.top, inner)] == [sees, sees]


@pytest.mark.parametrize("sees", [False, True])
def test_through_a_loop_and_a_branch(sees):
    p = Sample()
    carried = Value(f32)
    with p.b.block((Value(i32), carried)) as body:
        p.do("yield", p.emit("max", carried, p.a))
    (last,) = p.do(
        "for", p.const(0), p.const(3), p.const(1), p.top, attrs=(False,), regions=(body,)
    )
    with p.b.block() as then:
        p.do("yield", last)
    with p.b.block() as other:
        p.do("yield", p.a)
    (chosen,) = p.do("if", p.emit("lt", p.a, p.b_), regions=(then, other))
    p.keep(chosen if sees else p.emit("abs", chosen))
    found = signless(p.done())
    assert (p.top in found, body.yielded[0] in found) == (not sees, not sees)


def agrees(use: str) -> bool:
    """Whether the processor's own maximum, whose zeros the shim orders, changes no bit."""
    p = Sample()
    p.keep((LOST | SEEN)[use](p))
    k = p.done()
    zeros = np.array([0.0, -0.0, 1.0, -1.0], np.float32)
    x, y = np.repeat(zeros, 8), np.tile(zeros, 8)
    got, want = np.full(32, np.nan, np.float32), np.full(32, np.nan, np.float32)
    opened("cuda-text").load(k).bind({"x": x, "y": y, "z": got}, {}, {}, (1,))()
    run(elementary(k), {"x": x, "y": y, "z": want}, {}, {}, (1,))
    number = want == want
    return bool((number == (got == got)).all()) and got[number].tobytes() == want[number].tobytes()


@pytest.mark.parametrize("use", [*LOST, *SEEN])
def test_zeros_come_out_as_the_language_says(use):
    assert agrees(use)


def test_a_sign_thought_lost_is_missed(monkeypatch: pytest.MonkeyPatch):
    class Everything:
        def __contains__(self, value: object) -> bool:
            return True

    monkeypatch.setattr(
        import_module("iron.backends.clike.render"), "signless", lambda kernel: Everything()
    )
    assert not agrees("itself")
