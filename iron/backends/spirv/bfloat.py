"""bf16 bits from f32: by the device's conversion where it rounds to nearest even, or in integers.

The upper half of an f32 is its bf16, so the way back is a shift or a mask on every device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv.words import BFLOAT16, Capability, Code

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder
    from iron.backends.spirv.module import Module

EXTENSION = "SPV_KHR_bfloat16"
UPPER = 0xFFFF0000
FEWEST = 4
"""Numbers that are looked through for a NaN at once; fewer one by one."""


def to_f32(m: Module, bits: int) -> int:
    """The f32 of bf16 bits in a word; exact."""
    return m.put(Code.Bitcast, m.f32, m.op(Code.ShiftLeftLogical, bits, m.number(16)))


def half_to_f32(m: Module, word: int, half: int) -> int:
    """The f32 of the bf16 in the lower or upper half of a word."""
    if not half:
        return to_f32(m, word)
    return m.put(Code.Bitcast, m.f32, m.op(Code.BitwiseAnd, word, m.number(UPPER)))


def from_f32(e: Encoder, x: int) -> int:
    """The bf16 bits of an f32 in a word, rounded to nearest even; NaN stays one."""
    m = e.m
    if e.target.has("exact_bfloat"):
        return _converted(m, x, m.real(0.0))
    return m.op(Code.ShiftRightLogical, _rounded(m, _quiet(m, x)), m.number(16))


def words_of(e: Encoder, sources: Sequence[int]) -> list[int]:
    """Words of the bf16 of f32, two in each, the first lower."""
    m = e.m
    if not e.target.has("exact_bfloat"):
        sources = _quieted(e, sources)
    out: list[int] = []
    for low, high in zip(sources[::2], sources[1::2], strict=True):
        if e.target.has("exact_bfloat"):
            out.append(_converted(m, low, high))
            continue
        lower = m.op(Code.ShiftRightLogical, _rounded(m, low), m.number(16))
        upper = m.op(Code.BitwiseAnd, _rounded(m, high), m.number(UPPER))
        out.append(m.op(Code.BitwiseOr, upper, lower))
    return out


def _converted(m: Module, low: int, high: int) -> int:
    m.need(Capability.BFloat16Type)
    m.extend(EXTENSION)
    half = m.once(Code.TypeFloat, 16, BFLOAT16)
    both = m.put(Code.CompositeConstruct, m.once(Code.TypeVector, m.f32, 2), low, high)
    narrow = m.put(Code.FConvert, m.once(Code.TypeVector, half, 2), both)
    return m.put(Code.Bitcast, m.u32, narrow)


def _rounded(m: Module, x: int) -> int:
    """The bits of x, of which the upper half is the bf16; x is a number or the quiet NaN."""
    bits = m.put(Code.Bitcast, m.u32, x)
    odd = m.op(Code.BitwiseAnd, m.op(Code.ShiftRightLogical, bits, m.number(16)), m.number(1))
    return m.op(Code.IAdd, m.op(Code.IAdd, bits, m.number(0x7FFF)), odd)


def _quiet(m: Module, x: int) -> int:
    """x, or where it is NaN the one whose bits do not overflow when they are rounded."""
    return m.select(m.test(Code.FUnordNotEqual, x, x), m.real(float("nan")), x)


def _quieted(e: Encoder, sources: Sequence[int]) -> Sequence[int]:
    """`_quiet` of each, in a branch for threads that have a NaN: their sum is one too."""
    m = e.m
    if len(sources) < FEWEST:
        return [_quiet(m, x) for x in sources]
    sums = list(sources)
    while len(sums) > 1:
        sums = [m.op(Code.FAdd, a, b) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    before, inside, merge = e.here, m.fresh(), m.fresh()
    there = m.test(Code.FUnordNotEqual, sums[0], sums[0])
    m.do(Code.SelectionMerge, merge, 0)
    m.do(Code.BranchConditional, there, inside, merge)
    e.label(inside)
    quiet = [_quiet(m, x) for x in sources]
    m.do(Code.Branch, merge)
    e.label(merge)
    pairs = zip(quiet, sources, strict=True)
    return [m.put(Code.Phi, m.f32, a, inside, b, before) for a, b in pairs]
