"""`fuse` contracts f32 products into sums, and nothing that is exact or an integer."""

import numpy as np
import pytest

from iron.dtypes import f32, i32
from iron.ir.interp import run
from iron.ir.verify import verify
from iron.passes.dead import dead
from iron.passes.elementary import elementary
from iron.passes.fuse import fuse
from tests.unit.ir.handmade import Handmade

INPUT = np.concatenate([[-0.0, 1e-20], np.random.default_rng(0).normal(size=62)]).astype("f4")


def kernel(make, dtype=f32, exact: frozenset[str] = frozenset()):
    p = Handmade(threads=64)
    x, y = p.tensor("x", dtype), p.tensor("y", dtype, "out")
    v = p.load(x, p.thread())

    def emit(name, *args):
        p.b.exact = name in exact
        return p.emit(name, *args)

    p.store(y, p.thread(), make(emit, v, p.const(-1, dtype)))
    return p.done()


def names(k) -> list[str]:
    verify(k)
    skip = ("const", "thread", "load", "store")
    return [op.name for op in k.body.walk() if op.name not in skip]


def result(k, dtype=np.float32) -> np.ndarray:
    y = np.zeros(64, dtype)
    run(k, {"x": INPUT.astype(dtype), "y": y}, {}, {}, (1,))
    return y


X, Y = INPUT.astype(np.float64), -1.0


@pytest.mark.parametrize(
    ("make", "ops", "exactly"),
    [
        (lambda e, x, c: e("add", e("mul", x, x), c), ["fma"], X * X + Y),
        (lambda e, x, c: e("add", c, e("mul", x, x)), ["fma"], X * X + Y),
        (lambda e, x, c: e("sub", e("mul", x, x), c), ["neg", "fma"], X * X - Y),
        (lambda e, x, c: e("sub", c, e("mul", x, x)), ["neg", "fma"], Y - X * X),
    ],
)
def test_product_and_sum_become_one_rounding(make, ops, exactly):
    k = kernel(make)
    fused = dead(fuse(k))
    assert [n for n in names(fused) if n != "neg"] == [n for n in ops if n != "neg"]
    assert np.array_equal(result(fused), exactly.astype(np.float32))
    assert not np.array_equal(result(fused), result(k))


def test_of_two_products_the_left_one_is_contracted():
    k = kernel(lambda e, x, c: e("add", e("mul", x, x), e("mul", x, c)))
    (fma,) = [op for op in dead(fuse(k)).body.ops if op.name == "fma"]
    assert fma.args[0] is fma.args[1]


@pytest.mark.parametrize("exact", [{"mul"}, {"add"}, {"mul", "add"}])
def test_exact_ops_are_left_alone(exact):
    k = kernel(lambda e, x, c: e("add", e("mul", x, x), c), exact=frozenset(exact))
    assert names(dead(fuse(k))) == ["mul", "add"]
    assert np.array_equal(result(fuse(k)), result(k))


def test_integers_are_left_alone():
    k = kernel(lambda e, x, c: e("add", e("mul", x, x), c), dtype=i32)
    assert names(dead(fuse(k))) == ["mul", "add"]


def test_an_elementary_body_is_the_same_before_and_after():
    k = elementary(kernel(lambda e, x, c: e("exp", x)))
    assert names(dead(fuse(k))) == names(dead(k))
    assert result(fuse(k)).tobytes() == result(k).tobytes()
