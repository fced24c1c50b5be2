"""The CPU driver beyond the protocol: threads, forks, the object cache, streaming, repetition."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from iron.backends.cpu import cost, entry
from iron.backends.cpu.launcher import launcher_text, waits_on_futex
from iron.backends.cpu.machine import assembly, host
from iron.dtypes import DType, bf16, f16, f32, i32, u32
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.ir.types import tensor
from iron.runtime.cache import Cache
from iron.runtime.drivers import cpu
from iron.runtime.drivers.cpu import CpuDriver
from iron.runtime.drivers.cpu_objects import ObjectStore, maker, object_key
from iron.runtime.drivers.cpu_pool import Pool, open_pool, thread_count
from iron.targets.cpu import AARCH64, X86_64_V3, X86_64_V4
from tests.unit.ir.handmade import Handmade


def counting() -> Kernel:
    """Adds 1 to the element of each group, and each group's number to one sum."""
    p = Handmade(threads=1, simd=8)
    hits, total = p.tensor("hits", i32, "inout"), p.tensor("total", u32, "inout")
    g = p.group()
    p.store(hits, g, p.emit("add", p.load(hits, g), p.const(1)))
    p.do("atomic", total, p.const(0), p.emit("cast", g, attrs=(u32,)), attrs=("add",))
    return p.done()


def adding(factor: float = 1.0) -> Kernel:
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    at = p.place()
    p.store(y, at, p.emit("add", p.load(x, at), p.const(factor, f32)))
    return p.done()


def job_of(bound) -> np.ndarray:
    """The job of a bound launch, to be changed by a test."""
    return bound.__self__[1]


@pytest.fixture(params=["futex", "nap"])
def pool(request: pytest.FixtureRequest) -> Pool:
    futex = request.param == "futex"
    if futex and not waits_on_futex(host().triple):
        pytest.skip("this system has no futex")
    opened = open_pool(host(), ObjectStore(host(), None), 3, futex=futex)
    opened.start()
    return opened


def with_pool(executable: cpu.CpuExecutable, pool: Pool) -> cpu.CpuExecutable:
    return cpu.CpuExecutable(
        executable.fields, executable.linked, executable.symbol, executable.each, pool
    )


def test_every_group_runs_exactly_once(pool: Pool):
    hits, total = np.zeros(1000, np.int32), np.zeros(1, np.uint32)
    run = with_pool(CpuDriver().load(counting()), pool)
    bound = run.bind({"hits": hits, "total": total}, {}, {}, (1000,))
    for size, times in ((1, 200), (7, 1500), (999, 50), (1000, 50)):
        job_of(bound)[2] = size
        for _ in range(times):
            bound()
    assert (hits == 1800).all()
    assert total[0] == np.uint32(1800 * 999 * 500 % 2**32)


def test_launches_of_many_python_threads_are_all_done(pool: Pool):
    executable = with_pool(CpuDriver().load(counting()), pool)
    results = []

    def work() -> None:
        hits, total = np.zeros(300, np.int32), np.zeros(1, np.uint32)
        bound = executable.bind({"hits": hits, "total": total}, {}, {}, (300,))
        job_of(bound)[2:4] = (5, 1)
        for _ in range(400):
            bound()
        results.append((hits == 400).all())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 4


def test_a_lost_group_is_seen():
    """The control of the two tests above: a job that claims to have fewer groups."""
    hits, total = np.zeros(1000, np.int32), np.zeros(1, np.uint32)
    bound = CpuDriver().load(counting()).bind({"hits": hits, "total": total}, {}, {}, (1000,))
    job_of(bound)[1] = 999
    bound()
    assert hits.sum() == 999


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_launches():
    code = """
import os, sys
import numpy as np
from iron.runtime.drivers.cpu import CpuDriver
from tests.contract.test_driver_cpu import counting, job_of
run = CpuDriver().load(counting())
def launch():
    hits, total = np.zeros(1000, np.int32), np.zeros(1, np.uint32)
    bound = run.bind({"hits": hits, "total": total}, {}, {}, (1000,))
    job_of(bound)[2] = 10
    run.pool.start()
    for _ in range(50):
        bound()
    return bool((hits == 50).all())
assert launch()
child = os.fork()
if not child:
    os._exit(0 if launch() else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) or not launch())
"""
    options = {"env": os.environ | {"IRON_CPU_THREADS": "3"}, "timeout": 60}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], **options)
    assert done.returncode == 0


def test_a_bound_launch_reads_its_memory_afresh():
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    bound = CpuDriver().load(adding()).bind({"x": x, "y": y}, {}, {}, (2,))
    for value in (3.0, 8.0):
        x[:] = value
        assert bound() is None
        assert (y == value + 1).all()


@pytest.mark.parametrize("grid", [(0, 3), (3, 0), (0, 0)])
def test_an_empty_launch_divides_by_no_extent(grid: tuple[int, int]):
    p = Handmade(threads=1, simd=8, rank=2)
    y = p.tensor("y", i32, "out", 2)
    p.store(y, p.group(0), p.group(1), p.group(0))
    CpuDriver().load(p.done()).bind({"y": np.zeros(grid, np.int32)}, {}, {}, grid)()


