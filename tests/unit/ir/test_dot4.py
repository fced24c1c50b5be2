"""Products of bytes: the row's meaning against Python integers, its folding and its refusals."""

import numpy as np
import pytest

from iron.dtypes import DType, f32, i32, i64, u32
from iron.ir import scalar
from iron.ir.core import const_of, is_const
from iron.ir.interp import run
from iron.ir.table import OpTypeError
from iron.ir.types import vector
from iron.ir.verify import verify
from tests.unit.ir.handmade import Handmade

PAIRS = [(a, b) for a in (u32, i32) for b in (u32, i32)]
EDGES = [0, 1, 0x7F, 0x80, 0x81, 0xFF, 0x80808080, 0x7F7F7F7F, 0xFFFFFFFF, 0x80FF7F01, 0xDEADBEEF]


def dot4(a: int, b: int, c: int, signed: tuple[bool, bool]) -> int:
    """The formula on Python integers; a and b are the bits of words."""
    total = c
    for j in range(4):
        bytes_ = [w >> 8 * j & 255 for w in (a, b)]
        x, y = (v - 256 if s and v > 127 else v for v, s in zip(bytes_, signed, strict=True))
        total += x * y
    return (total + 2**31) % 2**32 - 2**31


def bits(words: list[int], t: DType) -> np.ndarray:
    return np.array(words, np.uint32).view(t.np)


def columns(a: DType, b: DType) -> tuple[list[np.ndarray], np.ndarray]:
    """Edge words and random ones with sums near the ends of i32; the operands and the truth."""
    rng = np.random.default_rng(7)
    random = [int(w) for w in rng.integers(0, 2**32, 200)]
    words = [(x, y) for x in EDGES for y in EDGES] + list(
        zip(random[::2], random[1::2], strict=True)
    )
    sums = [int(s) for s in rng.choice([0, 1, -1, 2**31 - 1, -(2**31), 12345], len(words))]
    signed = (a is i32, b is i32)
    want = [dot4(x, y, s, signed) for (x, y), s in zip(words, sums, strict=True)]
    first, second = ([w[k] for w in words] for k in (0, 1))
    return [bits(first, a), bits(second, b), np.array(sums, np.int32)], np.array(want, np.int32)


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
def test_the_meaning(a: DType, b: DType):
    given, want = columns(a, b)
    np.testing.assert_array_equal(scalar.dot4(*given), want)
    for x, y, c, r in list(zip(*given, want, strict=True))[::17]:
        assert scalar.dot4(x, y, c) == r


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
def test_the_interpreter(a: DType, b: DType):
    given, want = columns(a, b)
    p = Handmade(threads=1)
    inputs = [p.tensor(n, t) for n, t in (("a", a), ("b", b), ("c", i32))]
    y, at = p.tensor("y", i32, "out"), p.group()
    p.store(y, at, p.emit("dot4", *(p.load(x, at) for x in inputs)))
    kernel, out = p.done(), np.zeros_like(want)
    verify(kernel)
    run(kernel, dict(zip("abcy", (*given, out), strict=True)), {}, {}, (len(want),))
    np.testing.assert_array_equal(out, want)


def test_constants_fold():
    p = Handmade()
    made = p.emit("dot4", p.const(0x80FF0102, u32), p.const(-1, i32), p.const(5, i32))
    assert is_const(made)
    assert const_of(made) == 5 - (0x80 + 0xFF + 1 + 2)


@pytest.mark.parametrize(
    "types",
    [(f32, i32, i32), (i32, i64, i32), (u32, i32, u32), (vector(i32, 2), i32, i32), (i32, i32)],
)
def test_other_operands_are_refused(types: tuple):
    p = Handmade()
    with pytest.raises(OpTypeError):
        p.emit("dot4", *(p.const(0, t) for t in types))
