"""Loads of inputs of any strides: wide where neighbours lie side by side, right everywhere."""

import numpy as np
import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.dtypes import bool_, f16, f32, u8
from iron.ir.core import Kernel
from iron.ir.types import tensor
from iron.targets.cpu import X86_64_V3, X86_64_V4
from tests.unit.backends.cpu.agree import both
from tests.unit.ir.handmade import Handmade

RNG = np.random.default_rng(14)


def copying(elem, strided: bool = True, guarded: bool = False, axis: int = 1) -> Kernel:
    """y[group, t] = x[group, t], or x[t, group]."""
    p = Handmade(threads=32, simd=32)
    x = p.param("x", "tensor", tensor(elem, 2, "in", packed=not strided))
    y, n = p.tensor("y", elem, "inout", 2), p.dim("N")
    row, t = p.group(), p.thread()
    at = (row, t) if axis else (t, row)

    def body() -> None:
        p.store(y, row, t, p.load(x, *at))

    if not guarded:
        body()
        return p.done()
    with p.b.block() as then:
        body()
        p.do("yield")
    with p.b.block() as other:
        p.do("yield")
    p.do("if", p.emit("lt", t, n), regions=(then, other))
    return p.done()


def views(elem) -> dict[str, np.ndarray]:
    """Arrays of 32 x 32 in every kind of order."""
    whole = RNG.integers(0, 2 if elem is bool_ else 100, (64, 96)).astype(elem.np)
    return {
        "plain": whole[:32, :32],
        "transposed": whole[:32, :32].T,
        "stepped": whole[::2, ::3],
        "reversed": whole[31::-1, 31::-1],
        "one row": np.broadcast_to(whole[0, :32], (32, 32)),
        "one column": np.broadcast_to(whole[:32, :1], (32, 32)),
    }


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("elem", [f32, f16, u8, bool_], ids=str)
def test_the_elements_are_the_same(elem, axis: int, guarded: bool):
    kernel = copying(elem, guarded=guarded, axis=axis)
    for x in views(elem).values():
        y = np.zeros((32, 32), elem.np)
        both(kernel, {"x": x, "y": y}, (32,), dims={"N": 21})


@pytest.mark.parametrize("target", [X86_64_V3, X86_64_V4], ids=lambda t: t.name)
def test_a_step_of_one_is_a_wide_load(target):
    text = compile_kernel(copying(f32), target).text
    assert "load <32 x float>" in text
    assert "gather" in text
    known = compile_kernel(copying(f32, strided=False), target).text
    assert "gather" not in known
    assert "near" not in known
