"""The CUDA driver against a fake of NVIDIA's driver interface, with real machine code of NVRTC."""

import ctypes
import gc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import iron
from iron.dtypes import f16, f32, i32, u32
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.runtime.arrays import Buffer
from iron.runtime.cache import Cache
from iron.runtime.drivers.cuda import CudaDriver
from iron.runtime.drivers.cuda_api import Api
from iron.targets.nvidia import EARLY_THREADS
from tests.contract.fake_cuda import CUresult, FakeCuda
from tests.unit.ir.handmade import Handmade


def scaled() -> Kernel:
    """y = x * by for 64 elements."""
    p = Handmade(threads=32, simd=32)
    x, y, by = p.tensor("x", f32), p.tensor("y", f32, "out"), p.scalar("by", f32)
    at = p.place()
    p.store(y, at, p.emit("mul", p.load(x, at), by))
    return p.done()


def play_scaled(launch: SimpleNamespace) -> None:
    """What `scaled` does, on the addresses of the launch."""
    count = launch.grid[0] * launch.threads
    pointers = [launch.read(i, ctypes.c_uint64) for i in (0, 1)]
    x, y = (np.ctypeslib.as_array((ctypes.c_float * count).from_address(p)) for p in pointers)
    y[:] = x * launch.read(2, ctypes.c_float)


@pytest.fixture
def cu() -> FakeCuda:
    fake = FakeCuda()
    fake.program = play_scaled
    return fake


@pytest.fixture
def driver(cu: FakeCuda) -> CudaDriver:
    return CudaDriver(Api(cu))


def host_arrays() -> dict[str, np.ndarray]:
    return {"x": np.arange(64, dtype=np.float32), "y": np.full(64, np.nan, np.float32)}


def test_the_target_follows_the_gpu(driver: CudaDriver):
    assert driver.target().name == "sm_90a"


def test_a_launch_gets_the_arguments_in_order(driver: CudaDriver, cu: FakeCuda):
    x, y = driver.upload(np.arange(64, dtype=np.float32)), driver.upload(np.zeros(64, np.float32))
    run = driver.load(scaled()).bind({"x": x, "y": y}, {"by": 3.0}, {}, (2,))
    run()
    np.testing.assert_array_equal(driver.download(y), 3 * np.arange(64, dtype=np.float32))
    (launch,) = cu.launches
    assert (launch.grid, launch.threads, launch.symbol) == ((2, 1), 32, "iron_handmade")


def test_a_bound_launch_is_one_call(driver: CudaDriver, cu: FakeCuda):
    """So a graph may record it: nothing is allocated, nothing waits."""
    x, y = driver.upload(np.zeros(64, np.float32)), driver.upload(np.zeros(64, np.float32))
    run = driver.load(scaled()).bind({"x": x.seen, "y": y.seen}, {"by": 1.0}, {}, (2,))
    cu.calls.clear()
    cu.capture = 1
    run()
    assert cu.calls == ["cuLaunchKernelEx"]


@pytest.mark.parametrize(
    ("major", "groups", "early"), [(8, 2, []), (9, 2, [1]), (9, 12 * 132, [1]), (9, 12 * 133, [])]
)
def test_a_small_launch_may_begin_before_the_one_ahead_has_ended(
    major: int, groups: int, early: list[int]
):
    fake = FakeCuda(major=major)
    driver = CudaDriver(Api(fake))
    made = [driver.upload(np.ones(32 * groups, np.float32)) for _ in range(2)]
    kernel, arrays = scaled(), dict(zip("xy", (m.seen for m in made), strict=True))
    driver.load(kernel).bind(arrays, {"by": 2.0}, {}, (groups,))()
    assert [launch.early for launch in fake.launches] == [early]


def test_every_kernel_waits_before_it_does_anything_else():
    from iron.backends.cuda_code import code_of

    text = code_of(scaled()).text
    first = text.body.partition("{\n")[2].partition("\n")[0]
    assert first.strip() == "iron_take_turn();"
    assert "griddepcontrol.wait" in text.prelude
    assert f"blockDim.x <= {EARLY_THREADS}u" in text.prelude


