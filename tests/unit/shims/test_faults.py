"""Deliberately wrong kernels and texts: each is seen, and the error says where."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from iron.dtypes import bool_, f32, i32
from iron.errors import KernelError
from iron.ir.core import Kernel, Value
from iron.ir.types import tensor
from tests.unit.ir.handmade import Handmade
from tests.unit.shims.roads import NAMES, ORDERS, edited, opened, without

FILE = str(Path(__file__))
THREADS = 128


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def simd(name: str) -> int:
    return opened(name).target().simd


def builder(name: str) -> Handmade:
    return Handmade(threads=THREADS, simd=simd(name), file=FILE)


def total(name: str) -> Kernel:
    """y[t] = sum of x, then the sum of that: two trips, which take turns with shared arrays."""
    p = builder(name)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    t = p.thread()
    first = p.do("reduce", p.load(x, t), attrs=(0,), regions=(p.function("add", f32),))[0]
    own = p.emit("mul", first, p.load(x, t))
    second = p.do("reduce", own, attrs=(0,), regions=(p.function("add", f32),))[0]
    p.store(y, t, second)
    return p.done()


def repeated(name: str) -> Kernel:
    """The same in a loop: both trips go through one shared array."""
    p = builder(name)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    t, before = p.thread(), Value(f32)
    with p.b.block((Value(i32), before)) as body:
        own = p.emit("mul", before, p.load(x, t))
        (sum_,) = p.do("reduce", own, attrs=(0,), regions=(p.function("add", f32),))
        p.do("yield", sum_)
    bounds = p.const(0), p.const(2), p.const(1)
    (last,) = p.do("for", *bounds, p.const(1.0, f32), attrs=(False,), regions=(body,))
    p.store(y, t, last)
    return p.done()


def run_total(driver, kernel: Callable[[str], Kernel] = total) -> np.ndarray:
    x = np.random.default_rng(3).integers(1, 9, THREADS).astype(np.float32)
    y = np.full(THREADS, np.nan, np.float32)
    driver.load(kernel(driver.name)).bind({"x": x, "y": y}, {}, {}, (1,))()
    return y == np.float32(x.sum()) ** 2


@pytest.mark.parametrize("order", ORDERS)
def test_the_right_kernel_is_right_in_every_order(name: str, order: str):
    assert run_total(opened(name, order)).all()
    assert run_total(opened(name, order), repeated).all()


@pytest.mark.parametrize(
    ("kernel", "number"), [(total, 0), (total, 1), (repeated, 0), (repeated, 1)]
)
def test_a_dropped_barrier_shows(name: str, kernel: Callable[[str], Kernel], number: int):
    """Each orders a write before reads, but the last, which orders a read before the next write."""
    drop = without(number, opened(name)._words.dialect.barrier)
    right = [run_total(edited(name, drop, order), kernel).all() for order in ORDERS]
    assert not all(right)


def one_array(lines: Sequence[str]) -> list[str]:
    """The text with the second shared array of a sum in the place of the first."""
    return [line.replace("pile2", "pile") for line in lines if " pile2[" not in line or "=" in line]


def test_trips_through_one_array_need_a_barrier_more(name: str):
    right = [run_total(edited(name, one_array, order)).all() for order in ORDERS]
    assert not all(right)


def swapped(name: str, guarded: Callable[[Handmade], None]) -> Kernel:
    """A kernel in which the first half of the threads runs `guarded`."""
    p = builder(name)
    y = p.tensor("y", i32, "out")
    p.at(10)
    t = p.thread()
    half = p.emit("lt", t, p.const(THREADS // 2 + 1))
    p.at(11)
    with p.b.block(()) as then:
        guarded(p)
        p.do("yield")
    with p.b.block(()) as other:
        p.do("yield")
    p.do("if", half, regions=(then, other))
    p.at(20)
    p.store(y, t, t)
    return p.done()


def launch(driver, kernel: Kernel, **arrays: np.ndarray) -> None:
    driver.load(kernel).bind(arrays, {}, {}, (1,))()


def test_a_divergent_barrier_is_an_error_with_its_line(name: str):
    def waits(p: Handmade) -> None:
        p.at(12)
        p.do("barrier")

    with pytest.raises(KernelError) as wrong:
        launch(opened(name), swapped(name, waits), y=np.zeros(THREADS, np.int32))
    assert wrong.value.id == "E0312"
    assert "test_faults.py:12" in str(wrong.value)
    assert "has returned" in str(wrong.value)


def test_a_divergent_collective_is_an_error_with_its_line(name: str):
    def votes(p: Handmade) -> None:
        p.at(13)
        v = p.emit("ballot", p.emit("cast", p.thread(), attrs=(bool_,)))
        y = p.values["y"]
        p.store(y, p.const(0), p.emit("cast", v, attrs=(i32,)))

    with pytest.raises(KernelError) as wrong:
        launch(opened(name), swapped(name, votes), y=np.zeros(THREADS, np.int32))
    assert wrong.value.id == "E0312"
    assert "test_faults.py:13" in str(wrong.value)


def test_two_barriers_are_not_one(name: str):
    """Both sides wait, but not for each other."""
    p = builder(name)
    y = p.tensor("y", i32, "out")
    t = p.thread()
    sides = []
    for line in (31, 41):
        with p.b.block(()) as side:
            p.at(line)
            p.do("barrier")
            p.do("yield")
        sides.append(side)
    p.do("if", p.emit("lt", t, p.const(THREADS // 2)), regions=tuple(sides))
    p.store(y, t, t)
    with pytest.raises(KernelError) as wrong:
        launch(opened(name), p.done(), y=np.zeros(THREADS, np.int32))
    assert "test_faults.py:31" in str(wrong.value)
    assert "test_faults.py:41" in str(wrong.value)


def shifted(name: str, by: int, write: bool) -> Kernel:
    """y[t] = x[t + by], or y[t + by] = x[t]."""
    p = builder(name)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    t = p.thread()
    there = p.emit("add", t, p.const(by))
    p.at(51)
    p.store(y, there if write else t, p.load(x, t if write else there))
    return p.done()


@pytest.mark.parametrize("write", [False, True], ids=["read", "write"])
def test_one_element_past_an_array(name: str, write: bool):
    x, y = np.zeros(THREADS, np.float32), np.zeros(THREADS, np.float32)
    with pytest.raises(KernelError) as wrong:
        launch(opened(name), shifted(name, 1, write), x=x, y=y)
    assert wrong.value.id == "E0404"
    assert f"outside `{'y' if write else 'x'}`, {4 * THREADS} bytes" in str(wrong.value)
    assert f"thread {THREADS - 1} of group 0" in str(wrong.value)
    assert "test_faults.py:51" in str(wrong.value)
    assert not y.any()


def test_a_write_just_before_or_beside_an_array(name: str):
    x, y = np.zeros(THREADS, np.float32), np.zeros(THREADS, np.float32)
    with pytest.raises(KernelError, match="a thread wrote outside `y`, -4 bytes"):
        launch(opened(name), shifted(name, -1, True), x=x, y=y)
    with pytest.raises(KernelError, match=f"outside `y`, {4 * (THREADS - 1)} bytes"):
        launch(opened(name), shifted(name, 0, True), x=x, y=y[:-1])


def pile(name: str, by: int, write_all: bool = True) -> Kernel:
    """y[t] = pile[t + by], where thread t wrote pile[t] unless it is the last."""
    p = builder(name)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    t = p.thread()
    held = p.emit("shared", attrs=(tensor(f32, 1, "shared", (THREADS,)),))
    with p.b.block(()) as then:
        p.store(held, t, p.load(x, t))
        p.do("yield")
    with p.b.block(()) as other:
        p.do("yield")
    writes = p.emit("lt", t, p.const(THREADS if write_all else THREADS - 1))
    p.do("if", writes, regions=(then, other))
    p.do("barrier")
    p.at(61)
    p.store(y, t, p.load(held, p.emit("add", t, p.const(by))))
    return p.done()


def test_one_element_past_a_shared_array(name: str):
    x, y = np.ones(THREADS, np.float32), np.zeros(THREADS, np.float32)
    launch(opened(name), pile(name, 0), x=x, y=y)
    assert y.all()
    with pytest.raises(KernelError) as wrong:
        launch(opened(name), pile(name, 1), x=x, y=y)
    assert wrong.value.id == "E0404"
    assert "test_faults.py:61" in str(wrong.value)


def test_a_shared_element_that_nobody_wrote_is_nan(name: str):
    x, y = np.ones(THREADS, np.float32), np.zeros(THREADS, np.float32)
    driver = opened(name)
    for _ in range(2):
        launch(driver, pile(name, 0, write_all=False), x=x, y=y)
        assert np.isnan(y[-1])
        assert (y[:-1] == 1).all()


def test_this_process_goes_on_after_every_fault(name: str):
    test_one_element_past_an_array(name, True)
    test_one_element_past_a_shared_array(name)
    assert run_total(opened(name)).all()


@pytest.mark.parametrize("line", ["device f32* other = {pile};", "threadgroup f32* other = y;"])
def test_a_pointer_into_another_address_space_is_refused(line: str):
    """Where the text has address spaces; the line alone, into its own space, is right."""

    def mixed(there: str) -> np.ndarray:
        def edit(lines: Sequence[str]) -> list[str]:
            (pile, *_) = re.findall(r"threadgroup f32 (\w+)\[", "\n".join(lines))
            at = next(n for n, x in enumerate(lines) if "const i32 thread_index" in x)
            return [*lines[: at + 1], "  " + there.format(pile=pile), *lines[at + 1 :]]

        return run_total(edited("msl-text", edit))

    right = line.replace("device", "threadgroup") if "pile" in line else "device f32* other = y;"
    assert mixed(right).all()
    with pytest.raises(KernelError, match=r"address.space") as wrong:
        mixed(line)
    assert wrong.value.id == "E0901"
