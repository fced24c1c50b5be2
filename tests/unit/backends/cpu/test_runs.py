"""Values equal in runs of lanes are loaded and computed once a run, with the same bits."""

import re

import numpy as np
import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.dtypes import bf16, f16, f32, i8, i32, u8, u32
from iron.ir.core import Kernel
from iron.targets.cpu import X86_64_V3, X86_64_V4
from tests.unit.backends.cpu.agree import both
from tests.unit.ir.handmade import Handmade

RNG = np.random.default_rng(13)
SUM = re.compile(r"fadd (?:contract )?(<\d+ x float>|float) ")


def scaled(elem, length: int, aligned: bool = True, guarded: bool = False) -> Kernel:
    """y[i] = (s[i / length] + 1) * x[i], i from the group's number on."""
    p = Handmade(threads=32, simd=32)
    s, x, y = p.tensor("s", elem), p.tensor("x", f32), p.tensor("y", f32, "inout")
    n = p.dim("N")
    base = p.emit("mul", p.group(), p.const(32 if aligned else 37, i32))
    i = p.emit("add", base, p.thread())

    def body() -> None:
        at = p.emit("floordiv", i, p.const(length, i32))
        factor = p.emit("cast", p.load(s, at), attrs=(f32,))
        factor = p.emit("add", factor, p.const(1.0, f32))
        p.store(y, i, p.emit("mul", factor, p.load(x, i)))

    if not guarded:
        body()
        return p.done()
    with p.b.block() as then:
        body()
        p.do("yield")
    with p.b.block() as other:
        p.do("yield")
    p.do("if", p.emit("lt", i, n), regions=(then, other))
    return p.done()


def arguments(elem) -> dict[str, np.ndarray]:
    few = RNG.integers(0, 100, 160).astype(elem.np)
    x = RNG.normal(size=160).astype(np.float32)
    return {"s": few, "x": x, "y": np.full(160, np.nan, np.float32)}


def widths(kernel: Kernel) -> set[str]:
    """The types at which the factor's sum is computed."""
    return set(SUM.findall(compile_kernel(kernel, X86_64_V4).text))


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("length", [1, 2, 4, 8, 16, 32, 64, 24])
def test_the_bits_are_the_same(length: int, aligned: bool, guarded: bool):
    for elem in (u8, i8, f16, bf16, f32, u32):
        kernel = scaled(elem, length, aligned, guarded)
        both(kernel, arguments(elem), (4,), dims={"N": 71})


@pytest.mark.parametrize("target", [X86_64_V3, X86_64_V4], ids=lambda t: t.name)
@pytest.mark.parametrize(("length", "lanes"), [(4, "<8 x float>"), (16, "<2 x float>")])
def test_once_a_run(length: int, lanes: str, target):
    text = compile_kernel(scaled(f16, length), target).text
    assert set(SUM.findall(text)) == {lanes}


def test_one_run_is_a_scalar():
    assert widths(scaled(f16, 32)) == {"float"}


@pytest.mark.parametrize(("length", "aligned"), [(1, True), (2, True), (24, True), (16, False)])
def test_nothing_else_is_narrow(length: int, aligned: bool):
    assert widths(scaled(f16, length, aligned)) == {"<32 x float>"}


def test_runs_of_two_lengths_meet_at_the_shorter():
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "inout")
    i = p.thread()
    a, b = (p.load(x, p.emit("floordiv", i, p.const(n, i32))) for n in (16, 4))
    p.store(y, i, p.emit("add", a, b))
    kernel = p.done()
    assert widths(kernel) == {"<8 x float>"}
    x = RNG.normal(size=8).astype(np.float32)
    both(kernel, {"x": x, "y": np.zeros(32, np.float32)})
