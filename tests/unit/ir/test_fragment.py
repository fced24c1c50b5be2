"""Opaque matrices: what the rows mean, what they refuse, and races with them."""

import numpy as np
import pytest

from iron.dtypes import DType, bf16, f16, f32, i8, i32, u32
from iron.errors import KernelError
from iron.ir.core import Kernel, Value
from iron.ir.interp import run
from iron.ir.table import OpTypeError
from iron.ir.text import parse_kernel, print_kernel
from iron.ir.types import matrix, tensor
from iron.ir.verify import verify
from tests.unit.ir.handmade import Handmade

ROWS, COLUMNS, DEPTH = 16, 8, 4


class Lines(Handmade):
    """Two simdgroups; every array is filled, or read, one row by each thread."""

    def __init__(self) -> None:
        super().__init__(threads=32, simd=16)

    def array(self, elem: DType, rows: int, columns: int) -> Value:
        return self.emit("shared", attrs=(tensor(elem, 2, "shared", (rows, columns)),))

    def filled(self, name: str, elem: DType, rows: int, columns: int) -> Value:
        given, made = self.tensor(name, elem, "in", 2), self.array(elem, rows, columns)
        row = self.emit("mod", self.thread(), self.const(rows))
        with self.b.block() as then:
            for c in map(self.const, range(columns)):
                self.store(made, row, c, self.load(given, row, c))
            self.do("yield")
        with self.b.block() as other:
            self.do("yield")
        first = self.emit("lt", self.thread(), self.const(rows))
        self.do("if", first, regions=(then, other))
        return made


def product(elem: DType, total: DType, turned: bool, apart: int = 2, meet: bool = True) -> Kernel:
    """c = a b + 1 by each of two simdgroups, `apart` in the array that they leave."""
    p = Lines()
    a = p.filled("a", elem, ROWS, DEPTH)
    sides = (COLUMNS, DEPTH) if turned else (DEPTH, COLUMNS)
    b = p.filled("b", elem, *sides)
    c, out = p.array(total, ROWS * apart, COLUMNS), p.tensor("c", total, "out", 2)
    zero = p.const(0)
    if meet:
        p.do("barrier")
    kinds = (
        matrix(elem, ROWS, DEPTH, "a"),
        matrix(elem, DEPTH, COLUMNS, "b"),
        matrix(total, ROWS, COLUMNS, "acc"),
    )
    acc = p.emit("matrix_full", p.const(1, total), attrs=(kinds[2],))
    x = p.emit("matrix_load", a, zero, zero, attrs=(kinds[0], False))
    y = p.emit("matrix_load", b, zero, zero, attrs=(kinds[1], turned))
    made = p.emit("matrix_mma", x, y, acc)
    simdgroup = p.emit("floordiv", p.thread(), p.const(16))
    p.do("matrix_store", c, p.emit("mul", simdgroup, p.const(ROWS * (apart - 1))), zero, made)
    p.do("barrier")
    row = p.emit("mod", p.thread(), p.const(ROWS * apart))
    for column in map(p.const, range(COLUMNS)):
        p.store(out, row, column, p.load(c, row, column))
    return p.done()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("elem", "total"), [(f16, f32), (bf16, f32), (f32, f32), (i8, i32)], ids=str
)
def test_a_product(elem: DType, total: DType, turned: bool):
    kernel = product(elem, total, turned)
    verify(kernel)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    rng = np.random.default_rng(5)
    x = rng.integers(-9, 9, (ROWS, DEPTH)).astype(elem.np)
    y = rng.integers(-9, 9, (DEPTH, COLUMNS)).astype(elem.np)
    z = np.zeros((2 * ROWS, COLUMNS), total.np)
    given = {"a": x, "b": np.ascontiguousarray(y.T) if turned else y, "c": z}
    run(kernel, given, {}, {}, (1,))
    want = x.astype(total.np) @ y.astype(total.np) + 1
    assert (z == np.concatenate([want, want])).all()


