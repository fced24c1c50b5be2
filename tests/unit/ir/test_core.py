"""The objects of the IR are written once: the test mode refuses every later write."""

import pytest

from iron.dtypes import f32, i32
from iron.ir.core import Op, Value
from tests.unit.ir.handmade import Handmade


@pytest.mark.parametrize("name", [s for s in Op.__slots__])
def test_op_is_written_once(name):
    p = Handmade()
    p.emit("neg", p.thread())
    op = p.body.ops[-1]
    with pytest.raises(AttributeError, match=f"Op.{name} is written twice"):
        setattr(op, name, getattr(op, name))


def test_value_is_written_once():
    v = Handmade().thread()
    for name, new in (("type", f32), ("op", None)):
        with pytest.raises(AttributeError, match=f"Value.{name} is written twice"):
            setattr(v, name, new)


def test_name_may_be_given_once():
    v = Value(i32)
    v.name = "total"
    with pytest.raises(AttributeError, match=r"Value\.name is written twice"):
        v.name = "sum"
