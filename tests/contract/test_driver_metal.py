"""The Metal driver end to end on a fake that knows pyobjc's selectors; text runs on fibres."""

import gc
import mmap
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import iron
from iron.backends.clike.render import Text
from iron.backends.msl_code import Code, code_of
from iron.dtypes import bf16, bool_, f16, f32, i8, i32, i64, u8, u16
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.runtime.arrays import Buffer
from iron.runtime.drivers import metal
from iron.runtime.drivers.metal import MetalDriver, api
from iron.runtime.drivers.metal.api import Api
from iron.runtime.drivers.metal.faults import refused
from iron.runtime.drivers.metal.queue import MOST
from tests.contract.fake_metal import Command, Device, Error, FakeMetal, Object, opened
from tests.unit.ir.handmade import Handmade


def scaled() -> Kernel:
    """y = x * by for each thread."""
    p = Handmade(threads=32, simd=32, file="author.py")
    p.at(7)
    x, y, by = p.tensor("x", f32), p.tensor("y", f32, "out"), p.scalar("by", f32)
    at = p.place()
    p.store(y, at, p.emit("mul", p.load(x, at), by))
    return p.done()


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def driver(device: Device) -> MetalDriver:
    return opened(device)


def arrays(driver: MetalDriver) -> dict[str, Buffer]:
    return {"x": driver.upload(np.ones(64, np.float32)), "y": driver.empty((64,), f32)}


