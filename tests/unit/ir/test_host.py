"""Host evaluation: extents, requirements, and conversion of the arguments."""

import numpy as np
import pytest

from iron.dtypes import f32, i32, i64
from iron.errors import KernelError
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Param, Require, Value
from iron.ir.host import evaluate


def kernel(params, make, rank, requires=()) -> Kernel:
    values = tuple(Value(p.type, None, p.name) for p in params)
    b = Builder(fold=False)
    with b.block(values) as host:
        b.emit_all("yield", make(b, *values))
    return Kernel("k", tuple(params), Block(values), host, rank, 1, 1, tuple(requires), i32)


def test_extents_and_failed_requirements():
    def make(b, s, n, m):
        four = b.const(4, i32)
        cdiv = b.emit("floordiv", b.emit("add", n, b.const(3, i32)), four)
        even = b.emit("eq", b.emit("mod", n, four), b.const(0, i32))
        small = b.emit("lt", s, b.const(2.5, f32))
        return cdiv, m, even, small

    rules = (Require("N % 4 == 0"), Require("s < 2.5"))
    params = [Param("s", "scalar", f32), Param("N", "dim", i32), Param("M", "dim", i32)]
    k = kernel(params, make, 2, rules)
    assert evaluate(k, {"s": np.float32(1)}, {"N": 8, "M": 3}) == ((2, 3), [])
    assert evaluate(k, {"s": 3}, {"N": 9, "M": 0}) == ((3, 0), list(rules))


def test_negative_extent_is_empty_work():
    k = kernel([Param("N", "dim", i64)], lambda b, n: (b.emit("sub", n, b.const(5, i64)),), 1)
    assert evaluate(k, {}, {"N": 3}) == ((0,), [])
    assert evaluate(k, {}, {"N": 2**40}) == ((2**40 - 5,), [])


def test_op_without_a_meaning_is_refused():
    k = kernel([Param("s", "scalar", f32)], lambda b, s: (b.emit("exp", s),), 1)
    with pytest.raises(KernelError, match="`exp` cannot be evaluated on the host"):
        evaluate(k, {"s": 1.0}, {})
