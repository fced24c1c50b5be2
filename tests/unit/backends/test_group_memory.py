"""Group memory beyond what a CUDA kernel may declare is asked for at the launch."""

from dataclasses import replace

import numpy as np
import pytest

from iron.analysis.budget import check_budget
from iron.backends import nvrtc
from iron.backends.cuda import CUDA
from iron.backends.cuda_code import code_of
from iron.compiler import lower
from iron.errors import KernelError
from iron.runtime.drivers.cuda import CudaDriver
from iron.runtime.drivers.cuda_api import Api
from iron.shims import cuda_text
from iron.targets.nvidia import LEVELS, STATIC_SHARED, of_capability
from tests.contract.fake_cuda import FakeCuda
from tests.unit.backends.large import BYTES, LENGTH, large


def test_it_is_one_array_of_the_launch():
    code = code_of(lower(large()))
    assert code.dynamic == BYTES > STATIC_SHARED
    assert "  extern __shared__ __align__(16) u8 group_memory[];" in code.text.source
    assert "  f32* const shared = (f32*)(group_memory + 0);" in code.text.source


def test_it_computes_the_same_on_fibres():
    x = np.random.default_rng(2).normal(size=(2, LENGTH)).astype(np.float32)
    y = np.full_like(x, np.nan)
    cuda_text.open_driver().load(lower(large())).bind({"x": x, "y": y}, {}, {"R": 2}, (2,))()
    np.testing.assert_array_equal(y, x[:, ::-1])


def test_every_generation_assembles_it():
    code = code_of(lower(large()))
    for target in LEVELS:
        made = nvrtc.compile_text(code.text.source, target)
        assert made.shared_bytes == 0
        assert list(made.entries) == [code.symbol]
    declared = code_of(lower(large()), dialect=replace(CUDA, most_declared=0))
    with pytest.raises(KernelError, match="too much shared data"):
        nvrtc.compile_text(declared.text.source, "sm_80")


def test_the_driver_allows_it_once_and_asks_for_it_at_each_launch():
    cu = FakeCuda()
    driver = CudaDriver(Api(cu))
    cu.program = lambda launch: None
    arrays = {n: driver.upload(np.zeros((2, LENGTH), np.float32)).seen for n in "xy"}
    run = driver.load(lower(large())).bind(arrays, {}, {"R": 2}, (2,))
    run()
    run()
    assert [c for c in cu.calls if c.startswith("dynamic")] == [f"dynamic={BYTES}"]
    assert [launch.shared for launch in cu.launches] == [BYTES, BYTES]


def test_more_than_the_gpu_has_is_an_error_that_says_so():
    small = replace(of_capability(8, 6), shared_bytes=BYTES - 1)
    with pytest.raises(KernelError) as wrong:
        check_budget(lower(large()), small)
    assert wrong.value.id == "E0501"
    assert f"{BYTES} bytes of group memory; sm_86 has {BYTES - 1}" in str(wrong.value)
