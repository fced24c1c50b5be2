"""Products by Metal's matrices: tile programs and the library's kernels, as checked text."""

from collections.abc import Callable

import numpy as np
import pytest

from iron.analysis.budget import check_budget
from iron.backends.clike.render import Text, render
from iron.backends.msl import MSL
from iron.backends.msl_check import check
from iron.compiler import lower
from iron.dtypes import DType, bf16, f16, f32, i8
from iron.front import TensorArg, bind, specialise
from iron.ir.core import Kernel
from iron.kernels.gemm.gemm import gemm as library_gemm
from iron.kernels.sdpa.prefill import sdpa_prefill
from iron.passes.scalarise import scalarise
from iron.runtime.driver import driver
from iron.targets.apple import APPLE7
from iron.tiles.opaque import opaque_grid
from tests.unit.tiles.programs import Made, attention, gemm
from tests.unit.tiles.test_lower import on

PROGRAMS: dict[str, Callable[[], Made]] = {
    "nn f16": lambda: gemm((50, 70, 41), (32, 32, 16), f16),
    "tt bf16 with bias": lambda: gemm((33, 40, 41), (32, 32, 16), bf16, "TT", bias=True),
    "nt f32": lambda: gemm((33, 40, 24), (16, 48, 8), f32, "NT"),
    "attention bf16": lambda: attention(20, 40, 32, (16, 32), bf16),
}


def text(kernel: Kernel) -> Text:
    made = render(scalarise(kernel), MSL, "iron_products")
    check(made)
    return made


FAST = ("nn f16", "attention bf16")
NAMES = [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in PROGRAMS]


@pytest.mark.parametrize("name", NAMES)
def test_programs_on_fibres(name: str):
    made = PROGRAMS[name]()
    assert on(made, driver("msl-text")) == {}
    assert "simdgroup_multiply_accumulate(" in text(lower(made.kernel, APPLE7)).body


def argument(dtype: DType, *shape: int) -> TensorArg:
    steps = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return TensorArg(dtype, shape, steps)


def library(dtype: DType) -> list[Kernel]:
    matrix, heads = argument(dtype, 256, 256), argument(dtype, 1, 2, 64, 64)
    given = [
        (library_gemm, {"a": matrix, "b": matrix, "bias": None, "residual": None}, {"TB": 1}),
        (
            sdpa_prefill,
            {"q": heads, "k": heads, "v": heads, "used": None, "mask": None, "sink": None},
            {"CAPPED": False, "WINDOWED": False, "CAUSAL": True},
        ),
    ]
    room = APPLE7.shared_bytes
    return [specialise(fn, bind(fn, a, c, shared_bytes=room), APPLE7.simd) for fn, a, c in given]


SLOW = [pytest.param(t, marks=pytest.mark.slow, id=str(t)) for t in (f16, f32)]


@pytest.mark.parametrize("dtype", [pytest.param(bf16, id="bf16"), *SLOW])
def test_the_librarys_products_are_metal(dtype: DType):
    """Their default tiles fit Apple's group memory."""
    for kernel in library(dtype):
        lowered = lower(kernel, APPLE7)
        check_budget(lowered, APPLE7)
        assert "simdgroup_multiply_accumulate(" in text(lowered).body


def test_other_products_are_fused_multiply_adds():
    assert opaque_grid(gemm(dtype=i8, tiles=(16, 16, 16)).kernel, APPLE7) is None
    assert opaque_grid(gemm(dtype=f16, tiles=(4, 16, 16)).kernel, APPLE7) is None
    assert opaque_grid(gemm(dtype=f16, tiles=(16, 16, 8)).kernel, APPLE7) is not None
