"""`elementary` leaves no expanded op anywhere, and no branch where none may stand."""

import numpy as np
import pytest

from iron.dtypes import f32
from iron.ir.core import Kernel, Value
from iron.ir.interp import run
from iron.ir.table import TABLE, Trait
from iron.ir.types import vector
from iron.ir.verify import verify
from iron.passes.elementary import elementary
from tests.unit.elementary.evaluate import call
from tests.unit.ir.handmade import Handmade

EXPANDED = [row.name for row in TABLE.values() if row.has(Trait.EXPANDED)]
INPUT = np.array([0.25, -3.5, 2.0**21 + 1, np.inf], np.float32)


def with_op(name: str, count: int = 0) -> Kernel:
    p = Handmade(threads=1 if count else 4, simd=1 if count else 4)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    v = p.load(x, p.thread(), count=count)
    p.store(y, p.thread(), p.emit(name, *[v] * len(TABLE[name].operands)))
    return p.done()


def left(kernel: Kernel) -> list[str]:
    verify(kernel)
    blocks = (kernel.host, kernel.body)
    return [o.name for b in blocks for o in b.walk() if o.row.has(Trait.EXPANDED)]


@pytest.mark.parametrize("name", EXPANDED)
@pytest.mark.parametrize("count", [0, 4])
def test_scalars_and_vectors_have_the_bits_of_the_body(name, count):
    k = elementary(with_op(name, count))
    assert left(k) == []
    y = np.zeros(4, np.float32)
    run(k, {"x": INPUT, "y": y}, {}, {}, (1,))
    want = call(name, *[INPUT] * len(TABLE[name].operands))
    assert np.array_equal(np.isnan(y), np.isnan(want))
    assert y[want == want].tobytes() == want[want == want].tobytes()


def test_what_is_kept_is_kept():
    assert left(elementary(with_op("fast_exp2"), frozenset({"fast_exp2"}))) == ["fast_exp2"]


def test_a_combining_function_gets_no_branch():
    p = Handmade()
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    a, b = Value(f32), Value(f32)
    with p.b.block((a, b)) as f:
        p.do("yield", p.emit("add", p.emit("sin", a), b))
    (v,) = p.do("reduce", p.load(x, p.thread()), attrs=(0,), regions=(f,))
    p.store(y, p.thread(), p.emit("sin", v))
    k = elementary(p.done())
    assert left(k) == []
    (reduce,) = [op for op in k.body.ops if op.name == "reduce"]
    assert [op.name for op in reduce.regions[0].walk()].count("if") == 0
    assert [op.name for op in k.body.ops].count("if") == 1


def test_the_host_block_gets_no_branch():
    k = with_op("exp")
    p = Handmade()
    p.scalar("s", f32)
    host = Value(f32)
    with p.b.block((host,)) as block:
        p.do("yield", p.emit("cast", p.emit("sin", host), attrs=(p.index,)))
    from iron.ir.rebuild import replace_blocks

    k = replace_blocks(p.done(), host=block)
    assert left(k) == ["sin"]
    after = elementary(k)
    assert left(after) == []
    assert "if" not in {op.name for op in after.host.walk()}


def test_vector_type_is_kept():
    k = elementary(with_op("exp", 4))
    stores = [op for op in k.body.ops if op.name == "store"]
    assert stores[0].args[-1].type is vector(f32, 4)