def pages(count: int, value: float) -> np.ndarray:
    """An array of f32 in whole pages of its own."""
    size = -(-4 * count // mmap.PAGESIZE) * mmap.PAGESIZE
    made = np.frombuffer(mmap.mmap(-1, size), np.float32)[:count]
    made[:] = value
    return made


def test_the_target_is_the_best_family_that_is_known(driver: MetalDriver, device: Device):
    assert driver.target().name == "apple8"
    assert driver.facts() == {"gpu": "Fake M2", "memory": 1 << 30}
    device.families = ("Apple7", "Apple8", "Apple9", "Apple10")
    assert opened(device).target().name == "apple9"


def test_a_launch_is_enqueued_and_a_download_waits(driver: MetalDriver, device: Device):
    held = arrays(driver)
    run = driver.load(scaled()).bind(held, {"by": 3.0}, {}, (2,))
    run(), run()
    assert len(device.committed) == 2
    np.testing.assert_array_equal(driver.download(held["y"]), np.full(64, 3, np.float32))
    assert device.committed == []
    assert device.pools == 0


def test_more_launches_than_a_queue_holds(driver: MetalDriver, device: Device):
    run = driver.load(scaled()).bind(arrays(driver), {"by": 3.0}, {}, (2,))
    for _ in range(200):
        run()
    assert len(device.committed) <= MOST
    driver.synchronise()


def test_the_structure_is_in_natural_alignment(driver: MetalDriver):
    """Every width at every distance; the fake reads the fields that the text declares."""
    kinds = [u8, i64, i8, f16, i32, bool_, bf16, u16, f32, u8]
    p = Handmade(threads=32, simd=32)
    outs = [p.tensor(f"y{n}", t, "out") for n, t in enumerate(kinds)]
    for n, (t, y) in enumerate(zip(kinds, outs, strict=True)):
        p.store(y, p.place(), p.scalar(f"s{n}", t))
    given = {f"s{n}": t.np.type(n % 2 if t is bool_ else 11 * n + 1) for n, t in enumerate(kinds)}
    made = {f"y{n}": driver.empty((32,), t) for n, t in enumerate(kinds)}
    driver.load(p.done()).bind(made, given, {}, (1,))()
    for n in range(len(kinds)):
        assert (driver.download(made[f"y{n}"]) == given[f"s{n}"]).all(), n


def test_a_structure_packed_without_gaps_is_seen(
    driver: MetalDriver, monkeypatch: pytest.MonkeyPatch
):
    """The control of the test above."""
    monkeypatch.setattr(
        Code,
        "structure",
        lambda self, value: b"".join(
            value(f).to_bytes(f.dtype.bytes, "little", signed=True) for f in self.values
        ),
    )
    with pytest.raises(AssertionError):
        test_the_structure_is_in_natural_alignment(driver)


def test_host_arrays_between_fences(driver: MetalDriver):
    held = {"x": np.arange(64, dtype=np.float32), "y": np.full(64, np.nan, np.float32)}
    made = driver.load(scaled())
    run = made.bind(held, {"by": 2.0}, {}, (2,))
    for factor in (1, 5):
        held["x"][:] = factor
        run()
        np.testing.assert_array_equal(held["y"], np.full(64, 2 * factor, np.float32))
    longer = held | {"x": pages(4096, 1)}
    with pytest.raises(KernelError, match="wrote") as caught:
        made.bind(longer, {"by": 2.0}, {}, (3,))()
    assert caught.value.id == "E0404"


def test_host_arrays_on_whole_pages_are_not_copied(driver: MetalDriver, device: Device):
    x, y = pages(5000, 2.0), pages(5000, np.nan)
    run = driver.load(scaled()).bind({"x": x, "y": y[8:4936]}, {"by": 2.0}, {}, (154,))
    run()
    np.testing.assert_array_equal(y[8:4936], np.full(4928, 4, np.float32))
    assert np.isnan(y[:8]).all()
    assert np.isnan(y[4936:]).all()
    adopted = [b for b in device.buffers if len(b.memory) == 5 * mmap.PAGESIZE]
    assert len(adopted) == 1  # `y` begins inside a page
    run = driver.load(scaled()).bind({"x": x, "y": y}, {"by": 3.0}, {}, (156,))
    run()
    np.testing.assert_array_equal(y[:4992], np.full(4992, 6, np.float32))


def test_a_copy_in_place_of_the_pages_is_not_used(driver: MetalDriver, device: Device):
    device.copies = True
    x, y = pages(4096, 2.0), pages(4096, np.nan)
    driver.load(scaled()).bind({"x": x, "y": y}, {"by": 2.0}, {}, (128,))()
    np.testing.assert_array_equal(y, np.full(4096, 4, np.float32))


def test_views_of_one_mapping_share_a_buffer(driver: MetalDriver):
    whole = pages(4096, 1.0)
    whole[:] = np.arange(4096)
    run = driver.load(scaled()).bind({"x": whole[64:128], "y": whole}, {"by": 2.0}, {}, (2,))
    run()
    np.testing.assert_array_equal(whole[:64], 2 * np.arange(64, 128))


def test_memory_is_given_back(driver: MetalDriver, device: Device):
    held = arrays(driver)
    run = driver.load(scaled()).bind(held, {"by": 2.0}, {}, (2,))
    run()
    driver.synchronise()
    alive = weakref.ref(held["x"].memory.buffer)
    device.buffers.clear()
    del held
    gc.collect()
    assert alive() is not None  # a bound launch keeps it
    del run
    gc.collect()
    assert alive() is None


def test_arrays_of_another_library_are_refused(driver: MetalDriver):
    held = arrays(driver)
    foreign = SimpleNamespace(pointer=0, strides=(1,), shape=(64,), owner=object())
    with pytest.raises(KernelError, match="another library") as caught:
        driver.load(scaled()).bind({**held, "x": foreign}, {"by": 2.0}, {}, (2,))
    assert caught.value.id == "E0701"


def test_a_kernel_of_the_library_on_both_kinds_of_arrays(driver: MetalDriver):
    from iron.kernels.norm.rms_norm import rms_norm

    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(3, 1000)).astype(np.float32), rng.normal(size=1000).astype(np.float32)
    with iron.use(driver):
        there = rms_norm(driver.upload(x), driver.upload(w), eps=1e-5)
        here = rms_norm(x, w, eps=1e-5)
    want = w * x / np.sqrt((x.astype(float) ** 2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(here, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(driver.download(there), here)


# --- faults ---------------------------------------------------------------------------------------


def test_text_that_is_refused_names_the_users_line(
    driver: MetalDriver, monkeypatch: pytest.MonkeyPatch
):
    code = code_of(scaled())
    body = code.text.body.replace(" * by", " * nobody")
    wrong = replace(code, text=replace(code.text, body=body))
    monkeypatch.setattr(metal, "code_of", lambda kernel: wrong)
    with pytest.raises(KernelError, match="Metal refuses") as caught:
        driver.load(scaled())
    told = caught.value.diagnostic
    assert told.loc is not None
    assert (told.id, told.loc.file, told.loc.line) == ("E0901", "author.py", 7)
    assert "nobody" in told.notes[0]


def test_the_form_of_apples_messages():
    said = (
        "program_source:3:1: warning: unused\n/home/a b/author.py:31:5: error: no member 'x'\n"
        "iron.metal:2:9: error: expected ';'\n"
    )
    code = Code("k", "iron_k", Text("iron_k", "", "", (), ()), (), (), 32)
    told = refused(code, Error(text=said, number=3)).diagnostic
    assert told.loc is not None
    assert (told.loc.file, told.loc.line) == ("/home/a b/author.py", 31)
    assert told.notes == ("no member 'x'", "expected ';'")
    assert refused(code, None).diagnostic.loc is None


@pytest.mark.parametrize(
    ("number", "id", "said"),
    [
        (3, "E0404", "outside its memory"),
        (8, "E0502", "memory is full"),
        (2, "E0901", "took too long"),
        (1, "E0901", "error 1"),
    ],
)
def test_a_launch_that_fails(driver: MetalDriver, device: Device, number: int, id: str, said: str):
    run = driver.load(scaled()).bind(arrays(driver), {"by": 2.0}, {}, (2,))
    device.next_fault = number
    run(), run()
    with pytest.raises(KernelError, match=said) as caught:
        driver.synchronise()
    assert caught.value.id == id
    driver.synchronise()  # said once


@pytest.mark.parametrize(
    ("facts", "id", "said"),
    [
        ({"most_threads": 16}, "E0301", "needs more registers"),
        ({"group_bytes": 40 << 10}, "E0501", "group memory"),
        ({"width": 64}, "E0602", "64 threads"),
        ({"families": ("Apple6",)}, "E0603", "this GPU is a Fake M2"),
    ],
)
def test_a_gpu_that_is_too_small(device: Device, facts: dict, id: str, said: str):
    device.__dict__.update(facts)
    with pytest.raises(KernelError, match=said) as caught:
        opened(device).load(scaled())
    assert caught.value.id == id


def test_full_memory_is_said(driver: MetalDriver, device: Device):
    device.memory = 1024
    with pytest.raises(KernelError, match="memory is full"):
        driver.upload(np.zeros(1024, np.float32))


def test_more_tensors_than_buffers():
    p = Handmade(threads=32, simd=32)
    y = p.tensor("y", f32, "out")
    for n in range(31):
        p.tensor(f"x{n}", f32)
    p.store(y, p.thread(), p.const(1, f32))
    with pytest.raises(KernelError, match="more than Metal's 31") as caught:
        code_of(p.done())
    assert caught.value.id == "E0602"


@pytest.mark.parametrize(
    ("system", "version", "said", "remedy"),
    [
        ("Linux", "", "a part of macOS", "on a Mac: pip install 'iron-kernels[metal]'"),
        ("Darwin", "13.6.1", "macOS 13.6.1 has no Metal 3.1", "update to macOS 14"),
        ("Darwin", "15.1", "no module named Metal", "pip install 'iron-kernels[metal]'"),
    ],
)
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, system: str, version: str, said: str, remedy: str
):
    monkeypatch.setattr(api.platform, "system", lambda: system)
    monkeypatch.setattr(api.platform, "mac_ver", lambda: (version, ("", "", ""), "arm64"))
    with pytest.raises(KernelError, match=said) as caught:
        api.bindings()
    assert caught.value.id == "E0603"
    assert remedy in caught.value.diagnostic.help


def test_a_machine_without_a_gpu():
    metal = FakeMetal(None)
    with pytest.raises(KernelError, match="no GPU") as caught:
        Api(metal, metal.pool)
    assert caught.value.id == "E0603"


def test_macos_14_has_no_math_mode(device: Device):
    """Arithmetic is exact there too, which the fake demands of every library."""
    device.lacks.add("setMathMode:")
    driver = opened(device)
    driver.load(scaled())
    assert len(device.libraries) == 1


# --- the fake refuses what Metal would ------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda d: d.newBufferWithLength_option_(1, 0), "no selector"),
        (lambda d: d.newBufferWithLength_options_(1), "Need 2"),
        (lambda d: d.newBufferWithLength_options_("1", 0), "type Q"),
        (lambda d: d.newLibraryWithSource_options_error_("", None, 0), "type out"),
        (lambda d: d.contents(), "does not respond"),
        (lambda d: FakeMetal(d).MTLStorageModeBogus, "no MTLStorageModeBogus"),
        (lambda d: d.newCommandQueue().commandBuffer(), "outside a pool"),
    ],
)
def test_a_wrong_call_is_refused(device: Device, call, said: str):
    with pytest.raises((AttributeError, TypeError, AssertionError), match=said):
        call(device)


def test_a_commit_before_the_end_is_refused(device: Device):
    command = Command(device=device, work=[])
    encoder: Object = command.computeCommandEncoder()
    with pytest.raises(AssertionError, match="endEncoding"):
        command.commit()
    encoder.endEncoding()
    command.commit()