def test_what_may_begin_early_waits_on_a_device_of_any_size():
    """Kernels wait up to `EARLY_THREADS`: no launch beyond that may ask to begin early."""
    wide, narrow = FakeCuda(major=10), FakeCuda(major=9)
    wide.attributes["MULTIPROCESSOR_COUNT"], narrow.attributes["MULTIPROCESSOR_COUNT"] = 160, 78
    assert Api(wide).early_threads == EARLY_THREADS
    assert Api(narrow).early_threads == 384 * 78


def test_a_thread_without_a_context_gets_one(driver: CudaDriver, cu: FakeCuda):
    x, y = driver.upload(np.ones(64, np.float32)), driver.upload(np.zeros(64, np.float32))
    run = driver.load(scaled()).bind({"x": x.seen, "y": y.seen}, {"by": 2.0}, {}, (2,))
    cu.context = None
    run()
    assert driver.download(y).sum() == 128


def test_host_arrays_are_staged(driver: CudaDriver, cu: FakeCuda):
    arrays = host_arrays()
    run = driver.load(scaled()).bind(arrays, {"by": 2.0}, {}, (2,))
    for factor in (1, 5):
        arrays["x"][:] = factor
        run()
        np.testing.assert_array_equal(arrays["y"], np.full(64, 2 * factor, np.float32))


def test_staged_memory_is_given_back(driver: CudaDriver, cu: FakeCuda):
    run = driver.load(scaled()).bind(host_arrays(), {"by": 2.0}, {}, (2,))
    run()
    assert len(cu.held) == 1
    del run
    gc.collect()
    assert not cu.held


@pytest.mark.parametrize(("offset", "said"), [(-4, "before `"), (256, "`y`")])
def test_a_write_outside_is_found(driver: CudaDriver, cu: FakeCuda, offset: int, said: str):
    def stray(launch: SimpleNamespace) -> None:
        play_scaled(launch)
        ctypes.c_uint32.from_address(launch.read(1, ctypes.c_uint64) + offset).value = 7

    cu.program = stray
    run = driver.load(scaled()).bind(host_arrays(), {"by": 2.0}, {}, (2,))
    with pytest.raises(KernelError, match="wrote 4 bytes") as caught:
        run()
    assert caught.value.id == "E0404"


def test_a_changed_input_is_found(driver: CudaDriver, cu: FakeCuda):
    def swapped(launch: SimpleNamespace) -> None:
        ctypes.c_float.from_address(launch.read(0, ctypes.c_uint64) + 4).value = 7

    cu.program = swapped
    run = driver.load(scaled()).bind(host_arrays(), {"by": 2.0}, {}, (2,))
    with pytest.raises(KernelError, match="changed `x`") as caught:
        run()
    assert caught.value.id == "E0401"


def test_an_illegal_address_is_one_clear_error(driver: CudaDriver, cu: FakeCuda):
    cu.next = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(KernelError, match="outside its memory") as caught:
        driver.synchronise()
    assert caught.value.id == "E0404"
    assert driver.lost


def test_a_worker_whose_device_is_lost_is_replaced(
    driver: CudaDriver, cu: FakeCuda, monkeypatch: pytest.MonkeyPatch
):
    """The first case's fault is told, and the error that carries it ends the worker."""
    from iron.check.expand import expand
    from iron.kernels.ops.cast import cast
    from iron.runtime import current
    from iron.worker import tasks
    from iron.worker.protocol import DeviceLost

    for module in (current, tasks):
        monkeypatch.setattr(module, "driver", lambda name: driver)
    cu.next = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DeviceLost, match="outside its memory"):
        tasks.on_backend("cuda")(expand(cast)[0], 0)


