"""Products by micro-kernels from group memory: the same as any other, by each that a CPU has."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import assembly, host, native
from iron.compiler import lower
from iron.dtypes import bf16, f16, f32, i32, u32
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.ir.table import OpTypeError
from iron.ir.types import tensor
from iron.ir.verify import verify
from iron.runtime.drivers.cpu import CpuDriver
from iron.targets.cpu import X86_64_V4
from iron.targets.target import Target
from iron.tiles import staging, storage
from iron.tiles.lower import threads
from tests.unit.ir.handmade import Handmade
from tests.unit.tiles.programs import Made, attention, gemm
from tests.unit.tiles.test_lower import interpreted, on

PAIRS, TILES = "avx512bf16", "amx-bf16"
NEEDS = {PAIRS: {PAIRS}, TILES: {PAIRS, TILES}}
PROGRAMS: dict[str, Callable[[], Made]] = {
    "nn": lambda: gemm((33, 70, 66), (32, 64, 32), bf16),
    "nt with bias": lambda: gemm((50, 33, 97), (16, 32, 64), bf16, "NT", bias=True),
    "tn": lambda: gemm((31, 64, 40), (32, 32, 32), bf16, "TN"),
    "whole": lambda: gemm((64, 64, 64), (32, 64, 32), bf16),
    "attention": lambda: attention(32, 64, 64, (32, 32), bf16),
}


def having(features: set[str], target: Target = X86_64_V4) -> Target:
    return replace(target, features=target.features - {PAIRS, TILES} | features)


def products(kernel: Kernel) -> list[str]:
    return [op.name for op in kernel.body.walk() if op.name in ("panel_mma", "fma")]


@pytest.mark.parametrize("kind", NEEDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_panels_compute_the_same(name: str, kind: str):
    made = PROGRAMS[name]()
    kernel = threads(made.kernel, having(NEEDS[kind]))
    verify(kernel)
    assert "panel_mma" in products(kernel)
    assert interpreted(made, kernel) == {}


OWN = [kind for kind, needed in NEEDS.items() if needed <= host().features]


@pytest.mark.parametrize("features", [set(), *(NEEDS[kind] for kind in OWN)], ids=sorted)
@pytest.mark.parametrize("name", PROGRAMS)
def test_this_machine_computes_the_same(name: str, features: set[str]):
    assert on(PROGRAMS[name](), CpuDriver(None, having(features, host()))) == {}


@pytest.mark.parametrize(
    ("kind", "cpu", "wanted"),
    [
        (PAIRS, "znver4", {"vdpbf16ps"}),
        (TILES, "sapphirerapids", {"ldtilecfg", "tdpbf16ps", "tilerelease"}),
    ],
)
def test_the_text_has_the_instructions(kind: str, cpu: str, wanted: set[str]):
    target = replace(having(NEEDS[kind]), cpu=cpu)
    text = compile_kernel(lower(PROGRAMS["nn"]().kernel, target), target).text
    code = assembly(text, target)
    assert {word for word in code.split() if word in wanted} == wanted
    assert "call" not in code


@pytest.mark.parametrize(
    "made",
    [
        gemm((50, 70, 41), (16, 32, 16), bf16),
        gemm((50, 70, 41), (8, 32, 32), bf16),
        gemm((50, 70, 41), (16, 16, 32), bf16),
        gemm((50, 70, 41), (16, 32, 32), f16),
        gemm((50, 70, 41), (16, 32, 32), f32),
    ],
)
def test_what_does_not_fit_is_multiplied_as_ever(made: Made):
    assert set(products(threads(made.kernel, having(NEEDS[TILES])))) == {"fma"}


def test_artefacts_ask_the_system_for_nothing():
    assert not native().has(TILES)


# --- controls -------------------------------------------------------------------------------------


def test_pairs_in_the_wrong_order_are_seen(monkeypatch):
    made, right = PROGRAMS["whole"](), staging.read

    def swapped(e, op):
        packed = e.packed
        e.packed = lambda parts: packed(parts[::-1])
        right(e, op)
        e.packed = packed

    monkeypatch.setitem(threads.__globals__["RULES"], "tile_read", swapped)
    assert interpreted(made, threads(made.kernel, having(NEEDS[TILES]))) != {}


def test_a_missing_barrier_is_a_race(monkeypatch):
    monkeypatch.setattr(storage.Fence, "barrier", lambda self, b: None)
    made = PROGRAMS["nn"]()
    with pytest.raises(KernelError) as raised:
        interpreted(made, threads(made.kernel, having(NEEDS[TILES])))
    assert raised.value.id in ("E0410", "E0402")


@pytest.mark.parametrize(
    ("shapes", "rows", "message"),
    [
        (((32, 1, 32), (32, 64), (1, 32, 32)), 5, "no blocks of 5"),
        (((32, 1, 32), (16, 64), (1, 32, 32)), 16, "no operands"),
        (((32, 1, 32), (32, 64), (1, 16, 32)), 16, "no operands"),
        (((32, 1, 32), (32, 63), (1, 31, 32)), 16, "no sums"),
    ],
)
def test_arrays_that_do_not_agree_are_refused(shapes, rows: int, message: str):
    p = Handmade(threads=32, simd=32, rank=1)
    arrays = [
        p.emit("shared", attrs=(tensor(dtype, len(shape), "shared", shape),))
        for dtype, shape in zip((f32, bf16, u32), shapes, strict=True)
    ]
    zero = p.const(0, i32)
    with pytest.raises(OpTypeError, match=message):
        p.do("panel_mma", *arrays, zero, zero, attrs=(rows,))


def test_a_sum_of_many_turns_keeps_what_was_there():
    made = gemm((32, 32, 256), (32, 32, 32), bf16)
    (exact, _) = made.wanted["c"]
    assert np.abs(exact).max() > 1
    assert on(made, CpuDriver(None, having(NEEDS[OWN[-1]] if OWN else set(), host()))) == {}
