"""The verifier: each rule refuses a kernel that breaks it, naming op and line."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from iron.dtypes import bool_, f32, i32, i64, u32
from iron.errors import KernelError
from iron.ir.core import Block, Kernel, Op, Require, Value
from iron.ir.table import TABLE
from iron.ir.types import tensor
from iron.ir.verify import verify
from tests.unit.ir.handmade import Handmade


def good() -> Handmade:
    p = Handmade(threads=8, simd=4)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    p.scalar("s", f32)
    p.dim("N")
    p.at(3)
    at = p.place()
    p.at(4)
    p.store(y, at, p.emit("add", p.load(x, at), p.values["s"]))
    return p


def test_good_kernel_passes():
    verify(good().done())


def refused(kernel: Kernel, message: str, line: int | None = None) -> None:
    with pytest.raises(KernelError, match=message) as caught:
        verify(kernel)
    assert caught.value.id == "E0901"
    if line is not None:
        assert caught.value.diagnostic.loc is not None
        assert caught.value.diagnostic.loc.line == line


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads": 6}, "6 threads are not whole simdgroups of 4"),
        ({"simd": 3}, "simd width 3"),
        ({"index": i64}, "dim `N` is i32, not i64"),
        ({"rank": 2}, "does not yield the extents"),
        ({"requires": (Require("never"),)}, "does not yield the extents"),
        ({"host": Block()}, "do not match"),
        ({"body": Block()}, "do not match"),
        ({"index": f32}, "the index type is f32"),
    ],
)
def test_kernel_facts(changes, message):
    refused(replace(good().done(), **changes), message)


def test_parameter_order_and_names():
    k = good().done()
    refused(replace(k, params=k.params[::-1]), "not in the order")
    twice = replace(k.params[1], name="x")
    refused(replace(k, params=(k.params[0], twice, *k.params[2:])), "two parameters have one name")


def _edit(change: Callable[[Handmade], None], message: str, line: int | None = None):
    return pytest.param(change, message, line, id=message)


def _outside(p: Handmade) -> None:
    p.at(30)
    even = p.emit("eq", p.thread(), p.const(0))
    sides = []
    for _ in range(2):
        with p.b.block() as side:
            v = p.emit("add", p.thread(), p.const(len(sides) + 5))
            p.do("yield")
        sides.append(side)
    p.do("if", even, regions=tuple(sides))
    p.at(31)
    p.emit("neg", v)


def _twice(p: Handmade) -> None:
    p.emit("neg", p.thread())
    p.body.ops.append(p.body.ops[-1])


def _results(p: Handmade) -> None:
    op = Op(TABLE["neg"], (p.thread(),))
    object.__setattr__(op, "results", (Value(f32, op),))
    p.body.ops.append(op)


def _operands(p: Handmade) -> None:
    op = Op(TABLE["barrier"], ())
    object.__setattr__(op, "args", (p.thread(),))
    p.body.ops.append(op)


def _attrs(p: Handmade) -> None:
    op = Op(TABLE["thread"], (), (i32,))
    object.__setattr__(op, "attrs", ())
    p.body.ops.append(op)


def _yield(p: Handmade) -> None:
    p.do("yield")


def _const(p: Handmade) -> None:
    p.body.ops.append(Op(TABLE["const"], (), (np.int64(3), i32)))


def _step(p: Handmade) -> None:
    with p.b.block((Value(i32),)) as body:
        p.do("yield")
    zero = p.const(0)
    p.do("for", zero, zero, zero, attrs=(False,), regions=(body,))


def _open_region(p: Handmade) -> None:
    with p.b.block() as side:
        pass
    p.do("if", p.const(True, bool_), regions=(side, side))


def _width(p: Handmade) -> None:
    f = p.function("add", i32)
    p.do("reduce", p.thread(), attrs=(16,), regions=(f,))


def _function(p: Handmade) -> None:
    a, b = Value(f32), Value(f32)
    with p.b.block((a, b)) as body:
        p.do("yield", p.load(p.values["x"], p.const(0)))
    p.do("reduce", p.values["s"], attrs=(0,), regions=(body,))


def _carried_tensor(p: Handmade) -> None:
    with p.b.block() as side:
        p.do("yield", p.values["x"])
    p.do("if", p.const(True, bool_), regions=(side, side))


def _shared_inside(p: Handmade) -> None:
    with p.b.block() as side:
        p.do("shared", attrs=(tensor(f32, 1, "shared", (4,)),))
        p.do("yield")
    with p.b.block() as other:
        p.do("yield")
    p.do("if", p.const(True, bool_), regions=(side, other))


@pytest.mark.parametrize(
    ("change", "message", "line"),
    [
        _edit(_outside, "`neg`: operand .* is not defined here", 31),
        _edit(_twice, "is defined twice"),
        _edit(_results, "its results should be"),
        _edit(_operands, "has 1 operands"),
        _edit(_attrs, "has 0 attributes, not 1"),
        _edit(_yield, "not at the end of a region"),
        _edit(_const, "holds a int64, not i32"),
        _edit(_step, "its step is below 1"),
        _edit(_open_region, "does not end in a yield"),
        _edit(_width, "width 16 is not a power of two that divides 8"),
        _edit(_function, "its function contains `load`"),
        _edit(_carried_tensor, "a tensor cannot be carried"),
        _edit(_shared_inside, "declared inside a region"),
        _edit(lambda p: p.do("exchange", p.thread(), attrs=(9,)), "leaves the group"),
        _edit(lambda p: p.do("group", attrs=(1, i32)), "axis 1 of a launch of rank 1"),
        _edit(
            lambda p: p.do("table", attrs=(tensor(u32, 1, "table", (2,)), b"1234")), "holds 4 bytes"
        ),
        _edit(
            lambda p: p.do("shared", attrs=(tensor(u32, 2, "shared", (2,)),)), "its type is shared"
        ),
    ],
)
def test_ops(change, message, line):
    p = good()
    p.at(9)
    change(p)
    refused(p.done(), message, line)


def test_collective_without_groups():
    p = good()
    p.do("barrier")
    refused(replace(p.done(), each=True), "a collective in a kernel without groups")


def test_host_block_is_elementwise():
    k = good().done()
    call = Op(TABLE["thread"], (), (i32,))
    k.host.ops.insert(0, call)
    refused(k, "only elementwise ops run on the host")
