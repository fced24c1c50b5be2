"""`dot4` on this CPU: each form of each instruction-set level gives the interpreter's bits."""

import re

import numpy as np
import pytest

from iron.backends.cpu.dots import FLIP
from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import assembly
from iron.dtypes import DType, i32
from iron.ir.core import Kernel
from iron.runtime.drivers.cpu import CpuDriver
from iron.targets.cpu import AARCH64, AVX512, LINUX, X86_64_V3, X86_64_V4, X86_REQUIRED, cpu_target
from iron.targets.target import Target
from tests.unit.backends.cpu import agree
from tests.unit.ir.handmade import Handmade
from tests.unit.ir.test_dot4 import PAIRS, columns

VNNI = cpu_target(
    "vnni", LINUX, "icelake-server", (*X86_REQUIRED, *AVX512, "avx512vnni"), "+avx512vnni"
)
WIDTHS = [1, 8, 32]


def kernel(a: DType, b: DType, width: int, *, uniform: bool = False) -> Kernel:
    p = Handmade(threads=width, simd=max(width, 8))
    inputs = [p.tensor(n, t) for n, t in (("a", a), ("b", b), ("c", i32))]
    y, at = p.tensor("y", i32, "out"), p.place()
    places = [at, p.const(3) if uniform else at, at]
    loads = (p.load(x, i) for x, i in zip(inputs, places, strict=True))
    p.store(y, at, p.emit("dot4", *loads))
    return p.done()


def arrays(a: DType, b: DType, width: int) -> dict[str, np.ndarray]:
    given, _ = columns(a, b)
    size = len(given[0]) // 32 * 32
    return {
        **dict(zip("abc", (g[:size] for g in given), strict=True)),
        "y": np.zeros(size, np.int32),
    }


def check(a: DType, b: DType, width: int, *, uniform: bool = False) -> None:
    held = arrays(a, b, width)
    agree.both(kernel(a, b, width, uniform=uniform), held, (len(held["y"]) // width,))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
def test_on_this_machine(a: DType, b: DType, width: int):
    check(a, b, width)
    check(a, b, width, uniform=True)


def runs_here(target: Target) -> bool:
    host = agree.DRIVER.target()
    if not host.triple.startswith("x86_64"):
        return False
    return all(host.has(f) for f in target.features)


@pytest.mark.parametrize("target", [X86_64_V3, X86_64_V4, VNNI], ids=lambda t: t.name)
@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
def test_on_other_levels(a: DType, b: DType, target: Target, monkeypatch: pytest.MonkeyPatch):
    if runs_here(target):
        monkeypatch.setattr(agree, "DRIVER", CpuDriver(target=target))
        check(a, b, 32)
        check(a, b, 8)
    text = assembly(compile_kernel(kernel(a, b, 32), target).text, target)
    wanted = {"x86-64-v3": r"vpmaddwd.*ymm", "x86-64-v4": r"vpmaddwd.*zmm", "vnni": "vpdpbusd.*zmm"}
    assert re.search(wanted[target.name], text)
    assert "call" not in text


def test_elsewhere_bytes_are_shifted_out():
    text = assembly(compile_kernel(kernel(i32, i32, 32), AARCH64).text, AARCH64)
    assert "mla" in text
    assert "\tbl\t" not in text


def test_a_wrong_flip_is_seen(monkeypatch: pytest.MonkeyPatch):
    """The comparison above can fail."""
    monkeypatch.setattr("iron.backends.cpu.dots.FLIP", FLIP + 1)
    monkeypatch.setattr(agree, "DRIVER", CpuDriver(target=agree.DRIVER.target()))
    if not agree.DRIVER.target().has("avx512vnni"):
        monkeypatch.setattr("iron.backends.cpu.dots._LEAST", 64)
        monkeypatch.setattr("iron.backends.cpu.dots._by_shifts", lambda x, s, a, b, c: c)
    with pytest.raises(AssertionError):
        check(i32, i32, 32)
