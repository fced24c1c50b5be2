"""bf16 bits from f32: by the device's conversion where it rounds to nearest even, else many at
once by float instructions where its NaNs tell, or in integers.

The upper half of an f32 is its bf16, so the way back is a shift or a mask on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv.words import BFLOAT16, Capability, Code

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder
    from iron.backends.spirv.module import Module

EXTENSION = "SPV_KHR_bfloat16"
UPPER = 0xFFFF0000
FEWEST = 4
"""Numbers that are looked through at once for what needs care; fewer one by one."""


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
    if e.target.has("exact_bfloat"):
        return [_converted(e.m, low, high) for low, high in _by_twos(sources)]
    if e.target.has("split_bfloat") and len(sources) >= FEWEST:
        return _split(e, sources)
    return _in_integers(e.m, _quieted(e, sources))


def _by_twos(values: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(values[::2], values[1::2], strict=True)


def _converted(m: Module, low: int, high: int) -> int:
    m.need(Capability.BFloat16Type)
    m.extend(EXTENSION)
    half = m.once(Code.TypeFloat, 16, BFLOAT16)
    both = m.put(Code.CompositeConstruct, m.once(Code.TypeVector, m.f32, 2), low, high)
    narrow = m.put(Code.FConvert, m.once(Code.TypeVector, half, 2), both)
    return m.put(Code.Bitcast, m.u32, narrow)


def _in_integers(m: Module, sources: Sequence[int]) -> list[int]:
    """Words of the bf16 of numbers and quiet NaNs."""
    out: list[int] = []
    for low, high in _by_twos(sources):
        lower = m.op(Code.ShiftRightLogical, _rounded(m, low), m.number(16))
        upper = m.op(Code.BitwiseAnd, _rounded(m, high), m.number(UPPER))
        out.append(m.op(Code.BitwiseOr, upper, lower))
    return out


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
    total = _joined(m, Code.FAdd, sources)
    there = m.test(Code.FUnordNotEqual, total, total)
    return _instead(e, there, sources, lambda: [_quiet(m, x) for x in sources])


def _split(e: Encoder, sources: Sequence[int]) -> list[int]:
    """`words_of` by float instructions, of which GPUs have twice as many as of those on integers;
    in a branch in integers, for threads where that went wrong.

    With p = x (2^16 + 1) rounded, p - (p - x) has the 8 leading bits of x to nearest even (Veltkamp
    1968; Dekker 1971, doi:10.1007/BF01397083), so that its lower half is 0. It is not where bf16
    has fewer bits, below its normal numbers, nor, as `split_bfloat` says of a device, in the NaN
    that becomes of a NaN, an infinity, and what is too large for p.
    """
    m = e.m
    rounded = [m.put(Code.Bitcast, m.u32, _leading(m, x)) for x in sources]
    words: list[int] = []
    for low, high in _by_twos(rounded):
        words.append(m.op(Code.BitwiseOr, high, m.op(Code.ShiftRightLogical, low, m.number(16))))
    rest = m.op(Code.BitwiseAnd, _joined(m, Code.BitwiseOr, rounded), m.number(0xFFFF))
    wrong = m.test(Code.INotEqual, rest, m.number(0))
    return _instead(e, wrong, words, lambda: _in_integers(m, [_quiet(m, x) for x in sources]))


def _leading(m: Module, x: int) -> int:
    product = m.exact(m.op(Code.FMul, x, m.real(65537.0)))
    return m.exact(m.op(Code.FSub, product, m.exact(m.op(Code.FSub, product, x))))


def _joined(m: Module, code: Code, values: Sequence[int]) -> int:
    """The values under an operation whose order does not matter, by twos."""
    while len(values) > 1:
        values = [m.op(code, a, b) for a, b in _by_twos(values)]
    return values[0]


def _instead(
    e: Encoder, there: int, values: Sequence[int], write: Callable[[], list[int]]
) -> list[int]:
    """`values`, or what `write` makes in a branch for threads where `there` holds."""
    m = e.m
    before, inside, merge = e.here, m.fresh(), m.fresh()
    m.do(Code.SelectionMerge, merge, 0)
    m.do(Code.BranchConditional, there, inside, merge)
    e.label(inside)
    others = write()
    m.do(Code.Branch, merge)
    e.label(merge)
    pairs = zip(others, values, strict=True)
    return [m.put(Code.Phi, m.types[b], a, inside, b, before) for a, b in pairs]