def test_full_memory_is_said(cu: FakeCuda):
    cu.memory = 1024
    with pytest.raises(KernelError, match="memory is full") as caught:
        CudaDriver(Api(cu)).upload(np.zeros(1024, np.float32))
    assert caught.value.id == "E0502"


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        (FakeCuda(devices=0), "no NVIDIA GPU: NO_DEVICE"),
        (FakeCuda(version=12080), "driver runs CUDA 12.8"),
    ],
)
def test_what_is_missing_is_named(fake: FakeCuda, said: str):
    with pytest.raises(KernelError, match=said) as caught:
        Api(fake)
    assert caught.value.id == "E0603"
    assert "580" in caught.value.diagnostic.help


def test_elapsed_gives_each_call_its_own_time(driver: CudaDriver, cu: FakeCuda):
    def slow() -> None:
        cu.clock += 7.0

    assert driver.elapsed([lambda: None, slow, lambda: None]) == [0.0005, 0.0075, 0.0005]


def test_machine_code_comes_from_the_cache(tmp_path, cu: FakeCuda):
    first, second = Cache(tmp_path / "kept"), Cache(tmp_path / "kept")
    made = CudaDriver(Api(cu), first).load(scaled()).resources()
    again = CudaDriver(Api(cu), second).load(scaled()).resources()
    assert first.counts["written"] == 1
    assert second.counts["hit"] == 1
    assert made == again
    assert made["registers"] > 0


def test_a_call_on_arrays_of_the_device_and_on_host_arrays(driver: CudaDriver, cu: FakeCuda):
    from iron.lang import In, Out, Scalar, dims, each, kernel

    (N,) = dims("N")

    @kernel
    def times(x: In[f32, N], y: Out[f32, N], by: Scalar[f32]):
        (i,) = each(N)
        y[i] = x[i] * by

    def play(launch: SimpleNamespace) -> None:
        count = launch.read(3, ctypes.c_int32)
        pointers = [launch.read(i, ctypes.c_uint64) for i in (0, 1)]
        x, y = (np.ctypeslib.as_array((ctypes.c_float * count).from_address(p)) for p in pointers)
        y[:] = x * launch.read(2, ctypes.c_float)

    cu.program = play
    x = np.arange(100, dtype=np.float32)
    with iron.use(driver):
        np.testing.assert_array_equal(times(x, by=2.0), 2 * x)
        np.testing.assert_array_equal(driver.download(times(driver.upload(x), by=3.0)), 3 * x)


def test_strides_travel_in_elements(driver: CudaDriver, cu: FakeCuda):
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", u32, rank=2), p.tensor("y", i32, "out")
    p.store(y, p.place(), p.emit("cast", p.load(x, p.group(), p.thread()), attrs=(i32,)))
    seen = []
    cu.program = lambda launch: seen.append(launch.read(2, ctypes.c_int64))
    array = np.zeros((4, 64), np.uint32)[:, :32]
    driver.load(p.done()).bind({"x": array, "y": np.zeros(128, np.int32)}, {}, {}, (4,))()
    assert seen == [64]


@pytest.mark.parametrize(
    ("length", "shift", "wide"), [(4096, 0, True), (4098, 0, False), (4096, 1, False)]
)
def test_a_launch_takes_the_form_its_arguments_allow(
    driver: CudaDriver, cu: FakeCuda, length: int, shift: int, wide: bool
):
    """Words of 16 bytes where length and address divide, one element a thread elsewhere."""
    from iron.kernels.ops.cast import cast

    cu.program = lambda launch: None
    memory = driver.upload(np.zeros(length + shift, np.float32))
    seen = replace(memory.seen, shape=(length,), pointer=memory.seen.pointer + 4 * shift)
    x = Buffer(seen, memory.memory, memory.make)
    with iron.use(driver):
        cast(x, y=driver.empty((length,), f16), TO=f16)
    (launch,) = cu.launches
    assert launch.grid[0] == -(-length // (128 * 4 if wide else 256))


def test_views_of_uploaded_arrays(driver: CudaDriver):
    base = np.arange(5 * 96, dtype=np.float32).reshape(5, 96)
    view = driver.upload(base)[::-2, 64::-2]
    np.testing.assert_array_equal(driver.download(view), base[::-2, 64::-2])
