"""Positive controls of the interpreter's checks: id, the user's lines, and what is named."""

from dataclasses import replace

import numpy as np
import pytest

from iron.dtypes import i32, u32
from iron.errors import KernelError, Loc
from iron.ir.core import Kernel, Value
from iron.ir.interp import run
from iron.ir.types import tensor
from iron.ir.verify import verify
from tests.unit.ir.handmade import Handmade


def fault(kernel: Kernel, arrays, grid=(1,), **options) -> KernelError:
    """The error that a run raises."""
    verify(kernel)
    with pytest.raises(KernelError) as caught:
        run(kernel, arrays, {}, {}, grid, **options)
    return caught.value


def stands(error: KernelError, id: str, line: int) -> str:
    """Asserts id and line; returns the whole text."""
    found = error.diagnostic
    assert (found.id, found.loc and found.loc.line, found.kernel) == (id, line, "handmade")
    return found.text()


def shared(p: Handmade, size: int, elem=i32):
    p.at(1)
    return p.emit("shared", attrs=(tensor(elem, 1, "shared", (size,)),))


def numbers(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.int32)


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shift", "index"), [(1, 8), (-1, -1), (2**31 - 1, -(2**31) + 6)])
def test_load_outside(shift, index):
    p = Handmade(threads=4)
    x, y = p.tensor("x", i32), p.tensor("y", i32, "out")
    at = p.place()
    p.at(12)
    v = p.load(x, p.emit("add", at, p.const(shift)))
    p.at(13)
    p.store(y, at, v)
    text = stands(fault(p.done(), {"x": numbers(8), "y": numbers(8)}, (2,)), "E0404", 12)
    assert "outside axis 0 of `x`, which has 8 elements" in text
    assert (f"index {index}" in text) or shift > 1
    assert "thread 3 of group 1" in text or shift != 1


def test_vector_store_reaches_over_the_row():
    p = Handmade(threads=4)
    y = p.tensor("y", i32, "out", 2)
    p.at(5)
    p.store(y, p.thread(), p.const(3), p.emit("splat", p.thread(), attrs=(2,)))
    text = stands(fault(p.done(), {"y": np.zeros((4, 4), np.int32)}), "E0404", 5)
    assert "index 3..4 is outside axis 1 of `y`" in text


def test_masked_lanes_may_point_anywhere():
    p = Handmade(threads=4)
    x, y = p.tensor("x", i32), p.tensor("y", i32, "out")
    t = p.thread()
    with p.b.block() as then:
        p.store(y, t, p.load(x, t))
        p.do("yield")
    with p.b.block() as other:
        p.do("yield")
    p.do("if", p.emit("lt", t, p.const(3)), regions=(then, other))
    out = np.zeros(3, np.int32)
    kernel = p.done()
    run(kernel, {"x": numbers(3), "y": out}, {}, {}, (1,))
    assert out.tolist() == [0, 1, 2]
    error = fault(kernel, {"x": numbers(2), "y": out})
    assert "in thread 2 of group 0" in error.diagnostic.text()


def test_fault_shows_the_call_chain():
    p = Handmade(threads=4)
    x, y = p.tensor("x", i32), p.tensor("y", i32, "out")
    p.b.loc = Loc("shared.py", 3, caller=Loc("kernel.py", 20))
    v = p.load(x, p.const(9))
    p.store(y, p.thread(), v)
    text = stands(fault(p.done(), {"x": numbers(4), "y": numbers(4)}), "E0404", 3)
    assert "shared.py:3" in text
    assert "called from kernel.py:20" in text


# --- initialisation -------------------------------------------------------------------------------


def test_shared_memory_is_read_before_it_is_written():
    p = Handmade(threads=4)
    y = p.tensor("y", i32, "out")
    buffer, t = shared(p, 8), p.thread()
    p.at(31)
    p.store(buffer, t, t)
    p.do("barrier")
    p.at(33)
    v = p.load(buffer, p.emit("add", t, p.const(2)))
    p.store(y, t, v)
    text = stands(fault(p.done(), {"y": numbers(4)}), "E0402", 33)
    assert "`shared[4]` is read before any thread wrote it" in text
    assert "thread 2 of group 0" in text


def test_shared_memory_of_the_group_before_is_not_initialised():
    p = Handmade(threads=4)
    buffer, g = shared(p, 1), p.group()
    with p.b.block() as then:
        p.store(buffer, p.const(0), g)
        p.do("yield")
    with p.b.block() as other:
        p.at(8)
        p.load(buffer, p.const(0))
        p.do("yield")
    p.do("if", p.emit("eq", g, p.const(0)), regions=(then, other))
    p.threads = 1
    assert "group 1" in stands(fault(p.done(), {}, (2,)), "E0402", 8)


def test_output_is_read_before_it_is_written():
    p = Handmade(threads=4)
    y = p.tensor("y", i32, "out")
    p.at(40)
    v = p.load(y, p.thread(), count=0)
    p.store(y, p.thread(), v)
    stands(fault(p.done(), {"y": numbers(4)}), "E0402", 40)


