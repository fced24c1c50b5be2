"""Copies that nobody waits for arrive as late as they may; matrices lie as the vendor says."""

import numpy as np
import pytest

from iron.dtypes import DTYPES, bf16, f16, f32, i8, u32
from iron.errors import KernelError
from iron.ir import interp
from iron.ir.table import OpTypeError
from iron.ir.text import parse_kernel, print_kernel
from iron.ir.types import tensor
from iron.ir.verify import verify
from iron.runtime.driver import driver
from iron.targets.atoms import nvidia
from tests.unit.ir.handmade import Handmade

THREADS, TURNS = 32, 4


def copied(pending: int = 1, *, wait: bool = True, barrier: str = "after"):
    """Row t of x by copies that start one turn early, written to y by other threads; two slots."""
    p = Handmade(threads=THREADS, simd=32)
    x, y = p.tensor("x", f32, "in", 2), p.tensor("y", f32, "out", 2)
    held = p.emit("shared", attrs=(tensor(f32, 3, "shared", (2, THREADS, 4)),))
    thread = p.thread()
    column = p.emit("mul", thread, p.const(4))
    other = p.emit("xor", thread, p.const(5))

    def start(turn: int) -> None:
        if turn < TURNS:
            slot = p.const(turn % 2)
            place = slot, thread, p.const(0), p.const(turn), column
            p.do("async_copy", held, x, *place, attrs=(4,))
        p.do("async_commit")

    start(0)
    for turn in range(TURNS):
        start(turn + 1)
        if barrier == "before":
            p.do("barrier")
        if wait:
            p.do("async_wait", attrs=(pending,))
        if barrier == "after":
            p.do("barrier")
        found = p.load(held, p.const(turn % 2), other, p.const(0), count=4)
        p.store(y, p.const(turn), p.emit("mul", other, p.const(4)), found)
        p.do("barrier")
    return p.done()


X = np.random.default_rng(4).normal(size=(TURNS, 4 * THREADS)).astype(np.float32)


def interpreted(kernel) -> np.ndarray:
    y = np.full_like(X, np.nan)
    interp.run(kernel, {"x": X, "y": y}, {}, {}, (1,))
    return y


def test_what_was_waited_for_is_there():
    kernel = copied()
    verify(kernel)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    assert (interpreted(kernel) == X).all()


@pytest.mark.parametrize(
    ("mutant", "id"),
    [
        ({"wait": False}, "E0402"),
        ({"pending": 2}, "E0402"),
        ({"barrier": "before"}, "E0410"),
        ({"barrier": "none"}, "E0410"),
    ],
)
def test_a_protocol_that_is_wrong_is_seen(mutant: dict, id: str):
    with pytest.raises(KernelError) as raised:
        interpreted(copied(**mutant))
    assert raised.value.id == id


def test_the_text_waits_as_long_and_no_longer():
    """On fibres a copy arrives with its wait, so one too few leaves what the array held."""
    for wrong in ({}, {"pending": 2}, {"wait": False}):
        y = np.full_like(X, np.nan)
        driver("cuda-text").load(copied(**wrong)).bind({"x": X, "y": y}, {}, {}, (1,))()
        assert (y == X).all() == (not wrong)


def loaded(elem, count: int, turned: bool):
    """Matrices from an array of 40 rows, those of matrix i beginning at row 8 i."""
    p = Handmade(threads=32, simd=32)
    size = 16 // elem.bytes
    x, y = p.tensor("x", elem, "in", 2), p.tensor("y", u32, "out", 2)
    held = p.emit("shared", attrs=(tensor(elem, 2, "shared", (32, 2 * size)),))
    lane = p.thread()
    p.store(held, lane, p.const(size), p.load(x, lane, p.const(0), count=size))
    p.do("barrier")
    words = p.do("simd_load", held, lane, p.const(size), attrs=(count, turned))
    for i, word in enumerate(words):
        p.store(y, lane, p.const(i), word)
    return p.done()


CASES = [(bf16, 4, False), (f16, 2, True), (bf16, 4, True), (f32, 4, False), (i8, 2, False)]


@pytest.mark.parametrize(("elem", "count", "turned"), CASES)
def test_matrices_lie_as_the_vendors_table_says(elem, count: int, turned: bool):
    kernel = loaded(elem, count, turned)
    verify(kernel)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    size = 16 // elem.bytes
    x = np.arange(32 * size).reshape(32, size).astype(DTYPES[elem.name].np)
    layout, per = nvidia.LDMATRIX_4.data, 4 // elem.bytes
    wanted = np.zeros((32, count * per), x.dtype)
    for lane in range(32):
        for i in range(count):
            for j in range(per):
                if elem.bytes == 2:  # the table's matrices: below, then beside
                    m, n = layout.at(2 * i + j, lane)
                    row, column = (n % 8, m % 8) if turned else (m % 8, n % 8)
                else:
                    row, column = lane // 4, lane % 4 * per + j
                wanted[lane, i * per + j] = x[8 * i + row, column]
    runs = {
        "interpreter": lambda a: interp.run(kernel, a, {}, {}, (1,)),
        "fibres": lambda a: driver("cuda-text").load(kernel).bind(a, {}, {}, (1,))(),
    }
    for run in runs.values():
        y = np.zeros((32, count), np.uint32)
        run({"x": x, "y": y})
        assert (y == wanted.view(np.uint32)).all()


def test_wrong_operands_are_refused():
    p = Handmade(threads=32, simd=32)
    x, narrow = p.tensor("x", f32, "in", 1), p.tensor("n", bf16, "in", 1)
    held, zero = p.emit("shared", attrs=(tensor(f32, 1, "shared", (8,)),)), p.const(0)
    for args, count, message in [
        ((held, x, zero, zero), 8, "copies 16 bytes"),
        ((held, narrow, zero, zero), 4, "copies 16 bytes"),
        ((x, x, zero, zero), 4, "from a read-only tensor to group memory"),
        ((held, x, zero), 4, "1 and 1 axes but 1 indices"),
    ]:
        with pytest.raises(OpTypeError, match=message):
            p.do("async_copy", *args, attrs=(count,))
    for attrs, message in [
        ((3, False), "no load of 3"),
        ((4, True), "no load of 4 matrices of f32"),
    ]:
        with pytest.raises(OpTypeError, match=message):
            p.do("simd_load", held, zero, attrs=attrs)
