"""NVRTC assembles what the CUDA backend writes, for each generation, and refuses what is wrong."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

import iron
from iron.backends import nvrtc
from iron.backends.cuda_code import code_of
from iron.backends.cuda_forms import forms
from iron.check.cases import run_case
from iron.check.expand import ConcreteCase, expand
from iron.dtypes import f32
from iron.errors import KernelError, Loc
from iron.ir.core import Kernel
from iron.ir.text import digest
from iron.ir.types import tensor
from iron.targets.nvidia import LEVELS
from iron.targets.target import Target
from iron.worker import discover
from tests.turns import rows
from tests.unit.ir.handmade import Handmade

# Bytes that a thread of these spills at most; no other kernel has too few registers.
SPILLED = {"sdpa_prefill": 160, "sdpa_bidirectional": 96, "sdpa_decode": 32, "qmv": 64}
# What kernels distinguish; the other levels differ from the first in their group memory.
GENERATIONS = ("sm_80", "sm_90a", "sm_100a")
SPREAD = ("rms_norm", "arg_reduce", "qmv", "cast", "scan")


class Collector:
    """A driver that keeps the kernels it is given, lowered for its target, and launches nothing."""

    name, device, stages = "cuda", "cpu", True

    def __init__(self, target: Target) -> None:
        self.found: dict[str, Kernel] = {}
        self.loads = 0
        self.target = lambda: target

    def load(self, kernel: Kernel) -> "Collector":
        self.found.setdefault(digest(kernel), kernel)
        self.loads += 1
        return self

    def bind(self, *_: Mapping[str, Any]) -> Callable[[], None]:
        return lambda: None


DECLARED = {
    name: declared
    for module in discover.modules(("iron.kernels",))
    for name, declared in discover.kernels(module).items()
    if declared.suite.oracle is not None
}


def specialised(rows: Iterable[Iterable[ConcreteCase]], target: Target) -> list[Kernel]:
    """What the first case of each row that the target serves runs there."""
    driver: Any = Collector(target)

    def run(kernel: Any, arguments: Any) -> None:
        with iron.use(driver):
            kernel(**arguments)

    for cases in rows:
        before = driver.loads
        for case in cases:
            run_case(case, run)
            if driver.loads > before:
                break
    return [*driver.found.values()]


def compiled(kernel: Kernel, target: Target) -> list[nvrtc.Compiled]:
    return [
        nvrtc.compile_text(f.code.text.source, target.name, kernel.name, f.code.text.lines)
        for f in forms(kernel)
    ]


@pytest.mark.parametrize("name", SPREAD)
def test_a_spread_of_kernels_for_every_generation(name: str):
    for target in LEVELS.values():
        (kernel,) = specialised([expand(DECLARED[name])], target)
        for made in compiled(kernel, target):
            assert made.cubin[:4] == b"\x7fELF"
            assert made.spill_bytes == 0
            assert 0 < made.registers <= 255


@pytest.mark.slow
@pytest.mark.parametrize("target", GENERATIONS)
@pytest.mark.parametrize("name", DECLARED)
def test_every_kernel_compiles(name: str, target: str):
    """In each dtype and variant, as the target itself runs it: forms of sm_90a are its own.

    Forms behind one of bulk copies may spill: they run where tensor maps cannot.
    """
    turn = GENERATIONS.index(target)
    others_first = [row[turn % len(row) :] + row for row in rows(expand(DECLARED[name]))]
    found = specialised(others_first, LEVELS[target])
    assert found
    spilled = 0
    for kernel in found:
        every = [made.spill_bytes for made in compiled(kernel, LEVELS[target])]
        spilled = max(spilled, *(every[:1] if kernel.preferred is not None else every))
    assert spilled <= SPILLED.get(name, 0)


BROKEN = 'extern "C" __global__ void k(float* y) {\n  y[0] = x;\n}\n'
HOPPER = 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }\n'


def test_broken_text_names_the_line_of_the_user():
    with pytest.raises(KernelError, match='"x" is undefined') as caught:
        nvrtc.compile_text(BROKEN, "sm_80", "k", (None, Loc("kernel.py", 7), None))
    assert caught.value.id == "E0901"
    assert caught.value.diagnostic.loc == Loc("kernel.py", 7)


def test_an_instruction_of_another_generation_is_refused():
    assert nvrtc.compile_text(HOPPER, "sm_90a").cubin
    with pytest.raises(KernelError, match="wgmma"):
        nvrtc.compile_text(HOPPER, "sm_80")


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch):
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(nvrtc, "import_module", absent)
    nvrtc.api.cache_clear()
    with pytest.raises(KernelError, match="NVRTC") as caught:
        nvrtc.api()
    assert caught.value.id == "E0603"
    assert "pip install" in caught.value.diagnostic.help


def test_a_table_may_hold_what_is_not_finite():
    p = Handmade(threads=32, simd=32)
    y = p.tensor("y", f32, "out")
    data = np.array([np.inf, -np.inf, np.nan, 1.0], np.float32)
    held = p.emit("table", attrs=(tensor(f32, 1, "table", (4,)), data.tobytes()))
    at = p.emit("mod", p.thread(), p.const(4))
    p.store(y, p.thread(), p.load(held, at))
    text = code_of(p.done()).text.source
    assert "0x7f800000u" in text
    for target in LEVELS:
        assert nvrtc.compile_text(text, target).cubin
