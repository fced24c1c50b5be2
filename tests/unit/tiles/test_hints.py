"""What a turn reads was asked for in the turn before, where walks are loops."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from iron.compiler import lower
from iron.dtypes import f16, f32
from iron.ir import interp
from iron.ir.core import Kernel
from iron.ir.verify import verify
from iron.targets.cpu import X86_64_V4
from iron.tiles.lower import threads
from tests.unit.tiles.programs import Made, gemm
from tests.unit.tiles.test_lower import interpreted

LINE = 64
TILES = [(64, 128, 16), (64, 128, 32)]
FAST = [("NN", TILES[0], f32)]


def asked(made: Made, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[Any]]:
    """The places that a run asks for, by tensor."""
    found: dict[str, set[Any]] = {}

    def record(m: Any, op: Any, mask: Any) -> tuple[()]:
        buffer, *indices = op.args
        at = [np.broadcast_to(m.env[i], m.lanes).tolist() for i in indices]
        found.setdefault(m.buffers[buffer].name, set()).update(zip(*at, strict=True))
        return ()

    monkeypatch.setitem(interp._HANDLERS, "prefetch", record)
    assert interpreted(made, kernel) == {}
    return found


WAYS = [
    pytest.param(form, tiles, dtype, marks=[] if (form, tiles, dtype) in FAST else pytest.mark.slow)
    for form, tiles, dtype in product(["NN", "NT", "TN"], TILES, [f32, f16])
]


@pytest.mark.parametrize(("form", "tiles", "dtype"), WAYS)
def test_every_line_of_the_next_turn_is_asked_for(form: str, tiles, dtype, monkeypatch):
    deep = 4 * tiles[2]
    made = gemm((64, 128, deep), tiles, dtype, form, stages=2)
    kernel = threads(made.kernel, X86_64_V4)
    verify(kernel)
    found = asked(made, kernel, monkeypatch)
    for name, axis in (("a", int(form[0] == "N")), ("b", int(form[1] == "T"))):
        shape = made.arrays[name].shape
        line = LINE // dtype.bytes
        lines = {(row, column // line) for row, column in found[name]}
        later = {
            (row, column // line)
            for row, column in np.ndindex(shape)
            if (row, column)[axis] >= tiles[2]
        }
        assert later <= lines


def test_only_pipelined_loops_of_a_cpu_ask():
    def hints(made: Made, target: Any = X86_64_V4) -> int:
        return sum(op.name == "prefetch" for op in threads(made.kernel, target).body.walk())

    assert hints(gemm((64, 64, 64), (32, 64, 16), stages=2)) > 0
    assert hints(gemm((64, 64, 64), (32, 64, 16))) == 0
    assert hints(gemm((64, 64, 64), (32, 64, 16), stages=2), None) == 0


def test_a_hint_lives_through_the_passes_and_moves_nothing():
    made = gemm((64, 64, 64), (32, 64, 16), stages=2)
    kernel = lower(made.kernel, X86_64_V4)
    assert sum(op.name == "prefetch" for op in kernel.body.walk()) >= 2
    assert interpreted(made, kernel) == {}
