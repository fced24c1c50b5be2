"""Flat indices split into rows by a run-time length: right at any length, wide in full rows."""

import numpy as np
import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import host
from iron.dtypes import DType, f32, i32, u32
from iron.ir.core import Kernel, Value
from iron.ir.types import tensor
from tests.unit.backends.cpu.agree import both
from tests.unit.backends.cpu.test_control import branch
from tests.unit.ir.handmade import Handmade

RNG = np.random.default_rng(10)


def transposing(index: DType, threads: int, step: int = 1) -> Kernel:
    """y[r, c] = x[r, c] * w[c] + s[r] over a flat launch of R * N elements, with a guard."""
    p = Handmade(threads=threads, simd=16, index=index)
    x = p.param("x", "tensor", tensor(f32, 2, "in"))
    w, s = p.tensor("w", f32), p.tensor("s", f32)
    y = p.param("y", "tensor", tensor(f32, 2, "inout"))
    rows, n = p.dim("R"), p.dim("N")
    flat = p.emit("mul", p.place(), p.const(step, index))

    def body() -> list[Value]:
        c, r = p.emit("mod", flat, n), p.emit("floordiv", flat, n)
        scaled = p.emit("fma", p.load(x, r, c), p.load(w, c), p.load(s, r))
        p.store(y, r, c, scaled)
        return []

    branch(p, p.emit("lt", flat, p.emit("mul", rows, n)), body, list)
    return p.done()


@pytest.mark.parametrize("index", [i32, u32], ids=str)
@pytest.mark.parametrize(("threads", "step"), [(16, 1), (64, 1), (16, 2), (16, 3)])
def test_rows_of_any_length(index: DType, threads: int, step: int):
    kernel = transposing(index, threads, step)
    for rows, n in [(1, 1), (9, 1), (5, 15), (4, 16), (3, 17), (3, 31), (2, 32), (3, 100), (1, 0)]:
        total = rows * n
        arrays = {
            "x": RNG.normal(size=(rows, n)).astype(np.float32),
            "w": RNG.normal(size=n).astype(np.float32),
            "s": RNG.normal(size=rows).astype(np.float32),
            "y": np.zeros((rows, n), np.float32),
        }
        groups = (-(-total // (threads * step)) + 1,)
        both(kernel, arrays, groups, dims={"R": rows, "N": n})


@pytest.mark.parametrize("n", [-7, -1, 0, 3, 40, 2**31 - 1])
def test_lengths_and_flat_indices_of_either_sign(n: int):
    """Parts are only stored: signs, zero and overflow of the flat index itself."""
    p = Handmade(threads=16, simd=16)
    y, z = p.tensor("y", i32, "out"), p.tensor("z", i32, "out")
    start, length = p.dim("S"), p.dim("N")
    t = p.place()
    flat = p.emit("add", start, t)

    def body() -> list[Value]:
        q, r = p.emit("floordiv", flat, length), p.emit("mod", flat, length)
        p.store(y, t, q)
        p.store(z, t, p.emit("add", p.emit("mul", q, p.const(3)), r))
        return []

    branch(p, p.emit("lt", t, p.const(48)), body, list)
    kernel = p.done()
    for start_at in (-100, -8, 0, 5, 2**31 - 60, 2**31 - 10):
        arrays = {"y": np.zeros(48, np.int32), "z": np.zeros(48, np.int32)}
        both(kernel, arrays, (3,), dims={"S": start_at, "N": n})


def test_a_full_row_is_read_in_one_piece():
    text = compile_kernel(transposing(i32, 16), host()).text
    full = text[text.index("full") : text.index("\npartial")]
    assert "load <16 x float>" in full
    assert "gather" not in full
    assert "gather" in text
