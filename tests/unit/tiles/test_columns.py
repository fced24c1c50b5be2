"""Right operands of a CPU whose panels are filled while the product of the panel before runs."""

from itertools import product

import pytest

from iron.dtypes import DType, f16, f32
from iron.ir.core import Kernel
from iron.ir.types import Tensor, tensor
from iron.ir.verify import verify
from iron.targets.cpu import X86_64_V4
from iron.tiles import columns
from iron.tiles.lower import threads
from tests.unit.tiles.programs import Tiles, gemm
from tests.unit.tiles.test_lower import interpreted

TILES = {
    "as many steps as shares": ((64, 96, 8), (64, 100, 20)),
    "more steps": ((16, 64, 16), (20, 70, 40)),
    "fewer steps": ((64, 96, 4), (70, 90, 10)),
    "steps that shares do not divide": ((48, 64, 32), (50, 64, 64)),
    "shares that steps do not divide": ((80, 64, 4), (80, 128, 8)),
    "lines of turned operands": ((32, 96, 32), (40, 200, 70)),
    "one panel": ((16, 32, 8), (20, 40, 20)),
    "half a panel": ((16, 16, 8), (20, 40, 20)),
}


FAST = "NN", f32


def arrays(kernel: Kernel) -> list[Tensor]:
    return [op.attr("type") for op in kernel.body.walk() if op.name == "shared"]


WAYS = [
    pytest.param(form, dtype, marks=[] if (form, dtype) == FAST else pytest.mark.slow)
    for form, dtype in product(["NN", "NT"], [f32, f16])
]


@pytest.mark.parametrize(("form", "dtype"), WAYS)
@pytest.mark.parametrize("name", TILES)
def test_each_panel_is_there_when_it_is_due(name: str, form: str, dtype: DType):
    tiles, shape = TILES[name]
    made = gemm(shape, tiles, dtype, form)
    kernel = threads(made.kernel, X86_64_V4)
    verify(kernel)
    shape = min(2, -(-tiles[1] // 32)), tiles[2], min(32, tiles[1])
    assert tensor(f32, 3, "shared", shape) in arrays(kernel)
    assert interpreted(made, kernel) == {}


def test_one_place_for_two_panels_is_seen(monkeypatch: pytest.MonkeyPatch):
    tiles, shape = TILES["as many steps as shares"]
    monkeypatch.setattr(columns, "slot", lambda e, coming, panel: e.number(0))
    made = gemm(shape, tiles, f32)
    assert interpreted(made, threads(made.kernel, X86_64_V4)) != {}


def test_a_share_that_is_left_out_is_seen(monkeypatch: pytest.MonkeyPatch):
    tiles, shape = TILES["more steps"]
    real = columns._share

    def first(e, steps, part, body):
        real(e, steps // 2 if part else steps, part, body)

    monkeypatch.setattr(columns, "_share", first)
    made = gemm(shape, tiles, f32)
    with pytest.raises(Exception, match="before any thread wrote it"):
        interpreted(made, threads(made.kernel, X86_64_V4))


def test_an_operand_of_two_products_is_filled_whole():
    p = Tiles()
    for name in ("a", "b"):
        p.tensor(name, f32, "in", 2)
    p.tensor("c", f32, "out", 2)
    y = p.read("b", (16, 96), [0, 0], [16, 96])
    total = p.full(0, (16, 96))
    for at in (0, 16):
        total = p.mma(p.read("a", (16, 16), [at, 0], [32, 16]), y, total)
    p.write("c", total, [0, 0], [16, 96])
    kernel = threads(p.done(), X86_64_V4)
    assert tensor(f32, 3, "shared", (3, 16, 32)) in arrays(kernel)
