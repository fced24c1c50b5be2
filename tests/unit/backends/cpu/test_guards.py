"""Long guarded bodies: written once, right for any number of lanes, in rows of any length."""

from collections.abc import Callable

import numpy as np
import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.guards import LONG
from iron.dtypes import f32
from iron.ir.core import Kernel, Value
from iron.ir.types import tensor
from iron.targets.cpu import X86_64_V4
from tests.unit.backends.cpu.agree import both
from tests.unit.backends.cpu.test_control import branch
from tests.unit.ir.handmade import Handmade

RNG = np.random.default_rng(13)


def chain(p: Handmade, x: Value, steps: int) -> Value:
    """`steps` operations one after another, the last one in an inner branch."""
    for _ in range(steps):
        x = p.emit("fma", x, p.const(0.5, f32), p.const(0.25, f32))
    above = p.emit("gt", x, p.const(0.5, f32))
    (x,) = branch(p, above, lambda: [p.emit("neg", x)], lambda: [x])
    return x


def flat(steps: int) -> Kernel:
    """y[i] = chain(x[i]) for i below N."""
    p = Handmade(threads=32, simd=16)
    x, y, n = p.tensor("x", f32), p.tensor("y", f32, "out"), p.dim("N")
    i = p.place()

    def body() -> list[Value]:
        p.store(y, i, chain(p, p.load(x, i), steps))
        return []

    branch(p, p.emit("lt", i, n), body, list)
    return p.done()


def rows(steps: int) -> Kernel:
    """y[r, c] = chain(x[r, c]) + w[c] over a flat launch of R * N elements."""
    p = Handmade(threads=32, simd=16)
    x = p.param("x", "tensor", tensor(f32, 2, "in"))
    w = p.tensor("w", f32)
    y = p.param("y", "tensor", tensor(f32, 2, "inout"))
    r, n = p.dim("R"), p.dim("N")
    i = p.place()

    def body() -> list[Value]:
        at = p.emit("floordiv", i, n), p.emit("mod", i, n)
        p.store(y, *at, p.emit("add", chain(p, p.load(x, *at), steps), p.load(w, at[1])))
        return []

    branch(p, p.emit("lt", i, p.emit("mul", r, n)), body, list)
    return p.done()


@pytest.mark.parametrize("steps", [3, LONG])
def test_any_length(steps: int):
    kernel = flat(steps)
    for n in (0, 1, 15, 16, 17, 31, 32, 33, 63, 64):
        arrays = {"x": RNG.normal(size=n).astype(np.float32), "y": np.zeros(n, np.float32)}
        both(kernel, arrays, (2,), dims={"N": n})


@pytest.mark.parametrize("steps", [3, LONG])
def test_rows_of_any_length(steps: int):
    kernel = rows(steps)
    for r, n in [(1, 1), (9, 1), (5, 15), (4, 16), (3, 17), (3, 31), (2, 32), (1, 100), (1, 0)]:
        arrays = {
            "x": RNG.normal(size=(r, n)).astype(np.float32),
            "w": RNG.normal(size=n).astype(np.float32),
            "y": np.zeros((r, n), np.float32),
        }
        both(kernel, arrays, (-(-r * n // 32) + 1,), dims={"R": r, "N": n})


@pytest.mark.parametrize("make", [flat, rows])
def test_a_long_body_is_written_once_and_a_short_one_twice(make: Callable[[int], Kernel]):
    """For each of two simdgroups, which a long body serves in a loop."""

    def sums(steps: int) -> int:
        return compile_kernel(make(steps), X86_64_V4).text.count("call <16 x float> @llvm.fma.")

    assert sums(2 * LONG) == 2 * LONG
    assert sums(LONG // 2) == 4 * (LONG // 2)


def test_accesses_keep_their_wide_form():
    """Without a mask where all lanes pass, also in rows."""
    for kernel in (flat(LONG), rows(LONG)):
        text = compile_kernel(kernel, X86_64_V4).text
        assert "load <16 x float>" in text
        assert "store <16 x float>" in text
        assert "masked.load" in text or "masked.gather" in text
