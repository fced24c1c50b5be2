"""What is computed from four bits alone is one look-up on AVX-512, with the same bits."""

import numpy as np
import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.dtypes import f32, i32, u32
from iron.ir.core import Kernel, Value
from iron.ir.types import tensor
from iron.targets.cpu import X86_64_V3, X86_64_V4
from tests.unit.backends.cpu.agree import both
from tests.unit.ir.handmade import Handmade

RNG = np.random.default_rng(12)
LOOK_UP = "call <16 x float> @llvm.x86.avx512.permvar.sf.512("
LEVELS = np.linspace(-3, 5, 16).astype(np.float32)


def signed(p: Handmade, code: Value) -> Value:
    """The nibble less 8, scaled: steps that round."""
    whole = p.emit("cast", p.emit("cast", code, attrs=(i32,)), attrs=(f32,))
    return p.emit("mul", p.emit("sub", whole, p.const(8.0, f32)), p.const(0.1, f32))


def by_bits(p: Handmade, code: Value) -> Value:
    """A float whose bits are the nibble's, or 1 where it is small."""
    bits = p.emit("shl", code, p.const(24, u32))
    small = p.emit("lt", code, p.const(3, u32))
    whole = p.emit("bitcast", bits, attrs=(f32,))
    return p.emit("where", small, p.const(1.0, f32), whole)


def level(p: Handmade, code: Value) -> Value:
    """An entry of a table."""
    data = p.emit("table", attrs=(tensor(f32, 1, "table", (16,)), LEVELS.tobytes()))
    return p.load(data, p.emit("cast", code, attrs=(i32,)))


FORMS = [signed, by_bits, level]


def decoding(form, mask: int = 15, shift: int = 4) -> Kernel:
    """y[t] = form(x[t] >> shift & mask)."""
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", u32), p.tensor("y", f32, "inout")
    t = p.thread()
    moved = p.emit("shr", p.load(x, t), p.const(shift, u32))
    code = moved if mask < 0 else p.emit("and", moved, p.const(mask, u32))
    p.store(y, t, form(p, code))
    return p.done()


@pytest.mark.parametrize("shift", [0, 4, 28])
@pytest.mark.parametrize("form", FORMS)
def test_every_code_among_any_other_bits(form, shift: int):
    for high in (0, 0xFFFFFFFF):
        x = (np.arange(32, dtype=np.uint32) % 16) << np.uint32(shift)
        x |= np.uint32(high & ~(15 << shift) & 0xFFFFFFFF)
        both(decoding(form, shift=shift), {"x": x, "y": np.zeros(32, np.float32)})
    x = RNG.integers(0, 1 << 32, 32, dtype=np.uint32)
    both(decoding(form, shift=shift), {"x": x, "y": np.zeros(32, np.float32)})


@pytest.mark.parametrize("form", FORMS)
def test_a_look_up_on_avx512_only(form):
    assert LOOK_UP in compile_kernel(decoding(form), X86_64_V4).text
    assert LOOK_UP not in compile_kernel(decoding(form), X86_64_V3).text


def test_the_top_nibble_needs_no_mask():
    assert LOOK_UP in compile_kernel(decoding(signed, -1, 28), X86_64_V4).text
    x = RNG.integers(0, 1 << 32, 32, dtype=np.uint32)
    both(decoding(signed, -1, 28), {"x": x, "y": np.zeros(32, np.float32)})


@pytest.mark.parametrize(("mask", "shift"), [(31, 4), (23, 4), (0, 4), (-1, 27), (-1, 4)])
def test_other_fields_are_computed(mask: int, shift: int):
    assert LOOK_UP not in compile_kernel(decoding(signed, mask, shift), X86_64_V4).text
    x = RNG.integers(0, 1 << 32, 32, dtype=np.uint32)
    both(decoding(signed, mask, shift), {"x": x, "y": np.zeros(32, np.float32)})


@pytest.mark.parametrize("mask", [1, 7, 8, 10])
@pytest.mark.parametrize("form", FORMS)
def test_a_part_of_a_nibble_is_one_too(form, mask: int):
    kernel = decoding(form, mask)
    assert LOOK_UP in compile_kernel(kernel, X86_64_V4).text
    x = RNG.integers(0, 1 << 32, 32, dtype=np.uint32)
    both(kernel, {"x": x, "y": np.zeros(32, np.float32)})


def test_parts_of_one_nibble_meet_in_one_look_up():
    """Sign and magnitude of E2M1: simplification leaves `x & 7` of `(x & 15) & 7`."""
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", u32), p.tensor("y", f32, "inout")
    word = p.load(x, p.thread())
    sign = p.emit("shl", p.emit("and", word, p.const(8, u32)), p.const(28, u32))
    size = p.emit("shl", p.emit("and", word, p.const(7, u32)), p.const(22, u32))
    p.store(y, p.thread(), p.emit("bitcast", p.emit("or", sign, size), attrs=(f32,)))
    kernel = p.done()
    assert compile_kernel(kernel, X86_64_V4).text.count(LOOK_UP) == 2  # registers of 16 lanes
    x = RNG.integers(0, 1 << 32, 32, dtype=np.uint32)
    both(kernel, {"x": x, "y": np.zeros(32, np.float32)})


def test_two_nibbles_are_no_function_of_one():
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", u32), p.tensor("y", f32, "inout")
    word = p.load(x, p.thread())
    low = p.emit("and", word, p.const(15, u32))
    high = p.emit("and", p.emit("shr", word, p.const(4, u32)), p.const(15, u32))
    p.store(y, p.thread(), p.emit("mul", signed(p, low), signed(p, high)))
    kernel = p.done()
    assert compile_kernel(kernel, X86_64_V4).text.count(LOOK_UP) >= 4
    x = RNG.integers(0, 1 << 32, 32, dtype=np.uint32)
    both(kernel, {"x": x, "y": np.zeros(32, np.float32)})


@pytest.mark.parametrize("form", FORMS)
def test_a_barrier_parts_a_look_up_from_its_code(form):
    """What crosses the barrier is the number; the code before it is gone by then."""
    p = Handmade(threads=64, simd=32)
    x, y = p.tensor("x", u32), p.tensor("y", f32, "inout")
    t = p.thread()
    number = form(p, p.emit("and", p.load(x, t), p.const(15, u32)))
    p.b.emit_all("barrier")
    p.store(y, t, p.emit("add", number, p.const(0.25, f32)))
    x = RNG.integers(0, 1 << 32, 64, dtype=np.uint32)
    both(p.done(), {"x": x, "y": np.zeros(64, np.float32)})