def test_words_of_narrow_elements():
    """A matrix from words of two is the matrix from elements, turned or not."""
    p = Lines()
    x, out = p.tensor("a", u32, "in", 2), p.tensor("c", f32, "out", 2)
    words = p.array(u32, ROWS, ROWS // 2)
    zero, row = p.const(0), p.emit("mod", p.thread(), p.const(ROWS))
    column = p.emit("floordiv", p.thread(), p.const(ROWS))
    for c in range(0, ROWS // 2, 2):
        at = p.emit("add", column, p.const(c))
        p.store(words, row, at, p.load(x, row, at))
    p.do("barrier")
    left = p.emit("matrix_load", words, zero, zero, attrs=(matrix(f16, ROWS, ROWS, "a"), False))
    right = p.emit("matrix_load", words, zero, zero, attrs=(matrix(f16, ROWS, ROWS, "b"), True))
    none = p.emit("matrix_full", p.const(0.0, f32), attrs=(matrix(f32, ROWS, ROWS, "acc"),))
    made = p.emit("matrix_mma", left, right, none)
    simdgroup = p.emit("floordiv", p.thread(), p.const(16))
    both = p.array(f32, 2 * ROWS, ROWS)
    p.do("matrix_store", both, p.emit("mul", simdgroup, p.const(ROWS)), zero, made)
    p.do("barrier")
    for c in map(p.const, range(ROWS)):
        p.store(out, p.thread(), c, p.load(both, p.thread(), c))
    kernel = p.done()
    verify(kernel)
    held = np.random.default_rng(2).integers(-5, 5, (ROWS, ROWS)).astype(f16.np)
    z = np.zeros((2 * ROWS, ROWS), np.float32)
    run(kernel, {"a": held.view(np.uint32), "c": z}, {}, {}, (1,))
    want = held.astype(np.float32) @ held.T.astype(np.float32)
    assert (z == np.concatenate([want, want])).all()
    assert not (want == held.astype(np.float32) @ held.astype(np.float32)).all()


def ran(kernel: Kernel) -> str:
    """The id of what the interpreter refuses."""
    given = {
        "a": np.ones((ROWS, DEPTH), f16.np),
        "b": np.ones((DEPTH, COLUMNS), f16.np),
        "c": np.zeros((2 * ROWS, COLUMNS), np.float32),
    }
    with pytest.raises(KernelError) as raised:
        run(kernel, given, {}, {}, (1,))
    return raised.value.id


def test_what_nothing_orders_is_a_race():
    assert ran(product(f16, f32, turned=False, meet=False)) == "E0410"
    both = product(f16, f32, turned=False, apart=1)  # two simdgroups leave the same matrix
    assert ran(both) == "E0410"


def test_a_matrix_outside_its_array_is_an_error():
    p = Lines()
    made = p.array(f16, 8, 8)
    kind = matrix(f16, 16, 8, "a")
    p.emit("matrix_load", made, p.const(0), p.const(0), attrs=(kind, False))
    assert ran(p.done()) == "E0404"


def test_wrong_operands_are_refused():
    p = Lines()
    zero, array = p.const(0), p.array(f16, 16, 16)
    a, b = matrix(f16, 16, 8, "a"), matrix(f16, 8, 16, "b")
    x, y = (p.emit("matrix_load", array, zero, zero, attrs=(t, False)) for t in (a, b))
    acc = p.emit("matrix_full", p.const(0.0, f32), attrs=(matrix(f32, 16, 16, "acc"),))
    halves = p.emit("matrix_full", p.const(0.0, f16), attrs=(matrix(f16, 16, 16, "acc"),))
    narrow = p.emit("matrix_full", p.const(0.0, f32), attrs=(matrix(f32, 16, 8, "acc"),))
    with pytest.raises(OpTypeError, match="no product of"):
        p.emit("matrix_mma", y, x, acc)
    with pytest.raises(OpTypeError, match="not summed in f16"):
        p.emit("matrix_mma", x, y, halves)
    with pytest.raises(OpTypeError, match="do not meet"):
        p.emit("matrix_mma", x, y, narrow)
    with pytest.raises(OpTypeError, match="needs group memory of f32"):
        p.do("matrix_store", array, zero, zero, acc)
    with pytest.raises(OpTypeError, match="2 axes but 1 indices"):
        p.emit("matrix_load", array, zero, attrs=(a, False))
    with pytest.raises(OpTypeError, match="needs f32"):
        p.emit("matrix_full", zero, attrs=(matrix(f32, 16, 16, "acc"),))
    with pytest.raises(OpTypeError, match="has no elements"):
        p.emit("add", acc, acc)
    with pytest.raises(OpTypeError, match="matrix_store"):
        p.do("store", p.array(f32, 16, 16), zero, zero, acc)
    with pytest.raises(ValueError, match="not c"):
        matrix(f16, 8, 8, "c")
