"""Functions of the `fast_` kind on AVX-512: within what the target states, without a division."""

import re

import numpy as np
import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import assembly
from iron.compiler import lower
from iron.dtypes import f32
from iron.ir.core import Kernel
from iron.ir.table import TABLE
from iron.passes.elementary import elementary
from iron.targets.cpu import APPROXIMATIONS, X86_64_V3, X86_64_V4
from tests.unit.backends.cpu.agree import DRIVER
from tests.unit.elementary.evaluate import ulps
from tests.unit.ir.handmade import Handmade

STATED = {a.op: a.ulp for a in APPROXIMATIONS}
SLOW = re.compile(r"\tv(div|sqrt)[ps]s")
SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-39, 3e38, 1], np.float32)
EXPECTED = {
    "fast_exp2": [1, 1, np.inf, 0, np.nan, 1, None, 1, np.inf, 2],
    "fast_rcp": [np.inf, -np.inf, 0, -0.0, np.nan, np.inf, -np.inf, None, None, 1],
    "fast_rsqrt": [np.inf, -np.inf, 0, np.nan, np.nan, None, np.nan, None, None, 1],
}


def kernel(name: str, width: int = 32) -> Kernel:
    p = Handmade(threads=width, simd=width)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "inout")
    p.store(y, p.place(), p.emit(name, p.load(x, p.place())))
    return p.done()


def on_cpu(name: str, x: np.ndarray, width: int = 32) -> np.ndarray:
    y = np.full_like(x, np.nan)
    made = elementary(kernel(name, width), DRIVER.target().approximated)
    DRIVER.load(made).bind({"x": x, "y": y}, {}, {}, (len(x) // width,))()
    return y


def operands(name: str) -> np.ndarray:
    """Every significand of a binade or two, other binades, and the range of exponents."""
    rng = np.random.default_rng(2)
    if name == "fast_exp2":
        parts = [rng.uniform(-125, 128, 1 << 20), rng.uniform(-1, 1, 1 << 20), np.arange(-125, 128)]
    else:
        parts = [np.arange(1 << 20) * 2.0**-19 + 1, 2.0 ** rng.uniform(-125.9, 125.9, 1 << 20)]
    x = np.concatenate(parts).astype(np.float32)
    return x[: len(x) // 32 * 32]


@pytest.mark.parametrize("name", STATED)
def test_within_the_stated_error(name: str):
    x = operands(name)
    y = on_cpu(name, x)
    truth = TABLE[name].truth(x.astype(np.float64))
    limit = STATED[name] if DRIVER.target().has("avx512") else TABLE[name].ulp
    assert ulps(y, truth).max() <= limit
    assert ulps(y * np.float32(1 + 2.0**-21), truth).max() > limit


@pytest.mark.parametrize("name", STATED)
def test_special_values(name: str):
    y = on_cpu(name, np.resize(SPECIAL, 32))[: len(SPECIAL)]
    want = EXPECTED[name]
    kept = [i for i, value in enumerate(want) if value is not None]
    assert np.array_equal(y[kept], np.float32([want[i] for i in kept]), equal_nan=True)
    assert not np.isnan(y[[i for i in range(len(want)) if i not in kept]]).any()


@pytest.mark.parametrize("name", STATED)
def test_the_bits_are_those_of_any_width(name: str):
    x = operands(name)[: 1 << 15]
    want = on_cpu(name, x)
    for width in (1, 2, 4, 8, 16, 64):
        assert np.array_equal(on_cpu(name, x, width).view(np.uint32), want.view(np.uint32)), width


@pytest.mark.parametrize("name", STATED)
def test_by_the_instructions_of_the_target(name: str):
    texts = {
        t.name: assembly(compile_kernel(lower(kernel(name), t), t).text, t)
        for t in (X86_64_V4, X86_64_V3)
    }
    wanted = {"fast_exp2": "vreduceps", "fast_rcp": "vrcp14ps", "fast_rsqrt": "vrsqrt14ps"}[name]
    assert wanted in texts[X86_64_V4.name]
    assert not SLOW.search(texts[X86_64_V4.name])
    assert wanted not in texts[X86_64_V3.name]
    assert name == "fast_exp2" or SLOW.search(texts[X86_64_V3.name])
