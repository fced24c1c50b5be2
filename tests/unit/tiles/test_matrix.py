"""Products of simdgroups: the row is the vendor's table, and tiles use it where they fit."""

from collections.abc import Callable

import numpy as np
import pytest

from iron.dtypes import DTYPES, bf16, f16, f32, i8, i32, u8, u32
from iron.errors import KernelError
from iron.ir.interp import run
from iron.ir.ops.matrix import TOTALS
from iron.ir.text import parse_kernel, print_kernel
from iron.ir.verify import verify
from iron.runtime.driver import driver
from iron.targets.apple import APPLE7
from iron.targets.atoms import nvidia
from iron.targets.atoms.atom import MatrixAtom
from iron.targets.nvidia import SM_80
from iron.tiles import matrix
from iron.tiles.grid import natural
from iron.tiles.lower import threads
from iron.tiles.matrix import matrix_grid
from tests.unit.ir.handmade import Handmade
from tests.unit.tiles.programs import Made, attention, gemm
from tests.unit.tiles.test_lower import interpreted, on

ATOMS = {
    **{name: nvidia.MMA_16 for name in ("f16", "bf16")},
    **{"tf32": nvidia.MMA_TF32, "i8": nvidia.MMA_S8, "u8": nvidia.MMA_S8},
}


def words(values: np.ndarray, layout, elem: str) -> np.ndarray:
    """What each lane holds of a matrix, as words: lanes x words."""
    held = np.array(
        [[values[layout.at(r, lane)] for r in range(layout.registers)] for lane in range(32)]
    )
    return held.astype(np.float32 if elem == "tf32" else DTYPES[elem].np).view(np.uint32)


@pytest.mark.parametrize("elem", TOTALS)
def test_the_row_is_the_vendors_table(elem: str):
    atom: MatrixAtom = ATOMS[elem]
    total = TOTALS[elem]
    p = Handmade(threads=32, simd=32)
    given = [p.tensor(name, u32, "in", 2) for name in "ab"]
    sums, out = p.tensor("c", total, "in", 2), p.tensor("d", total, "out", 2)
    lane = p.thread()
    held = [
        p.load(t, lane, p.const(i)) for t, n in zip(given, (4, 2), strict=True) for i in range(n)
    ]
    first = p.load(sums, lane, p.const(0), count=2)
    last = [p.load(sums, lane, p.const(i)) for i in (2, 3)]
    a, b, c = p.do("simd_mma", *held, first, *last, attrs=(elem,))
    p.store(out, lane, p.const(0), a)
    p.store(out, lane, p.const(2), b)
    p.store(out, lane, p.const(3), c)
    kernel = p.done()
    verify(kernel)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    rng = np.random.default_rng(1)
    low = 0 if elem == "u8" else -9
    x, y = (rng.integers(low, 9, s) for s in ((16, atom.k), (atom.k, 8)))
    z = rng.integers(-50, 50, (16, 8))
    held_c = [[z[atom.acc.at(r, lane)] for r in range(4)] for lane in range(32)]
    arrays = {"a": words(x, atom.a, elem), "b": words(y, atom.b, elem)}
    arrays |= {"c": np.array(held_c, total.np), "d": np.zeros((32, 4), total.np)}
    run(kernel, arrays, {}, {}, (1,))
    exact = x @ y + z
    for lane in range(32):
        for r in range(4):
            assert arrays["d"][lane, r] == exact[atom.acc.at(r, lane)]


def test_the_walk_over_chunks_is_the_accumulators_layout():
    """One product: rows g and g + 8 are a lane's two chunks, columns a chunk of two."""
    grid = matrix_grid(gemm(dtype=bf16, tiles=(16, 8, 16)).kernel, SM_80)
    assert grid is not None
    assert grid.layout(natural(2), (16, 8), 32) == nvidia.ACCUMULATOR


