"""The HIP driver against a fake of AMD's driver interface, with real code objects of clang."""

import ctypes
import gc
import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import iron
from iron.dtypes import f16, f32
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.runtime.arrays import Buffer
from iron.runtime.cache import Cache
from iron.runtime.device import report
from iron.runtime.drivers import hip_api
from iron.runtime.drivers.hip import HipDriver
from iron.runtime.drivers.hip_api import Api
from iron.runtime.drivers.stream_launch import Packed
from iron.targets.amd import of_architecture
from tests.contract.fake_hip import Compiled, FakeHip, Labels, fake_driver, hipError_t
from tests.unit.ir.handmade import Handmade


def scaled(simd: int = 64, threads: int = 64) -> Kernel:
    """y = x * by for each thread."""
    p = Handmade(threads=threads, simd=simd)
    x, y, by = p.tensor("x", f32), p.tensor("y", f32, "out"), p.scalar("by", f32)
    at = p.place()
    p.store(y, at, p.emit("mul", p.load(x, at), by))
    return p.done()


def filled() -> Kernel:
    """y = by for each thread."""
    p = Handmade(threads=64, simd=64)
    y, by = p.tensor("y", f32, "out"), p.scalar("by", f32)
    p.store(y, p.place(), by)
    return p.done()


@pytest.fixture
def hip() -> FakeHip:
    return FakeHip()


@pytest.fixture
def driver(hip: FakeHip) -> HipDriver:
    return HipDriver(Api(hip), store=Labels(hip))


def arrays(driver: HipDriver) -> dict[str, Buffer]:
    return {"x": driver.upload(np.ones(128, np.float32)), "y": driver.empty((128,), f32)}


def test_the_target_follows_the_gpu(driver: HipDriver):
    assert driver.target().name == "gfx942"
    assert driver.target().simd == 64
    assert driver.facts()["runtime"] == "HIP 7.2"


@pytest.mark.parametrize(("name", "simd"), [("gfx90a", 64), ("gfx1100", 32), ("gfx1151", 32)])
def test_other_gpus(name: str, simd: int):
    found = fake_driver(name).target()
    assert (found.cpu, found.simd) == (name, simd)


def test_real_machine_code_from_clang_and_from_the_cache(tmp_path, hip: FakeHip):
    first, second = Cache(tmp_path / "kept"), Cache(tmp_path / "kept")
    drivers = [HipDriver(Api(hip), store=Compiled(hip, cache)) for cache in (first, second)]
    told = []
    for driver in drivers:
        held, made = arrays(driver), driver.load(scaled())
        made.bind(held, {"by": 3.0}, {}, (2,))()
        np.testing.assert_array_equal(driver.download(held["y"]), np.full(128, 3, np.float32))
        told.append(made.resources())
    assert first.counts["written"] == second.counts["hit"] == 1
    assert told[0] == told[1]
    assert told[0]["registers"] > 0
    assert told[0]["spilled_registers"] == 0


def test_a_bound_launch_is_one_call(driver: HipDriver, hip: FakeHip):
    """So a graph may record it: nothing is allocated, nothing waits."""
    held = arrays(driver)
    run = driver.load(scaled()).bind(held, {"by": 1.0}, {}, (2,))
    hip.calls.clear()
    hip.capturing = True
    run()
    hip.capturing = False
    assert hip.calls == ["hipModuleLaunchKernel"]
    (launch,) = hip.launches
    assert (launch.groups, launch.threads, launch.stream, launch.shared) == (2, 64, 0, 0)


def test_a_launch_goes_to_the_current_stream_of_pytorch(
    driver: HipDriver, hip: FakeHip, monkeypatch: pytest.MonkeyPatch
):
    """PyTorch for ROCm keeps CUDA's names; the stream is asked for at each launch."""
    streams = iter([0x70, 0x80])
    torch = SimpleNamespace(
        cuda=SimpleNamespace(is_initialized=lambda: True),
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: next(streams)),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    held = arrays(driver)
    run = driver.load(scaled()).bind(held, {"by": 1.0}, {}, (2,))
    run(), run()
    assert [launch.stream for launch in hip.launches] == [0x70, 0x80]


def test_a_thread_without_the_device_gets_it(driver: HipDriver, hip: FakeHip):
    held = arrays(driver)
    run = driver.load(scaled()).bind(held, {"by": 2.0}, {}, (2,))
    hip.device = None
    run()
    assert driver.download(held["y"]).sum() == 256


def test_a_launch_has_fewer_than_2_to_the_32_threads(driver: HipDriver):
    with pytest.raises(KernelError, match="more than a launch") as caught:
        driver.load(scaled()).bind(arrays(driver), {"by": 2.0}, {}, (1 << 26,))
    assert caught.value.id == "E0301"


