"""Tile programs on threads: right in the interpreter at several widths and on every road."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from iron.compiler import lower
from iron.dtypes import bf16, f16, f32, i8, i32, u8
from iron.errors import KernelError
from iron.ir.core import tiled
from iron.ir.interp import run
from iron.ir.verify import verify
from iron.passes.elementary import elementary
from iron.runtime.device import report
from iron.runtime.driver import driver
from iron.runtime.drivers.cpu import CpuDriver
from iron.targets.cpu import X86_64_V3, X86_64_V4
from iron.targets.target import Target
from iron.tiles import access, emitter, storage
from iron.tiles.lower import threads
from tests.unit.tiles.programs import (
    Made,
    attention,
    boxed,
    chosen,
    crossed,
    gemm,
    indexed,
    mixed,
    reductions,
    swapped,
    turned,
)

PROGRAMS: dict[str, Callable[..., Made]] = {
    "gemm": lambda **w: gemm(**w),
    "gemm of whole tiles": lambda **w: gemm((32, 64, 16), (16, 32, 8), **w),
    "gemm nt bf16 with bias": lambda **w: gemm(
        (33, 70, 41), (16, 64, 16), bf16, "NT", bias=True, **w
    ),
    "gemm tn f16": lambda **w: gemm((50, 31, 17), (32, 16, 16), f16, "TN", **w),
    "gemm tt of odd sides": lambda **w: gemm((50, 97, 31), (48, 80, 16), f32, "TT", **w),
    "gemm i8": lambda **w: gemm((20, 70, 41), (16, 64, 16), i8, **w),
    "gemm u8": lambda **w: gemm((20, 7, 41), (16, 8, 16), u8, **w),
    "gemm of few elements": lambda **w: gemm((5, 7, 3), (4, 2, 4), **w),
    "gemm of no depth": lambda **w: gemm((5, 7, 0), (16, 16, 8), **w),
    "attention": lambda **w: attention(**w),
    "attention f16": lambda **w: attention(20, 70, 32, (16, 32), f16, causal=False, **w),
    "attention of 80": lambda **w: attention(17, 33, 80, (16, 16), bf16, **w),
    "reductions": lambda **w: reductions(**w),
    "reductions of integers": lambda **w: reductions((23, 41), (64, 64), i32, **w),
    "reductions of few": lambda **w: reductions((3, 4), (4, 8), **w),
    "rows and columns": lambda **w: crossed(**w),
    "turned": lambda **w: turned(**w),
    "boxes": lambda **w: boxed(**w),
    "boxes f16": lambda **w: boxed(f16, **w),
    "boxes of planes": lambda **w: boxed(planar=True, **w),
    "boxes of planes f16": lambda **w: boxed(f16, planar=True, **w),
    "indexed": lambda **w: indexed(**w),
    "mixed": lambda **w: mixed(**w),
    "chosen": lambda **w: chosen(**w),
    "chosen of many rows": lambda **w: chosen(64, **w),
    "swapped": lambda **w: swapped(**w),
}
TARGETS = {"gpu": None, "cpu": X86_64_V4}


def wrong(made: Made, launch: Callable[[dict], None]) -> dict[str, str]:
    """The outputs that are not what they should be after a launch."""
    arrays = {name: held.copy() for name, held in made.arrays.items()}
    launch(arrays)
    out = {}
    for name, (exact, bound) in made.wanted.items():
        off = np.abs(arrays[name].astype(np.float64) - exact)
        if not (off <= bound).all():
            out[name] = f"off by {np.nanmax(off)}, {np.isnan(off).sum()} unwritten"
    return out


def interpreted(made: Made, kernel=None) -> dict[str, str]:
    body = elementary(made.kernel if kernel is None else kernel)
    return wrong(made, lambda arrays: run(body, arrays, {}, made.dims, made.grid))


def on(made: Made, road) -> dict[str, str]:
    target = road.target()
    code = road.load(lower(replace(made.kernel, simd=target.simd), target))
    return wrong(made, lambda arrays: code.bind(arrays, {}, made.dims, made.grid)())


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_tile_program_is_what_it_should_be(name: str):
    assert interpreted(PROGRAMS[name]()) == {}


@pytest.mark.parametrize(("kind", "simd"), [("gpu", 8), ("cpu", 32)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_compute_the_same(name: str, kind: str, simd: int):
    made = PROGRAMS[name](simd=simd)
    kernel = threads(made.kernel, TARGETS[kind])
    verify(kernel)
    assert not tiled(kernel)
    assert kernel.threads % simd == 0
    assert interpreted(made, kernel) == {}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cpu_computes_the_same(name: str):
    assert on(PROGRAMS[name](), CpuDriver()) == {}


@pytest.mark.parametrize("target", [X86_64_V3, X86_64_V4], ids=lambda t: t.name)
def test_passes_and_no_passes_agree(target: Target):
    """The lowered kernel in the interpreter, after all thread passes."""
    for made in (gemm(bias=True), attention(), mixed()):
        assert interpreted(made, lower(made.kernel, target)) == {}


TEXTS = ("cuda-text", "hip-text-32", "hip-text-64", "msl-text", "vulkan")
SAMPLE = {
    "cuda-text": ("gemm nt bf16 with bias", "attention of 80"),
    "hip-text-32": ("gemm tn f16", "reductions"),
    "hip-text-64": ("attention", "mixed"),
    "msl-text": ("gemm i8", "attention f16"),
    "vulkan": ("gemm", "attention of 80", "reductions of few"),
}


@pytest.mark.parametrize("road", TEXTS)
def test_generated_texts_compute_the_same(road: str):
    assert report(road).ready, report(road)
    found = {name: on(PROGRAMS[name](), driver(road)) for name in SAMPLE[road]}
    assert not any(found.values()), found


# --- controls: each of these faults is seen -------------------------------------------------------


def fails(made: Made, id: str, target: Target | None = None) -> None:
    with pytest.raises(KernelError) as raised:
        interpreted(made, threads(made.kernel, target))
    assert raised.value.id == id


@pytest.mark.parametrize("name", ["gemm", "attention", "turned", "mixed"])
def test_a_missing_barrier_is_a_race(name: str, monkeypatch):
    monkeypatch.setattr(storage.Fence, "barrier", lambda self, b: None)
    with pytest.raises(KernelError) as raised:
        interpreted(PROGRAMS[name](), threads(PROGRAMS[name]().kernel))
    assert raised.value.id in ("E0410", "E0402")


@pytest.mark.parametrize("event", ["reads", "writes"])
def test_each_kind_of_barrier_is_needed(event: str, monkeypatch):
    """Without those before writes a turn overwrites what is still read; without those before
    reads a thread reads what is not written yet."""
    real = getattr(storage.Fence, event)

    def silent(self, b, array):
        self.unknown = False
        if event == "reads":
            self.written.discard(array)
        else:
            self.read.discard(array)
        real(self, b, array)

    monkeypatch.setattr(storage.Fence, event, silent)
    fails(gemm(), "E0410")


def test_copies_that_write_are_a_race(monkeypatch):
    monkeypatch.setattr(emitter.Emitter, "owner", lambda self, kinds, shape: None)
    fails(gemm((5, 7, 3), (4, 2, 4)), "E0410")


def test_an_unguarded_edge_is_outside(monkeypatch):
    def plain(e, w, view):
        return e.b.emit("load", w.buffer, *w.indices(e.b, view), attrs=(0,))

    monkeypatch.setattr(access, "guarded", plain)
    fails(gemm(), "E0404")


def test_a_wrong_order_of_ends_is_seen(monkeypatch):
    """Two arrays exchanged by a loop: writing one before the other is read loses it."""
    from iron.tiles import compute

    monkeypatch.setattr(compute, "reads", lambda e, value, array: False)
    made = swapped()
    assert interpreted(made, threads(made.kernel, X86_64_V4)) != {}