def test_unwritten_output_unless_partial():
    p = Handmade(threads=4)
    y = p.tensor("y", i32, "out", 2)
    p.at(17)
    p.store(y, p.thread(), p.const(1), p.thread())
    kernel = p.done()
    text = stands(fault(kernel, {"y": np.zeros((4, 2), np.int32)}), "E0402", 17)
    assert "4 of 8 elements are never written, the first is [0, 0]" in text
    run(kernel, {"y": np.zeros((4, 2), np.int32)}, {}, {}, (1,), partial=frozenset({"y"}))
    declared = replace(kernel, params=(replace(kernel.params[0], partial=True),))
    run(declared, {"y": np.zeros((4, 2), np.int32)}, {}, {}, (1,))


def test_atomic_on_uninitialised_memory():
    p = Handmade(threads=4)
    buffer = shared(p, 2, u32)
    p.at(6)
    p.do("atomic", buffer, p.const(1), p.const(1, u32), attrs=("add",))
    stands(fault(p.done(), {}), "E0402", 6)


# --- divergence -----------------------------------------------------------------------------------


def under_even_threads(p: Handmade, make) -> None:
    t = p.thread()
    even = p.emit("eq", p.emit("and", t, p.const(1)), p.const(0))
    with p.b.block() as then:
        p.at(24)
        make()
        p.do("yield")
    with p.b.block() as other:
        p.do("yield")
    p.at(23)
    p.do("if", even, regions=(then, other))


def test_barrier_under_a_branch_that_half_the_threads_take():
    p = Handmade(threads=32, simd=32)
    under_even_threads(p, lambda: p.do("barrier"))
    text = stands(fault(p.done(), {}), "E0312", 24)
    assert "`barrier` needs every thread of the group, but 16 of 32 threads arrived" in text
    assert "part at the branch on line kernel.py:23" in text


@pytest.mark.parametrize("name", ["reduce", "scan", "exchange", "ballot"])
def test_divergent_collectives(name):
    p = Handmade(threads=8, simd=4)
    t = p.thread()
    calls = {
        "reduce": lambda: p.emit("reduce", t, attrs=(2,), regions=(p.function("add", i32),)),
        "scan": lambda: p.emit(
            "scan", t, p.const(0), attrs=(0, False), regions=(p.function("add", i32),)
        ),
        "exchange": lambda: p.emit("exchange", t, attrs=(1,)),
        "ballot": lambda: p.emit("ballot", p.emit("eq", t, t)),
    }
    under_even_threads(p, calls[name])
    assert f"`{name}` needs every thread" in stands(fault(p.done(), {}), "E0312", 24)


def test_message_keeps_the_name_the_author_wrote():
    p = Handmade(threads=8, simd=4)
    t = p.thread()
    f = p.function("add", i32)
    under_even_threads(
        p, lambda: p.b.emit("reduce", t, attrs=(0,), regions=(f,), surface="group_sum")
    )
    assert "`group_sum` needs every thread" in str(fault(p.done(), {}))


def test_barrier_in_a_loop_that_threads_leave_at_different_turns():
    p = Handmade(threads=4)

    counter = Value(i32)
    with p.b.block((counter,)) as body:
        p.at(51)
        p.do("barrier")
        p.do("yield")
    p.at(50)
    p.do("for", p.const(0), p.thread(), p.const(1), attrs=(False,), regions=(body,))
    text = stands(fault(p.done(), {}), "E0312", 51)
    assert "3 of 4 threads arrived" in text
    assert "part at the loop on line kernel.py:50" in text


def test_uniform_branch_may_hold_a_barrier():
    p = Handmade(threads=4)
    with p.b.block() as then:
        p.do("barrier")
        p.do("yield")
    with p.b.block() as other:
        p.do("yield")
    first = p.emit("eq", p.group(), p.const(0))
    p.do("if", first, regions=(then, other))
    run(p.done(), {}, {}, {}, (3,))


# --- races ----------------------------------------------------------------------------------------


def neighbour(p: Handmade, *, barrier: bool) -> Kernel:
    y = p.tensor("y", i32, "out")
    buffer, t = shared(p, 4), p.thread()
    p.at(60)
    p.store(buffer, t, t)
    p.at(61)
    if barrier:
        p.do("barrier")
    p.at(62)
    v = p.load(buffer, p.emit("xor", t, p.const(1)))
    p.store(y, t, v)
    return p.done()


def test_read_of_a_neighbours_store_without_a_barrier():
    text = stands(fault(neighbour(Handmade(), barrier=False), {"y": numbers(4)}), "E0410", 62)
    assert (
        "race on `shared[1]`: thread 0 of group 0 reads it, thread 1 of group 0 writes it" in text
    )
    assert "thread 1 of group 0 writes it on line kernel.py:60" in text
    out = numbers(4)
    run(neighbour(Handmade(), barrier=True), {"y": out}, {}, {}, (1,))
    assert out.tolist() == [1, 0, 3, 2]


def test_store_over_what_another_thread_still_reads():
    p = Handmade(threads=4)
    x = p.tensor("x", i32, "inout")
    t = p.thread()
    p.at(70)
    v = p.load(x, p.emit("xor", t, p.const(2)))
    p.at(71)
    p.store(x, t, v)
    text = stands(fault(p.done(), {"x": numbers(4)}), "E0410", 71)
    assert "thread 0 of group 0 writes it, thread 2 of group 0 reads it" in text
    assert "on line kernel.py:70" in text