@pytest.mark.parametrize("tiles", [(64, 64, 32), (128, 256, 32), (16, 32, 16), (48, 80, 32)])
def test_every_grid_covers_its_tiles(tiles: tuple[int, int, int]):
    grid = matrix_grid(gemm(dtype=f16, tiles=tiles).kernel, SM_80)
    assert grid is not None
    layout = grid.layout(natural(2), tiles[:2], 32)
    assert layout.exact
    assert layout.registers * grid.threads == tiles[0] * tiles[1]


PROGRAMS: dict[str, Callable[[], Made]] = {
    "nn bf16": lambda: gemm((50, 70, 41), (32, 32, 16), bf16),
    "nt f16 with bias": lambda: gemm((65, 70, 41), (64, 64, 32), f16, "NT", bias=True),
    "tn bf16": lambda: gemm((65, 130, 41), (64, 128, 32), bf16, "TN"),
    "tt i8": lambda: gemm((65, 70, 41), (64, 64, 32), i8, "TT"),
    "nt u8": lambda: gemm((33, 7, 40), (16, 8, 32), u8, "NT"),
    "nn tf32": lambda: gemm((33, 40, 40), (32, 32, 16), f32, math="tf32"),
    "nt tf32": lambda: gemm((33, 40, 40), (32, 32, 16), f32, "NT", math="tf32"),
    "odd sides": lambda: gemm((50, 97, 31), (48, 80, 16), bf16, "NT"),
    "attention": lambda: attention(40, 70, 64, (32, 32), f16),
    "attention of 80": lambda: attention(20, 33, 80, (16, 32), bf16, causal=False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_by_products(name: str):
    made = PROGRAMS[name]()
    kernel = threads(made.kernel, SM_80)
    verify(kernel)
    assert any(op.name == "simd_mma" for op in kernel.body.walk())
    assert interpreted(made, kernel) == {}


@pytest.mark.parametrize("name", ["nn bf16", "nt f16 with bias", "nt u8", "nt tf32", "attention"])
def test_text_by_products(name: str):
    """The instruction's words stand for it on this machine."""
    assert on(PROGRAMS[name](), driver("cuda-text")) == {}


def test_what_does_not_fit_goes_the_general_road():
    for made in (
        gemm((20, 20, 20), (16, 16, 8), bf16),
        gemm((20, 20, 20), (8, 16, 16), bf16),
        gemm((20, 20, 20), (16, 16, 16), f32),
    ):
        assert matrix_grid(made.kernel, SM_80) is None
    fits = gemm((20, 20, 20), (16, 16, 16), bf16).kernel
    assert matrix_grid(fits, SM_80) is not None
    assert matrix_grid(fits, APPLE7) is None
    assert matrix_grid(fits, None) is None


def wrong_or_outside(made: Made) -> bool:
    try:
        return interpreted(made, threads(made.kernel, SM_80)) != {}
    except KernelError as raised:
        return raised.id in ("E0404", "E0402")


@pytest.mark.parametrize("name", ["LANES_ACROSS", "WIDTH", "LANES_DOWN"])
def test_a_wrong_lane_is_seen(name: str, monkeypatch):
    """A control: another column or word of each lane gives other sums, or leaves the array."""
    made = gemm((32, 32, 32), (32, 32, 32), bf16, "NT")
    right = matrix_grid(made.kernel, SM_80)
    monkeypatch.setattr("iron.tiles.lower.matrix_grid", lambda *_: right)
    monkeypatch.setattr(matrix, name, getattr(matrix, name) // 2)
    assert wrong_or_outside(made)


def test_wrong_operands_are_refused():
    from iron.ir.table import OpTypeError

    p = Handmade(threads=32, simd=32)
    word, total = p.const(1, u32), p.const(0.0, f32)
    with pytest.raises(OpTypeError, match="takes 6 words"):
        p.do("simd_mma", *[word] * 5, total, *[total] * 4, attrs=("f16",))
    with pytest.raises(OpTypeError, match="takes 4 sums of i32"):
        p.do("simd_mma", *[word] * 6, *[total] * 4, attrs=("i8",))
    with pytest.raises(OpTypeError, match="no product of f8"):
        p.do("simd_mma", *[word] * 6, *[p.const(0, i32)] * 4, attrs=("f8",))