@pytest.mark.parametrize(("length", "wide"), [(4096, True), (4098, False)])
def test_a_launch_takes_the_form_its_arguments_allow(length: int, wide: bool):
    """Words of 16 bytes where the length divides, one element a thread elsewhere."""
    from iron.kernels.ops.cast import cast

    hip = FakeHip()
    driver = HipDriver(Api(hip), store=Compiled(hip))
    x = np.random.default_rng(1).normal(size=length).astype(np.float32)
    with iron.use(driver):
        y = driver.download(cast(driver.upload(x), TO=f16))
    np.testing.assert_array_equal(y, x.astype(np.float16))
    (launch,) = hip.launches
    assert (launch.groups * launch.threads < length) == wide


def test_host_arrays_are_staged_between_fences(driver: HipDriver, hip: FakeHip):
    held = {"x": np.arange(128, dtype=np.float32), "y": np.full(128, np.nan, np.float32)}
    run = driver.load(scaled()).bind(held, {"by": 2.0}, {}, (2,))
    run()
    np.testing.assert_array_equal(held["y"], 2 * held["x"])
    further = driver.load(filled()).bind({"y": held["y"]}, {"by": 2.0}, {}, (3,))
    with pytest.raises(KernelError, match="wrote") as caught:
        further()
    assert caught.value.id == "E0404"


def test_staged_memory_is_given_back(driver: HipDriver, hip: FakeHip):
    run = driver.load(filled()).bind({"y": np.zeros(128, np.float32)}, {"by": 2.0}, {}, (2,))
    run()
    assert len(hip.held) == 1
    del run
    gc.collect()
    assert not hip.held


def test_a_fault_is_one_clear_error_and_ends_the_device(driver: HipDriver, hip: FakeHip):
    hip.pending = hipError_t.hipErrorIllegalAddress
    with pytest.raises(KernelError, match="outside its memory") as caught:
        driver.synchronise()
    assert caught.value.id == "E0404"
    assert driver.lost


def test_memory_that_was_given_back_is_such_a_fault(driver: HipDriver, hip: FakeHip):
    """A bound launch does not keep its arrays; its caller does."""
    held = arrays(driver)
    run = driver.load(scaled()).bind(held, {"by": 2.0}, {}, (2,))
    del held["x"]
    run()
    with pytest.raises(KernelError, match="outside its memory"):
        driver.synchronise()


def test_full_memory_is_said(hip: FakeHip):
    hip.memory = 1024
    with pytest.raises(KernelError, match="memory is full") as caught:
        HipDriver(Api(hip)).upload(np.zeros(1024, np.float32))
    assert caught.value.id == "E0502"


@pytest.mark.parametrize(
    ("told", "said", "remedy"),
    [
        ({"devices": 0}, "no AMD GPU: NoDevice", "render and video"),
        ({"version": 50_700_000}, "the runtime is HIP 5.7", "6.0 or later"),
        ({"missing": "failed to dlopen libamdhip64.so"}, "library is missing", "ROCm"),
    ],
)
def test_what_is_missing_is_named(told: dict, said: str, remedy: str):
    fake = FakeHip()
    for name, value in told.items():
        setattr(fake, name, value)
    with pytest.raises(KernelError, match=said) as caught:
        Api(fake)
    assert caught.value.id == "E0603"
    assert remedy in caught.value.diagnostic.help


def test_a_gpu_that_clang_does_not_know_is_refused():
    with pytest.raises(KernelError, match="gfx9999") as caught:
        of_architecture("gfx9999")
    assert caught.value.id == "E0603"
    assert "gfx942" in caught.value.diagnostic.help


def older() -> ModuleType:
    made = ModuleType("hip")
    made.hip, made.__version__ = FakeHip(), "7.2.2.562.43"
    return made


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "no module named hip"),
        (ModuleType("hip"), "not that of hip-python"),
        (older(), "hip-python 7.2.2.562.43 is older than 10"),
    ],
)
def test_without_hip_python(monkeypatch: pytest.MonkeyPatch, found: ModuleType | None, said: str):
    def imported(name: str) -> ModuleType:
        if found is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found

    monkeypatch.setattr(hip_api, "import_module", imported)
    with pytest.raises(KernelError, match=said) as caught:
        hip_api.bindings()
    assert "iron-kernels[hip]" in caught.value.diagnostic.help


