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
LANES = 32
SHARES = 8
"""Blocks of eight rows in a column of panels."""
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
        if name == "b":  # what is filled first of the second panel is asked for by nobody
            later = {at for at in later - lines if not first_of_second(*at, axis, tiles[2], line)}
        assert later <= lines


def first_of_second(row: int, number: int, axis: int, depth: int, line: int) -> bool:
    """Whether a line of b is in the first of the eight shares of the second panel."""
    k, column = (number * line, row) if axis else (row, number * line)
    return column // LANES == 1 and k % depth < max(line if axis else 1, depth // SHARES)


def test_only_pipelined_loops_of_a_cpu_ask_for_the_next_turn():
    def hints(made: Made, target: Any = X86_64_V4) -> set[str]:
        ops = threads(made.kernel, target).body.walk()
        return {op.args[0].name for op in ops if op.name == "prefetch"}

    assert hints(gemm((64, 64, 64), (32, 64, 16), stages=2)) == {"a", "b"}
    assert hints(gemm((64, 64, 64), (32, 64, 16))) == {"b"}  # for the panels of this turn
    assert hints(gemm((64, 64, 64), (32, 32, 16))) == set()
    assert hints(gemm((64, 64, 64), (32, 64, 16), stages=2), None) == set()


def test_a_hint_lives_through_the_passes_and_moves_nothing():
    made = gemm((64, 64, 64), (32, 64, 16), stages=2)
    kernel = lower(made.kernel, X86_64_V4)
    assert sum(op.name == "prefetch" for op in kernel.body.walk()) >= 2
    assert interpreted(made, kernel) == {}
