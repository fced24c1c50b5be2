"""The driver protocol's conformance suite: what every backend must do, told by small kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from iron.dtypes import DType, bf16, f16, f32, i32, i64, u8, u32
from iron.ir.build import Builder
from iron.ir.core import Kernel, Param, Value
from iron.ir.types import Type, tensor
from iron.runtime.driver import BACKENDS, Driver, Executable, driver
from tests.contract import fake_hip, fake_metal
from tests.contract.fake_driver import FakeDriver

DEVICES = ("cuda", "vulkan", "hip", "metal")
FAKES = {"fake": FakeDriver, "fake hip": fake_hip.fake_driver, "fake metal": fake_metal.fake_driver}
DRIVERS = [
    *(pytest.param(n, marks=pytest.mark.device(n)) if n in DEVICES else n for n in BACKENDS),
    *FAKES,
]


@pytest.fixture(params=DRIVERS)
def backend(request: pytest.FixtureRequest) -> Driver:
    """Each backend, and drivers of fake devices that run their text on fibres."""
    return FAKES[request.param]() if request.param in FAKES else driver(request.param)


@pytest.fixture
def much(request: pytest.FixtureRequest) -> int:
    """Groups that take every device far longer than one."""
    name = request.node.callspec.params["backend"]
    return {"interp": 4096, "fake": 64}.get(name, 4096 if name in FAKES else 1 << 18)


def make(
    name: str,
    params: Sequence[tuple[str, str, Type]],
    body: Callable[..., None],
    *,
    threads: int = 32,
    rank: int = 1,
) -> Kernel:
    """A kernel whose host block yields the dims `G0`, `G1` .. as extents."""
    given = [Param(*p) for p in params] + [Param(f"G{i}", "dim", i32) for i in range(rank)]
    values = [Value(p.type, None, p.name) for p in given]
    b = Builder()
    with b.block(values) as block:
        body(b, *values[: len(params)])
    host_values = [Value(p.type, None, p.name) for p in given if p.role != "tensor"]
    with b.block(host_values) as host:
        b.emit_all("yield", host_values[-rank:])
    return Kernel(name, tuple(given), block, host, rank, threads, 32, (), i32)


def position(b: Builder, threads: int = 32) -> Value:
    group = b.emit("group", attrs=(0, i32))
    first = b.emit("mul", group, b.const(threads, i32))
    return b.emit("add", first, b.emit("thread", attrs=(i32,)))


def scaled(name: str, factor: float) -> Kernel:
    def body(b: Builder, x: Value, y: Value) -> None:
        at = position(b)
        loaded = b.emit("load", x, at, attrs=(0,))
        b.emit_all("store", (y, at, b.emit("mul", loaded, b.const(factor, f32))))

    sides = [("x", "tensor", tensor(f32, 1, "in")), ("y", "tensor", tensor(f32, 1, "out"))]
    return make(name, sides, body)


def run(backend: Driver, kernel: Kernel, arrays: dict, scalars: dict | None = None, grid=(2,)):
    """Runs on copies on the device, and writes what the kernel left there into `arrays`."""
    loaded = backend.load(kernel)
    assert isinstance(loaded, Executable)
    dims = {f"G{i}": n for i, n in enumerate(grid)}
    there = {name: backend.upload(array) for name, array in arrays.items()}
    loaded.bind(there, scalars or {}, dims, grid)()
    for name, array in arrays.items():
        array[...] = backend.download(there[name])


def test_is_a_driver_with_a_sane_target(backend: Driver) -> None:
    assert isinstance(backend, Driver)
    target = backend.target()
    assert target.family in ("cpu", "gpu")
    assert target.simd in (4, 8, 16, 32, 64)
    assert target.max_threads >= target.simd
    assert target.shared_bytes >= 1 << 14


def test_every_group_and_thread_runs_once(backend: Driver) -> None:
    x = np.arange(64, dtype=np.float32)
    y = np.full(64, np.nan, np.float32)
    run(backend, scaled("twice", 2.0), {"x": x, "y": y})
    np.testing.assert_array_equal(y, 2 * x)


def test_an_empty_grid_touches_nothing(backend: Driver) -> None:
    y = np.full(64, np.nan, np.float32)
    run(backend, scaled("twice", 2.0), {"x": np.zeros(64, np.float32), "y": y}, grid=(0,))
    assert np.isnan(y).all()


def test_two_kernels_of_one_name_stay_apart(backend: Driver) -> None:
    x = np.arange(64, dtype=np.float32)
    there, first, second = (backend.upload(a) for a in (x, x, x))
    twice, thrice = backend.load(scaled("probe", 2.0)), backend.load(scaled("probe", 3.0))
    twice.bind({"x": there, "y": first}, {}, {"G0": 2}, (2,))()
    thrice.bind({"x": there, "y": second}, {}, {"G0": 2}, (2,))()
    np.testing.assert_array_equal(backend.download(first), 2 * x)
    np.testing.assert_array_equal(backend.download(second), 3 * x)


@pytest.mark.parametrize("dtype", [u8, u32, i32, i64, f16, bf16, f32], ids=str)
def test_every_width_of_memory(backend: Driver, dtype: DType) -> None:
    def body(b: Builder, x: Value, y: Value) -> None:
        at = position(b)
        b.emit_all("store", (y, at, b.emit("load", x, at, attrs=(0,))))

    sides = [("x", "tensor", tensor(dtype, 1, "in")), ("y", "tensor", tensor(dtype, 1, "out"))]
    x = np.random.default_rng(1).integers(0, 100, 64).astype(dtype.np)
    y = np.zeros(64, dtype.np)
    run(backend, make("move", sides, body), {"x": x, "y": y})
    np.testing.assert_array_equal(x, y)


def test_signed_strides(backend: Driver) -> None:
    def body(b: Builder, x: Value, y: Value) -> None:
        row, column = b.emit("group", attrs=(0, i32)), b.emit("thread", attrs=(i32,))
        b.emit_all("store", (y, row, column, b.emit("load", x, row, column, attrs=(0,))))

    strided = tensor(f32, 2, "in", packed=False)
    sides = [("x", "tensor", strided), ("y", "tensor", tensor(f32, 2, "out"))]
    base = np.arange(5 * 96, dtype=np.float32).reshape(5, 96)
    x = backend.upload(base)[::-2, 64::-2]
    y = backend.upload(np.full((3, 32), np.nan, np.float32))
    loaded = backend.load(make("reverse", sides, body))
    loaded.bind({"x": x, "y": y}, {}, {"G0": 3}, (3,))()
    np.testing.assert_array_equal(backend.download(y), base[::-2, 64::-2][:, :32])


@pytest.mark.parametrize("dtype", [u8, u32, i32, i64, f32], ids=str)
def test_scalars(backend: Driver, dtype: DType) -> None:
    def body(b: Builder, y: Value, s: Value) -> None:
        b.emit_all("store", (y, position(b), s))

    sides = [("y", "tensor", tensor(dtype, 1, "out")), ("s", "scalar", dtype)]
    kernel = make("fill", sides, body)
    for value in (1, 5, 1, 0, 201):
        y = np.full(64, 99).astype(dtype.np)
        run(backend, kernel, {"y": y}, {"s": dtype.np.type(value)})
        np.testing.assert_array_equal(y, np.full(64, value, dtype.np))


def test_the_first_axis_of_the_grid_is_axis_zero(backend: Driver) -> None:
    def body(b: Builder, y: Value) -> None:
        a, c = b.emit("group", attrs=(0, i32)), b.emit("group", attrs=(1, i32))
        value = b.emit("add", b.emit("mul", a, b.const(10, i32)), c)
        b.emit_all("store", (y, a, c, b.emit("thread", attrs=(i32,)), value))

    sides = [("y", "tensor", tensor(i32, 3, "out"))]
    y = np.full((3, 2, 32), -1, np.int32)
    run(backend, make("place", sides, body, rank=2), {"y": y}, grid=(3, 2))
    want = 10 * np.arange(3)[:, None] + np.arange(2)
    np.testing.assert_array_equal(y, np.broadcast_to(want[..., None], y.shape))


def test_launches_are_ordered(backend: Driver) -> None:
    x, y, z = (backend.upload(np.arange(64, dtype=np.float32)) for _ in range(3))
    twice = backend.load(scaled("twice", 2.0))
    twice.bind({"x": x, "y": y}, {}, {"G0": 2}, (2,))()
    twice.bind({"x": y, "y": z}, {}, {"G0": 2}, (2,))()
    backend.synchronise()
    np.testing.assert_array_equal(backend.download(z), 4 * np.arange(64, dtype=np.float32))


def test_a_bound_launch_reads_memory_afresh(backend: Driver) -> None:
    ones = backend.upload(np.ones(64, np.float32))
    x, y = backend.upload(np.zeros(64, np.float32)), backend.upload(np.zeros(64, np.float32))
    twice = backend.load(scaled("twice", 2.0))
    bound = twice.bind({"x": x, "y": y}, {}, {"G0": 2}, (2,))
    for factor in (1.0, 3.0):
        times = backend.load(scaled("times", factor))
        times.bind({"x": ones, "y": x}, {}, {"G0": 2}, (2,))()
        bound()
        np.testing.assert_array_equal(backend.download(y), np.full(64, 2 * factor, np.float32))
    twice.bind({"x": x, "y": y}, {}, {"G0": 0}, (0,))()


@pytest.mark.parametrize("dtype", [u8, i64, f16, bf16, f32], ids=str)
def test_what_is_uploaded_comes_back(backend: Driver, dtype: DType) -> None:
    base = np.random.default_rng(2).integers(0, 100, (5, 7, 3)).astype(dtype.np)
    for array in (base, base[::-2, 1:, ::2], np.asarray(base[0, 0, 0]), base[:0]):
        back = backend.download(backend.upload(array))
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


def test_an_upload_and_a_download_are_copies(backend: Driver) -> None:
    x = np.arange(64, dtype=np.float32)
    x.flags.writeable = False
    there, y = backend.upload(x), backend.upload(x)
    before = backend.download(y)
    backend.load(scaled("twice", 2.0)).bind({"x": there, "y": y}, {}, {"G0": 2}, (2,))()
    np.testing.assert_array_equal(before, x)
    np.testing.assert_array_equal(backend.download(there), x)
    before[:] = 7
    np.testing.assert_array_equal(backend.download(y), 2 * x)


def test_an_upload_is_aligned(backend: Driver) -> None:
    if backend.device != "cpu" or isinstance(backend, FakeDriver):
        return  # elsewhere an array has no address that numpy knows
    for size in (1, 3, 1000):
        there = backend.upload(np.zeros(size, np.float32))
        assert there.__array_interface__["data"][0] % 64 == 0


def test_elapsed_runs_in_order_and_times_each(backend: Driver) -> None:
    x, y, z = (backend.upload(np.arange(64, dtype=np.float32)) for _ in range(3))
    loaded = backend.load(scaled("twice", 2.0))
    first = loaded.bind({"x": x, "y": y}, {}, {"G0": 2}, (2,))
    then = loaded.bind({"x": y, "y": z}, {}, {"G0": 2}, (2,))
    taken = backend.elapsed([first, then, first])
    assert len(taken) == 3
    assert all(0 <= seconds < 10 for seconds in taken)
    np.testing.assert_array_equal(backend.download(z), 4 * np.arange(64, dtype=np.float32))
    assert backend.elapsed([]) == []


def test_elapsed_tells_much_work_from_little(backend: Driver, much: int) -> None:
    loaded = backend.load(scaled("twice", 2.0))
    kept = []  # a bound launch does not keep its arrays

    def launch(groups: int) -> Callable[[], None]:
        x, y = (backend.upload(np.ones(groups * 32, np.float32)) for _ in range(2))
        kept.extend((x, y))
        return loaded.bind({"x": x, "y": y}, {}, {"G0": groups}, (groups,))

    one, many = launch(1), launch(much)
    one(), many()
    taken = backend.elapsed([one, many] * 3)
    assert min(taken[1::2]) > 2 * min(taken[0::2])
