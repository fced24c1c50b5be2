"""Which loads are held in their place: those a loop carries into a later turn, where all arrive."""

import pytest

from iron.analysis.early import early
from iron.backends.cuda_code import code_of
from iron.backends.hip import HIP
from iron.dtypes import f32, i32
from iron.ir.core import Value
from tests.unit.ir.handmade import Handmade


class Sample(Handmade):
    """A loop of 8 turns over a column of x for each of 64 threads, written to y."""

    def __init__(self) -> None:
        super().__init__(threads=64, simd=32)
        self.x, self.y = self.tensor("x", f32), self.tensor("y", f32, "out")
        self.t = self.thread()
        self.high = self.const(8, i32)

    def column(self, k: Value) -> Value:
        return self.load(self.x, self.emit("add", self.emit("mul", k, self.const(64, i32)), self.t))

    def loop(self, body, *inits: Value, high: Value | None = None) -> Value:
        """The last carried value after the loop; `body` gives what a turn carries on."""
        zero, one = self.const(0, i32), self.const(1, i32)
        counter, params = Value(i32), [Value(v.type) for v in inits]
        with self.b.block((counter, *params)) as block:
            self.do("yield", *body(counter, *params))
        bounds = (zero, self.high if high is None else high, one)
        return self.b.emit_all("for", (*bounds, *inits), (False,), (block,))[-1]

    def held(self, result: Value) -> int:
        self.store(self.y, self.t, result)
        return len(early(self.done()).last)


def ahead(p: Sample, k: Value, now: Value, total: Value) -> tuple[Value, Value]:
    """The next turn's element, and the sum with this turn's."""
    then = p.column(p.emit("add", k, p.const(1, i32)))
    return then, p.emit("add", total, now)


def test_what_is_loaded_a_turn_early_is_held_before_the_loop_and_in_it():
    p = Sample()
    total = p.loop(
        lambda k, now, s: ahead(p, k, now, s), p.column(p.const(0, i32)), p.const(0, f32)
    )
    assert p.held(total) == 2


def test_of_two_turns_early_the_last_load_of_each_run_counts():
    p = Sample()

    def turn(k: Value, now: Value, then: Value, total: Value) -> tuple[Value, ...]:
        further = p.column(p.emit("add", k, p.const(2, i32)))
        return then, further, p.emit("add", total, now)

    first, second = p.column(p.const(0, i32)), p.column(p.const(1, i32))
    p.store(p.y, p.t, p.loop(turn, first, second, p.const(0, f32)))
    found = early(p.done())
    assert found.first == {first.op}
    assert len(found.last) == 2
    assert second.op in found.last


@pytest.mark.parametrize("how", ["add", "max"])
def test_what_is_used_in_its_turn_is_not_held(how):
    p = Sample()
    total = p.loop(lambda k, s: (p.emit(how, s, p.column(k)),), p.column(p.const(0, i32)))
    assert p.held(total) == 0


def test_a_loop_that_threads_leave_apart_holds_nothing():
    p = Sample()
    begun = p.column(p.const(0, i32))
    total = p.loop(lambda k, now, s: ahead(p, k, now, s), begun, p.const(0, f32), high=p.t)
    assert p.held(total) == 0


def test_changes_of_form_hand_on():
    p = Sample()

    def bits(value: Value) -> Value:
        return p.emit("where", p.emit("lt", p.t, p.high), value, p.const(0, f32))

    def turn(k: Value, now: Value, total: Value) -> tuple[Value, Value]:
        then, total = ahead(p, k, now, total)
        return bits(then), total

    assert p.held(p.loop(turn, bits(p.column(p.const(0, i32))), p.const(0, f32))) == 2


def test_cuda_holds_and_hip_does_not():
    p = Sample()
    total = p.loop(
        lambda k, now, s: ahead(p, k, now, s), p.column(p.const(0, i32)), p.const(0, f32)
    )
    p.store(p.y, p.t, total)
    kernel = p.done()
    assert code_of(kernel).text.body.count("__syncwarp();") == 3
    assert "syncwarp" not in code_of(kernel, dialect=HIP[32]).text.body
