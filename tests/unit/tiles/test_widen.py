"""Products of bytes that are floats: the same numbers on every road."""

from dataclasses import replace

import numpy as np
import pytest

from iron.dtypes import f16, u8
from iron.ir import interp
from iron.ir.floats8 import FLOATS8, decoded
from iron.ir.host import evaluate
from iron.ir.rebuild import rebuild
from iron.ir.types import element
from iron.passes.elementary import elementary
from iron.targets.nvidia import SM_80
from iron.tiles.lower import threads
from iron.tiles.widen import widen
from tests.unit.tiles import kernels

RNG = np.random.default_rng(4)
CODES = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize("name", FLOATS8)
def test_bytes_are_what_the_formats_say(name):
    wanted = CODES.view(kernels.BYTES[name]).astype(np.float32)
    assert np.array_equal(decoded(CODES, name), wanted, equal_nan=True)


def product(name, m=17, n=24, k=40):
    """Every byte, NaN and infinities included, meets others in some row; the rest is small."""
    arrays = {
        x: kernels.small(RNG, s, k).astype(kernels.BYTES[name]) for x, s in (("a", m), ("b", n))
    }
    arrays = {x: v.view(np.uint8) for x, v in arrays.items()}
    arrays["a"][0], arrays["a"][1] = CODES[:k], CODES[-k:]
    arrays["c"] = np.full((m, n), np.nan, np.float32)
    kernel = kernels.tiles_of(kernels.other_factors, arrays, MATH=name, BM=16, BN=16, BK=16)
    return kernel, arrays, {"M": m, "N": n, "K": k}


def left(kernel, arrays, dims, grid):
    held = {n: v.copy() for n, v in arrays.items()}
    interp.run(elementary(kernel), held, {}, dims, grid)
    return held["c"]


@pytest.mark.parametrize("name", FLOATS8)
def test_every_road_multiplies_the_same_numbers(name):
    kernel, arrays, dims = product(name)
    grid, _ = evaluate(kernel, {}, dims)
    a, b = (decoded(arrays[x], name) for x in "ab")
    with np.errstate(invalid="ignore"):
        wanted = a @ b.T
    for made in (kernel, widen(kernel), threads(kernel), threads(kernel, SM_80)):
        got = left(made, arrays, dims, grid)
        assert np.array_equal(got, wanted, equal_nan=True)


def test_units_of_f16_get_f16():
    kernel, _, _ = product("e4m3")
    made = widen(kernel)
    factors = [element(op.args[0].type) for op in made.body.walk() if op.name == "mma"]
    assert factors == [f16]
    assert widen(made) is made


def test_another_format_is_seen():
    """The positive control."""
    kernel, arrays, dims = product("e4m3")
    grid, _ = evaluate(kernel, {}, dims)

    def other(b, op, args):
        return b.emit_all("mma", args, ("e5m2", op.attr("site")))

    wrong = replace(kernel, body=rebuild(kernel, {"mma": other}).body)
    assert element(wrong.body.params[0].type) is u8
    one, two = (left(k, arrays, dims, grid) for k in (kernel, wrong))
    assert not np.array_equal(one, two, equal_nan=True)
