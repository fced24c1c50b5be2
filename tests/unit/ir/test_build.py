"""The builder numbers pure values, block by block, and nothing else."""

import pytest

from iron.dtypes import bool_, f32, i32, u32
from iron.errors import Loc
from iron.ir.build import Builder
from iron.ir.core import Block, Value
from iron.ir.table import OpTypeError
from iron.ir.types import tensor, vector


def names(block: Block) -> list[str]:
    return [op.name for op in block.ops]


def test_equal_pure_ops_are_one_value():
    b, x, y = Builder(), Value(i32), Value(i32)
    with b.block() as block:
        assert b.emit("sub", x, y) is b.emit("sub", x, y)
        assert b.emit("sub", y, x) is not b.emit("sub", x, y)
        assert b.emit("add", x, y) is b.emit("add", y, x)
        assert b.emit("cast", x, attrs=(f32,)) is not b.emit("cast", x, attrs=(u32,))
    assert names(block) == ["sub", "sub", "add", "cast", "cast"]


def test_an_exact_op_is_another_value():
    b, x = Builder(), Value(f32)
    with b.block() as block:
        free = b.emit("mul", x, x)
        b.exact = True
        assert b.emit("mul", x, x) is not free
    assert [op.exact for op in block.ops] == [False, True]


def test_loads_stores_and_collectives_are_never_shared():
    b, x, i = Builder(), Value(tensor(f32, 1, "in")), Value(i32)
    with b.block():
        assert b.emit("load", x, i, attrs=(0,)) is not b.emit("load", x, i, attrs=(0,))
        v = Value(f32)
        assert b.emit("exchange", v, attrs=(1,)) is not b.emit("exchange", v, attrs=(1,))
        shared = tensor(f32, 1, "shared", (4,))
        assert b.emit("shared", attrs=(shared,)) is not b.emit("shared", attrs=(shared,))


def test_an_inner_block_sees_outer_values_and_its_own_stay_inside():
    b, x = Builder(), Value(i32)
    with b.block():
        outer = b.emit("neg", x)
        with b.block() as first:
            assert b.emit("neg", x) is outer
            inner = b.emit("abs", x)
        with b.block() as second:
            assert b.emit("abs", x) is not inner
        assert b.emit("abs", x) is not inner
    assert names(first) == names(second) == ["abs"]


def test_a_block_is_continued_with_its_own_memo():
    b, x = Builder(), Value(i32)
    with b.block() as block:
        first, memo = b.emit("neg", x), b.memo
    with b.into(block, memo):
        assert b.emit("neg", x) is first
        b.emit("abs", x)
    assert names(block) == ["neg", "abs"]


def test_a_fault_inside_closes_the_block():
    b, x = Builder(), Value(i32)
    with b.block() as outer:
        with pytest.raises(OpTypeError), b.block():
            b.emit("add", x, Value(f32))
        b.emit("neg", x)
    assert names(outer) == ["neg"]


def test_place_exactness_and_surface_are_stamped():
    b, x = Builder(), Value(f32)
    b.loc, b.exact = Loc("a.py", 3), True
    with b.block():
        op = b.emit("exchange", x, attrs=(1,), surface="group_xor").op
    assert op is not None
    assert (op.loc, op.exact, op.surface) == (Loc("a.py", 3), True, "group_xor")


@pytest.mark.parametrize(
    ("name", "args", "attrs"),
    [
        ("add", (Value(i32), Value(u32)), ()),
        ("add", (Value(vector(i32, 2)), Value(i32)), ()),
        ("add", (Value(i32),), ()),
        ("and", (Value(f32), Value(f32)), ()),
        ("where", (Value(i32), Value(f32), Value(f32)), ()),
        ("neg", (Value(tensor(f32, 1, "in")),), ()),
        ("extract", (Value(vector(f32, 2)),), (2,)),
        ("bitcast", (Value(bool_),), (i32,)),
        ("load", (Value(tensor(f32, 2, "in")), Value(i32)), (0,)),
        ("store", (Value(tensor(f32, 1, "in")), Value(i32), Value(f32)), ()),
        ("store", (Value(tensor(f32, 1, "out")), Value(i32), Value(i32)), ()),
        ("atomic", (Value(tensor(f32, 1, "inout")), Value(i32), Value(f32)), ("add",)),
        ("atomic", (Value(tensor(i32, 1, "inout")), Value(i32), Value(i32)), ("nand",)),
    ],
)
def test_operands_of_wrong_types_are_refused(name, args, attrs):
    b = Builder()
    with b.block() as block, pytest.raises(OpTypeError):
        b.emit_all(name, args, attrs)
    assert block.ops == []


def test_a_fold_does_not_hide_a_wrong_type():
    b, x = Builder(), Value(i32)
    with b.block():
        for name, other in (("add", b.const(0, u32)), ("mul", b.const(1, u32))):
            with pytest.raises(OpTypeError):
                b.emit(name, x, other)
        with pytest.raises(OpTypeError):
            b.emit("where", b.const(True, bool_), x, Value(f32))
        with pytest.raises(OpTypeError):
            b.emit("add", b.const(1, i32), b.const(1, u32))
