"""Static checks: indices that are always outside, and the costs of a thread."""

import pytest

from iron.analysis.check import check
from iron.analysis.cost import Cost, cost
from iron.dtypes import f32, i32
from iron.errors import KernelError
from iron.ir.core import Value
from iron.ir.types import tensor, vector
from tests.unit.ir.handmade import Handmade


def shared(p: Handmade, size: int) -> Value:
    v = p.emit("shared", attrs=(tensor(f32, 1, "shared", (size,)),))
    v.name = "buffer"
    return v


@pytest.mark.parametrize(
    ("index", "inside"),
    [(0, True), (7, True), (8, False), (100, False), (-1, False)],
)
def test_constant_index_of_a_shared_array(index, inside):
    p = Handmade()
    buffer = shared(p, 8)
    p.at(12)
    p.store(buffer, p.const(index), p.const(1.0, f32))
    if inside:
        check(p.done())
        return
    with pytest.raises(KernelError, match=f"index 0 is {index}, which is outside its 8") as caught:
        check(p.done())
    assert caught.value.id == "E0404"
    assert caught.value.diagnostic.loc is not None
    assert caught.value.diagnostic.loc.line == 12


def test_an_index_that_may_be_inside_passes_and_one_that_cannot_does_not():
    p = Handmade()
    buffer = shared(p, 3)
    p.store(buffer, p.thread(), p.const(1.0, f32))
    check(p.done())
    p = Handmade()
    buffer = shared(p, 3)
    p.store(buffer, p.emit("add", p.thread(), p.const(3)), p.const(1.0, f32))
    with pytest.raises(KernelError, match="3 to 6"):
        check(p.done())


def test_a_vector_at_the_end_is_outside():
    p = Handmade()
    p.store(shared(p, 8), p.const(6), p.const(1.0, vector(f32, 4)))
    with pytest.raises(KernelError, match="outside"):
        check(p.done())


def test_a_negative_index_of_a_parameter():
    p = Handmade()
    x = p.tensor("x", f32)
    p.load(x, p.const(-1))
    with pytest.raises(KernelError, match="`x`: index 0 is -1, which is outside the tensor"):
        check(p.done())


def test_costs_count_turns_and_elements():
    p = Handmade()
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    i, total = Value(i32), Value(vector(f32, 2))
    zero = p.const(0.0, vector(f32, 2))
    with p.b.block((i, total)) as body:
        v = p.load(x, p.emit("mul", i, p.const(2)), count=2)
        p.do("yield", p.emit("fma", v, v, total))
    bounds = [p.const(n) for n in (0, 10, 1)]
    (r,) = p.do("for", *bounds, zero, attrs=(False,), regions=(body,))
    p.store(y, p.thread(), p.emit("extract", r, attrs=(0,)))
    found = cost(p.done())
    assert found == Cost(flops=40, integer=10, read=80, written=4, live=found.live)
    assert 4 <= found.live <= 7


def test_values_alive_at_once():
    p = Handmade()
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    held = [p.load(x, p.const(i)) for i in range(6)]
    total = held[0]
    for v in held[1:]:
        total = p.emit("add", total, v)
    p.store(y, p.const(0), total)
    assert cost(p.done()).live == 6