def test_a_kernel_of_the_library_with_collectives_at_both_widths():
    from iron.kernels.norm.rms_norm import rms_norm

    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(3, 1000)).astype(np.float32), rng.normal(size=1000).astype(np.float32)
    want = w * x / np.sqrt((x.astype(float) ** 2).mean(-1, keepdims=True) + 1e-5)
    for name in ("gfx90a", "gfx1100"):
        driver = fake_driver(name)
        with iron.use(driver):
            device = rms_norm(driver.upload(x), driver.upload(w), eps=1e-5)
            host = rms_norm(x, w, eps=1e-5)
        np.testing.assert_allclose(driver.download(device), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(host, driver.download(device))


class RocmTensor:
    """What a tensor of PyTorch for ROCm gives through DLPack: memory of device type 10."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer, self.streams = buffer, []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 10, 0

    def __dlpack__(self, stream: int | None = None) -> object:
        self.streams.append(stream)
        shape = (ctypes.c_int64 * 1)(*self.buffer.shape)
        words = [self.buffer.seen.pointer, 10 | 0 << 32, 1, ctypes.addressof(shape), 0, 0, 0, 0]
        words[2] |= (2 | 32 << 8 | 1 << 16) << 32  # float, 32 bits, 1 lane
        self.held = (ctypes.c_uint64 * 8)(*words), shape
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = (
            ctypes.py_object,
            (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        )
        return new(ctypes.addressof(self.held[0]), b"dltensor", None)


@pytest.mark.parametrize(("library", "stream"), [("torch.rocm", -1), ("jaxlib", 0)])
def test_tensors_of_rocm_through_dlpack(
    driver: HipDriver, monkeypatch: pytest.MonkeyPatch, library: str, stream: int
):
    """The backend follows the arrays; only a library whose stream is not used must wait."""
    from iron.lang import In, Out, dims, each, kernel
    from iron.runtime import current

    (N,) = dims("N")

    @kernel
    def twice(x: In[f32, N], y: Out[f32, N]):
        (i,) = each(N)
        y[i] = x[i] * 2.0

    monkeypatch.setattr(RocmTensor, "__module__", library)
    monkeypatch.setattr(current, "driver", {"hip": driver}.__getitem__)
    x = RocmTensor(driver.upload(np.arange(100, dtype=np.float32)))
    y = RocmTensor(driver.upload(np.zeros(100, np.float32)))
    twice(x, out=y)
    np.testing.assert_array_equal(driver.download(y.buffer), 2 * np.arange(100, dtype=np.float32))
    assert x.streams == [stream]


def test_a_scalar_that_does_not_arrive_is_seen(driver: HipDriver, monkeypatch: pytest.MonkeyPatch):
    """The control of the launches above."""
    monkeypatch.setattr(Packed, "scalar", lambda self, number, value, field: None)
    held = arrays(driver)
    driver.load(scaled()).bind(held, {"by": 3.0}, {}, (2,))()
    assert driver.download(held["y"]).sum() == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda hip, at: hip.hipModuleLaunch(), "no hipModuleLaunch"),
        (lambda hip, at: hip.hipMemcpyHtoD(at, at, 1025), "not in one live allocation"),
        (lambda hip, at: hip.hipMemcpyDtoH("host", at, 4), "unsupported input type"),
        (lambda hip, at: (hip.hipFree(at), hip.hipFree(at)), "freed twice"),
        (lambda hip, at: hip.hipModuleGetFunction("module", b"name"), "never loaded"),
    ],
)
def test_a_wrong_call_is_refused(hip: FakeHip, call, said: str):
    at = int(hip.hipMalloc(1024)[1])
    with pytest.raises((AssertionError, TypeError), match=said):
        call(hip, at)


def functions(of: object) -> dict[str, list[str]]:
    """HIP's functions in a module, and the names of their parameters."""
    names = [n for n in dir(FakeHip) if n.startswith("hip")]
    return {n: list(inspect.signature(getattr(of, n)).parameters) for n in names}


def test_the_fake_has_the_functions_of_hip_python(hip: FakeHip):
    real = pytest.importorskip("hip", reason="hip-python is not installed").hip
    assert functions(real) == functions(hip)
    named = {e.name: real.hipError_t[e.name].value for e in hipError_t}
    assert named == {e.name: e.value for e in hipError_t}
    assert [real.hipError_t(e.value).name for e in hipError_t] == [e.name for e in hipError_t]


def test_hip_python_is_what_is_opened():
    """Where no AMD GPU is, opening it names what is missing."""
    real = pytest.importorskip("hip", reason="hip-python is not installed").hip
    assert hip_api.bindings() is real
    if not report("hip").ready:
        with pytest.raises(KernelError, match=r"HIP|AMD") as caught:
            Api(real)
        assert caught.value.id == "E0603"


def test_the_driver_on_hip_python_itself(tmp_path: Path):
    """The real bindings on a stub of the library below them: every argument arrives."""
    pytest.importorskip("hip", reason="hip-python is not installed")
    stub = tmp_path / "libamdhip64.so"
    source = Path(__file__).parent / "hip_runtime.cpp"
    subprocess.run(["clang-19", "-shared", "-fPIC", "-o", stub, source], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.hip_child", stub],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "ROCM_PATH": "", "ROCM_HOME": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *launches, told = done.stdout.splitlines()
    assert launches == ["iron_handmade 2,1,1 64,1,1 0 (nil) 0"] * 3
    assert told == "gfx942 A stub HIP 7.2"
