"""Runs of neighbours of each lane: turned where the CPU has wide shuffles, right everywhere."""

import numpy as np
import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.dtypes import DType, bf16, bool_, f16, f32, i64, u8, u16, u32
from iron.ir.core import Kernel
from iron.ir.types import tensor
from iron.targets.cpu import X86_64_V3, X86_64_V4
from iron.targets.target import Target
from tests.unit.backends.cpu.agree import both
from tests.unit.ir.handmade import Handmade

RNG = np.random.default_rng(21)
ELEMENTS = [f32, u32, f16, bf16, u16, u8, bool_, i64]


def runs(elem: DType, count: int, *, by: int = 1, masked: bool = False, width: int = 32) -> Kernel:
    """y[j, t] = x[by t + 1, 3 + j]: lane t reads `count` neighbours of its own row."""
    p = Handmade(threads=width, simd=width)
    x = p.param("x", "tensor", tensor(elem, 2, "in", packed=True))
    y, n = p.tensor("y", elem, "inout", 2), p.dim("N")
    t = p.thread()

    def body() -> None:
        row = p.emit("add", p.emit("mul", t, p.const(by)), p.const(1))
        held = p.load(x, row, p.const(3), count=count)
        for j in range(count):
            p.store(y, p.const(j), t, p.emit("extract", held, attrs=(j,)))

    if not masked:
        body()
        return p.done()
    with p.b.block() as then:
        body()
        p.do("yield")
    with p.b.block() as other:
        p.do("yield")
    p.do("if", p.emit("lt", t, n), regions=(then, other))
    return p.done()


def arrays(elem: DType, count: int, width: int = 32, by: int = 1) -> dict[str, np.ndarray]:
    raw = RNG.integers(0, 256, (by * width + 2, (count + 5) * elem.bytes), dtype=np.uint8)
    x = (raw[:, : count + 5] & 1).astype(bool) if elem is bool_ else raw.view(elem.np)
    return {"x": x, "y": np.zeros((count, width), elem.np)}


def gathers(kernel: Kernel, target: Target = X86_64_V4) -> bool:
    return "masked.gather" in compile_kernel(kernel, target).text


@pytest.mark.parametrize("elem", ELEMENTS, ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_each_lane_gets_its_run(elem: DType, masked: bool):
    count = max(1, 64 // elem.bytes)
    for by, width in ((1, 32), (3, 32), (2, 16), (1, 8)):
        made = arrays(elem, count, width, by)
        both(runs(elem, count, by=by, masked=masked, width=width), made, dims={"N": width - 5})


def test_runs_of_a_line_are_turned():
    for elem, count in ((f32, 16), (u32, 16), (bf16, 32), (u8, 64)):
        assert not gathers(runs(elem, count))


def test_other_runs_are_gathered():
    assert gathers(runs(f32, 8))
    assert gathers(runs(f32, 16, masked=True))
    assert gathers(runs(f32, 16), X86_64_V3)


def test_halves_of_a_word_come_together_again():
    """Pairs taken from a run are the words that were turned, untouched."""
    p = Handmade(threads=32, simd=32)
    x = p.param("x", "tensor", tensor(bf16, 2, "in", packed=True))
    y = p.tensor("y", u32, "out", 2)
    held = p.load(x, p.thread(), p.const(0), count=32)
    for j in range(16):
        pair = [p.emit("extract", held, attrs=(2 * j + i,)) for i in range(2)]
        word = p.emit("bitcast", p.emit("pack", *pair), attrs=(u32,))
        p.store(y, p.const(j), p.thread(), p.emit("extract", word, attrs=(0,)))
    kernel = p.done()
    assert "zext <32 x i16>" not in compile_kernel(kernel, X86_64_V4).text
    x, y = RNG.integers(0, 2**16, (32, 32), dtype=np.uint16), np.zeros((16, 32), np.uint32)
    both(kernel, {"x": x.view(bf16.np), "y": y})
