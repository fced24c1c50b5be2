"""Exponentials that scale by one instruction give the bits of the two products they are."""

import numpy as np
import pytest

from iron.backends.cpu import scaling
from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import assembly
from iron.dtypes import f32
from iron.elementary.exponential import MAGIC
from iron.ir.core import Kernel
from iron.passes.elementary import elementary
from iron.runtime.drivers.cpu import CpuDriver
from iron.targets.cpu import X86_64_V3, X86_64_V4
from tests.unit.backends.cpu import agree
from tests.unit.ir.handmade import Handmade

ROWS = ["exp", "exp2", "sigmoid", "sinh", "cosh"]


def kernel(row: str) -> Kernel:
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    at = p.place()
    p.store(y, at, p.emit(row, p.load(x, at)))
    return elementary(p.done())


def arguments() -> np.ndarray:
    """Results that are subnormal, that overflow, and everything between; special values."""
    rng = np.random.default_rng(9)
    parts = [
        np.linspace(-152, -85, 2048, dtype=np.float32),
        np.linspace(80, 130, 512, dtype=np.float32),
        rng.normal(size=1024).astype(np.float32) * 20,
        rng.integers(0, 2**32, 480, dtype=np.uint32).view(np.float32),
        np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1] * 4, np.float32),
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("row", ROWS)
def test_the_same_bits(row: str):
    x = arguments()
    agree.both(kernel(row), {"x": x, "y": np.zeros_like(x)}, (len(x) // 32,))


def test_the_instruction():
    made = kernel("exp")
    assert "vscalefps" in assembly(compile_kernel(made, X86_64_V4).text, X86_64_V4)
    assert "vscalef" not in assembly(compile_kernel(made, X86_64_V3).text, X86_64_V3)


def test_a_wrong_power_is_seen(monkeypatch: pytest.MonkeyPatch):
    if not agree.DRIVER.target().has("avx512"):
        monkeypatch.setattr("tests.unit.backends.cpu.agree.same_bits", lambda a, b: a != a)
    monkeypatch.setattr(scaling, "MAGIC", MAGIC + 1)
    monkeypatch.setattr(agree, "DRIVER", CpuDriver(target=agree.DRIVER.target()))
    with pytest.raises(AssertionError):
        test_the_same_bits("exp")
