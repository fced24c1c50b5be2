"""Products of opaque matrices: tile programs on a target that lists some."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from iron.analysis.budget import shared_bytes
from iron.dtypes import bf16, f16, f32, i8
from iron.errors import KernelError
from iron.ir.verify import verify
from iron.targets.atoms.opaque import OpaqueAtom
from iron.targets.atoms.vulkan import USUAL
from iron.targets.target import Target
from iron.targets.vulkan import LEAST
from iron.tiles import opaque
from iron.tiles.grid import natural
from iron.tiles.lower import threads
from iron.tiles.opaque import opaque_grid
from tests.unit.tiles.programs import Made, attention, gemm
from tests.unit.tiles.test_lower import interpreted

DEVICE = replace(LEAST, matrices=USUAL)
SMALL = replace(LEAST, matrices=tuple(OpaqueAtom(8, 8, 8, t, t, f32) for t in (f32, f16)))
WIDE = replace(LEAST, simd=64, matrices=USUAL[:1])
PROGRAMS: dict[str, tuple[Target, Callable[[], Made]]] = {
    "nn bf16": (DEVICE, lambda: gemm((50, 70, 41), (32, 32, 16), bf16)),
    "nt f16 with bias": (DEVICE, lambda: gemm((65, 70, 41), (64, 64, 32), f16, "NT", bias=True)),
    "tn bf16": (DEVICE, lambda: gemm((65, 130, 41), (64, 128, 32), bf16, "TN")),
    "tt i8": (DEVICE, lambda: gemm((65, 70, 41), (64, 64, 32), i8, "TT")),
    "odd sides": (DEVICE, lambda: gemm((50, 97, 31), (48, 80, 16), bf16, "NT")),
    "deep tiles": (DEVICE, lambda: gemm((20, 40, 200), (16, 32, 128), f16, "NN")),
    "no depth": (DEVICE, lambda: gemm((20, 20, 0), (32, 32, 32), bf16, "NT")),
    "whole tiles": (DEVICE, lambda: gemm((64, 64, 96), (32, 64, 32), f16, stages=3)),
    "attention": (DEVICE, lambda: attention(40, 70, 64, (32, 32), f16)),
    "nt f32 by 8": (SMALL, lambda: gemm((33, 40, 40), (32, 32, 16), f32, "NT")),
    "nn f16 by 8": (SMALL, lambda: gemm((33, 40, 40), (16, 48, 8), f16)),
    "nn f16 by 64 lanes": (WIDE, lambda: gemm((65, 70, 41), (64, 64, 32), f16, simd=64)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_by_opaque_matrices(name: str):
    target, make = PROGRAMS[name]
    made = make()
    kernel = threads(made.kernel, target)
    verify(kernel)
    assert any(op.name == "matrix_mma" for op in kernel.body.walk())
    assert interpreted(made, kernel) == {}


@pytest.mark.parametrize("tiles", [(64, 64, 32), (128, 256, 32), (16, 32, 16), (48, 80, 32)])
def test_every_grid_covers_its_tiles(tiles: tuple[int, int, int]):
    for target in (DEVICE, SMALL, WIDE):
        made = gemm(dtype=f16, tiles=tiles, simd=target.simd)
        grid = opaque_grid(made.kernel, target)
        assert grid is not None
        layout = grid.layout(natural(2), tiles[:2], target.simd)
        assert layout.exact
        assert layout.registers * grid.threads == tiles[0] * tiles[1]


def test_a_loop_carries_matrices_and_no_array_holds_the_sums():
    made = gemm((128, 128, 64), (128, 128, 32), bf16, "NT")
    kernel = threads(made.kernel, DEVICE)
    assert kernel.threads == 256
    (loop,) = (op for op in kernel.body.walk() if op.name == "for" and op.results)
    assert {repr(r.type) for r in loop.results} == {"matrix f32[16, 16] acc"}
    assert len(loop.results) == 8
    names = [op.name for op in loop.regions[0].walk()]
    assert names.count("matrix_mma") == 2 * 8
    assert names.count("matrix_load") == 2 * (2 + 4)
    assert names.count("barrier") == 2
    arrays = [op.attrs[0].shape for op in kernel.body.walk() if op.name == "shared"]
    assert sorted(arrays) == [(8, 16, 20), (128, 20), (128, 20)]


def test_what_does_not_fit_goes_the_general_road():
    for made in (
        gemm((20, 20, 20), (16, 16, 8), bf16),
        gemm((20, 20, 20), (8, 16, 16), bf16),
        gemm((20, 20, 20), (16, 16, 16), f32),
        gemm((20, 20, 20), (16, 16, 16), i8),
        gemm((20, 20, 20), (16, 16, 16), bf16, simd=16),
    ):
        assert opaque_grid(made.kernel, DEVICE) is None
    fits = gemm((20, 20, 20), (16, 16, 16), bf16).kernel
    assert opaque_grid(fits, DEVICE) is not None
    assert opaque_grid(fits, LEAST) is None
    assert opaque_grid(fits, None) is None
    assert opaque_grid(fits, replace(DEVICE, simd=8)) is None


def test_blocks_without_room_are_left_out():
    made = gemm((128, 128, 64), (128, 128, 32), bf16, "NT")
    for room, multiplies in ((32 << 10, True), (24 << 10, False)):
        kernel = threads(made.kernel, replace(DEVICE, shared_bytes=room))
        assert any(op.name == "matrix_mma" for op in kernel.body.walk()) == multiplies
        assert shared_bytes(kernel) <= room


def test_a_block_in_the_wrong_place_is_seen(monkeypatch: pytest.MonkeyPatch):
    """A control: the second row of blocks is where the first is."""
    made = gemm((64, 64, 32), (64, 64, 32), bf16, "NT")
    real = opaque._block  # pyright: ignore[reportPrivateUsage]

    def first(e, kind, side, number):
        return real(e, kind, side, 0 if kind == "down" else number)

    monkeypatch.setattr(opaque, "_block", first)
    assert interpreted(made, threads(made.kernel, DEVICE)) != {}


def test_operands_that_nothing_waits_for_are_a_race(monkeypatch: pytest.MonkeyPatch):
    made = gemm((32, 32, 32), (32, 32, 16), f16)
    monkeypatch.setattr("iron.tiles.storage.Fence.reads", lambda *_: None)
    with pytest.raises(KernelError, match="race on"):
        interpreted(made, threads(made.kernel, DEVICE))


def test_ragged_shapes():
    rng = np.random.default_rng(3)
    for m, n, k in rng.choice((1, 7, 31, 33, 97), (6, 3)):
        made = gemm((int(m), int(n), int(k)), (32, 32, 16), bf16, "TN")
        assert interpreted(made, threads(made.kernel, DEVICE)) == {}