def test_streaming_stores_write_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(entry, "STREAM_FROM", 1)
    executable = CpuDriver().load(adding())
    assert executable.fields[-1].kind == "streams"
    for offset in (0, 1, 4):
        x = np.random.default_rng(1).normal(size=1 << 14).astype(np.float32)
        y = np.zeros((1 << 14) + offset, np.float32)[offset:]
        bound = executable.bind({"x": x, "y": y}, {}, {}, (512,))
        assert job_of(bound)[-1] == 1
        bound()
        assert np.array_equal(y, x + 1)
    text = cpu.compile_kernel(adding(), X86_64_V3).text
    assert "sfence" in assembly(text, X86_64_V3)
    assert "vmovnt" in assembly(text, X86_64_V3)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_short_floats_are_streamed_too(dtype: DType, monkeypatch: pytest.MonkeyPatch):
    """LLVM takes the hint for vectors of integers only."""
    monkeypatch.setattr(entry, "STREAM_FROM", 1)
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", dtype, "out")
    p.store(y, p.place(), p.emit("cast", p.load(x, p.place()), attrs=(dtype,)))
    kernel = p.done()
    for target in (X86_64_V3, X86_64_V4, host()):
        code = assembly(cpu.compile_kernel(kernel, target).text, target)
        assert code.count("vmovnt") >= 3, target.name  # one of a whole line, more of pieces
    for offset in (0, 1, 8):
        given = np.random.default_rng(1).normal(size=1 << 12).astype(np.float32)
        made = np.zeros((1 << 12) + offset, dtype.np)[offset:]
        CpuDriver().load(kernel).bind({"x": given, "y": made}, {}, {}, (128,))()
        assert np.array_equal(made, given.astype(dtype.np))


@pytest.mark.parametrize(("words", "least"), [(65535, 16 << 20), (65536, 2 << 20)])
def test_outputs_leave_the_cache_to_large_arrays_of_a_group(words: int, least: int):
    p = Handmade(threads=32, simd=32)
    y, t = p.tensor("y", f32, "out"), p.thread()
    array = p.emit("shared", attrs=(tensor(f32, 1, "shared", (words,)),))
    p.store(array, t, p.const(1.0, f32))
    p.store(y, t, p.load(array, t))
    executable = CpuDriver().load(p.done())
    assert executable.fields[-1].least == least
    for count in (least // 4 - 1, least // 4):
        bound = executable.bind({"y": np.zeros(count, np.float32)}, {}, {}, (1,))
        assert job_of(bound)[-1] == (4 * count >= least)


def test_an_output_that_is_read_back_is_not_streamed():
    p = Handmade(threads=32, simd=32)
    y, t = p.tensor("y", f32, "out"), p.thread()
    p.store(y, t, p.const(1.0, f32))
    p.store(y, t, p.emit("add", p.load(y, t), p.const(1.0, f32)))
    assert "nontemporal" not in cpu.compile_kernel(p.done(), host()).text


# --- the object cache -----------------------------------------------------------------------------


def test_code_comes_from_the_cache(tmp_path, monkeypatch: pytest.MonkeyPatch):
    cache = Cache(tmp_path)
    CpuDriver(cache).load(adding(2.0))
    assert cache.counts["written"] == 1
    monkeypatch.setattr(cpu, "compile_kernel", None)
    executable = CpuDriver(cache).load(adding(2.0))
    assert cache.counts["hit"] == 1
    y = np.zeros(32, np.float32)
    executable.bind({"x": np.ones(32, np.float32), "y": y}, {}, {}, (1,))()
    assert (y == 3).all()


def test_a_cached_object_that_does_not_link_is_compiled_again(tmp_path):
    cache = Cache(tmp_path)
    kernel = adding(5.0)
    store = ObjectStore(host(), cache)
    store.linked(
        "source", "other", lambda: cpu.compile_kernel(kernel, host()).text, "iron_handmade"
    )
    again = ObjectStore(host(), cache)
    text = cpu.compile_kernel(kernel, host()).text.replace("iron_handmade", "another")
    assert again.linked("source", "other", lambda: text, "another")["another"]


def test_the_key_names_the_source_the_target_and_the_compiler():
    base = object_key("a", host())
    assert base == object_key("a", host())
    assert base != object_key("b", host())
    assert base != object_key("a", X86_64_V3)
    assert len(maker()) == 64


def test_different_constants_are_different_code():
    y = np.zeros(32, np.float32)
    for factor in (1.0, 7.0):
        run = CpuDriver().load(adding(factor))
        run.bind({"x": np.zeros(32, np.float32), "y": y}, {}, {}, (1,))()
        assert (y == factor).all()


# --- choices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "each", "threads", "size"),
    [
        (1, 1e9, 8, 1),
        (1000, 1.0, 8, 1000),
        (1000, 1e6, 1, 1000),
        (1000, 1e6, 2, 63),
        (4096, 10.0, 2, 256),
        (3000, 2.0, 4, 1000),
    ],
)
def test_chunks(groups: int, each: float, threads: int, size: int):
    assert cost.chunk(groups, each, threads) == size


def test_thread_count():
    assert thread_count({"IRON_CPU_THREADS": "5"}) == 5
    assert thread_count({}) >= 1
    for wrong in ("0", "-1", "many", "1025", "1.5"):
        with pytest.raises(KernelError) as caught:
            thread_count({"IRON_CPU_THREADS": wrong})
        assert caught.value.id == "E0803"


@pytest.mark.parametrize("futex", [True, False])
@pytest.mark.parametrize("target", [X86_64_V3, AARCH64], ids=lambda t: t.name)
def test_the_launcher_compiles_for_every_architecture(target, futex: bool):
    text = assembly(launcher_text(target.triple, futex=futex), target)
    assert ("iron_syscall" in text) == futex
    assert ("iron_nap" in text) != futex