def test_two_threads_store_one_element():
    p = Handmade(threads=4)
    y = p.tensor("y", i32, "out")
    p.at(80)
    p.store(y, p.const(0), p.const(5))
    text = stands(fault(p.done(), {"y": numbers(1)}), "E0410", 80)
    assert "writes it on line kernel.py:80" in text


def test_groups_race_whatever_barriers_lie_between():
    p = Handmade(threads=1)
    y = p.tensor("y", i32, "inout")
    g = p.group()
    p.at(90)
    p.store(y, g, g)
    p.do("barrier")
    p.at(92)
    p.load(y, p.emit("sub", p.const(1), g))
    text = stands(fault(p.done(), {"y": numbers(2)}, (2,)), "E0410", 92)
    assert "thread 0 of group 0 reads it, thread 0 of group 1 writes it" in text
    assert "on line kernel.py:90" in text
    assert "groups are never ordered" in text


def test_groups_of_different_chunks_race_through_an_evicted_reader():
    """Reader of group 0, then the owner reads twice and writes: the first reader still counts."""
    p = Handmade(threads=4)
    x = p.tensor("x", i32, "inout", 1)
    g, t = p.group(), p.thread()
    last = p.emit("eq", g, p.const(2999))
    with p.b.block() as then:
        p.load(x, p.const(0))
        p.do("barrier")
        p.load(x, p.const(0))
        p.do("barrier")
        with p.b.block() as inner:
            p.at(97)
            p.store(x, p.const(0), p.const(1))
            p.do("yield")
        with p.b.block() as none:
            p.do("yield")
        p.do("if", p.emit("eq", t, p.const(0)), regions=(inner, none))
        p.do("yield")
    with p.b.block() as other:
        with p.b.block() as inner:
            p.at(95)
            p.load(x, p.const(0))
            p.do("yield")
        with p.b.block() as none:
            p.do("yield")
        p.do("if", p.emit("eq", g, p.const(0)), regions=(inner, none))
        p.do("yield")
    p.do("if", last, regions=(then, other))
    text = stands(fault(p.done(), {"x": numbers(1)}, (3000,)), "E0410", 97)
    assert "of group 0 reads it on line kernel.py:95" in text


@pytest.mark.parametrize("plain_first", [True, False])
def test_plain_access_beside_an_atomic(plain_first):
    p = Handmade(threads=4)
    x = p.tensor("x", u32, "inout")

    def plain():
        p.at(101)
        p.load(x, p.const(0))

    def atomic():
        p.at(102)
        p.do("atomic", x, p.const(0), p.const(1, u32), attrs=("add",))

    for step in (plain, atomic) if plain_first else (atomic, plain):
        step()
    text = stands(fault(p.done(), {"x": np.zeros(1, np.uint32)}), "E0410", 102 - (not plain_first))
    assert ("reads it on line kernel.py:101" if plain_first else "updates it on line") in text


def test_atomics_after_a_barrier_may_be_read():
    p = Handmade(threads=4)
    y = p.tensor("y", u32, "out")
    buffer, t = shared(p, 4, u32), p.thread()
    p.store(buffer, t, p.const(0, u32))
    p.do("barrier")
    p.do("atomic", buffer, p.const(1), p.const(1, u32), attrs=("add",))
    p.do("barrier")
    p.store(y, t, p.load(buffer, p.const(1)))
    out = np.zeros(4, np.uint32)
    run(p.done(), {"y": out}, {}, {}, (1,))
    assert out.tolist() == [4] * 4


def rotation(*, barrier: bool) -> Kernel:
    """In-place half rotation: thread i stores y_i, then loads element (i + 64) mod 128."""
    p = Handmade(threads=128, simd=32)
    x = p.tensor("x", i32, "inout")
    t = p.thread()
    half = p.emit("lt", t, p.const(64))
    partner = p.emit("mod", p.emit("add", t, p.const(64)), p.const(128))
    p.at(110)
    v = p.load(x, partner)
    if barrier:
        p.do("barrier")
    p.at(111)
    p.store(x, t, p.emit("where", half, p.emit("neg", v), v))
    return p.done()


def test_in_place_rotation():
    text = stands(fault(rotation(barrier=False), {"x": numbers(128)}), "E0410", 111)
    assert "kernel.py:110" in text
    out = numbers(128)
    run(rotation(barrier=True), {"x": out}, {}, {}, (1,))
    assert out.tolist() == [-(i + 64) if i < 64 else i - 64 for i in range(128)]


def test_checks_can_be_left_out_but_bounds_stay():
    out = numbers(4)
    run(neighbour(Handmade(), barrier=False), {"y": out}, {}, {}, (1,), checks=False)
    assert out.tolist() == [1, 0, 3, 2]
    with pytest.raises(KernelError, match="E0404"):
        run(neighbour(Handmade(), barrier=False), {"y": out[:3]}, {}, {}, (1,), checks=False)
