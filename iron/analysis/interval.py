"""Sets of integers as bounds and a congruence, with the arithmetic of exact integers on them."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from iron.dtypes import DType


@dataclass(frozen=True, slots=True)
class Range:
    """The integers from `low` to `high` that are `residue` modulo `modulus` (0: just that one)."""

    low: int
    high: int
    modulus: int = 1
    residue: int = 0

    @property
    def constant(self) -> int | None:
        """The only member, if there is one."""
        return self.low if self.low == self.high else None

    def multiple_of(self, n: int) -> bool:
        """True when every member is a multiple of `n` >= 1."""
        return self.modulus % n == 0 and self.residue % n == 0

    def within(self, low: int, high: int) -> bool:
        """True when every member lies from `low` to `high`."""
        return low <= self.low and self.high <= high

    def below(self, other: Range) -> bool:
        """True when every member is less than every member of `other`."""
        return self.high < other.low

    def apart(self, other: Range) -> bool:
        """True when the two share no member."""
        if self.below(other) or other.below(self):
            return True
        shared = gcd(self.modulus, other.modulus)
        difference = self.residue - other.residue
        return difference % shared != 0 if shared else difference != 0


def exactly(n: int) -> Range:
    """Just `n`."""
    return Range(n, n, 0, n)


def between(low: int, high: int, modulus: int = 1, residue: int = 0) -> Range:
    """The members of a congruence from `low` to `high`, bounds tightened; never empty."""
    if modulus > 1:
        first = low + (residue - low) % modulus
        last = high - (high - residue) % modulus
        if first <= last:
            low, high, residue = first, last, residue % modulus
        else:
            modulus, residue = 1, 0
    elif modulus == 0 and low <= residue <= high:
        low = high = residue
    else:
        modulus, residue = 1, 0
    return exactly(low) if low == high else Range(low, high, modulus, residue)


def bounds(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type or of bool (0 and 1)."""
    return (0, 1) if dtype.kind == "b" else (dtype.min, dtype.max)


def everything(dtype: DType) -> Range:
    """All values of an integer type or of bool."""
    return Range(*bounds(dtype))


def wrapped(a: Range, dtype: DType) -> Range:
    """What is left of `a` in `dtype`: itself where it fits, else all values of its congruence."""
    low, high = bounds(dtype)
    if a.within(low, high):
        return a
    return between(low, high, gcd(a.modulus, 1 << dtype.bits), a.residue)


def join(a: Range, b: Range) -> Range:
    """The least range that holds both."""
    modulus = gcd(a.modulus, b.modulus, a.residue - b.residue)
    return between(min(a.low, b.low), max(a.high, b.high), modulus, a.residue)


def meet(a: Range, b: Range) -> Range:
    """A range that holds what both share; `a` when that is nothing (unreachable code)."""
    low, high = max(a.low, b.low), min(a.high, b.high)
    if low > high or a.apart(b):
        return a
    finer = a
    if a.modulus and (b.modulus == 0 or b.modulus % a.modulus == 0 or b.modulus > a.modulus):
        finer = b
    return between(low, high, finer.modulus, finer.residue)


def add(a: Range, b: Range) -> Range:
    """a + b."""
    modulus = gcd(a.modulus, b.modulus)
    return between(a.low + b.low, a.high + b.high, modulus, a.residue + b.residue)


def neg(a: Range) -> Range:
    """-a."""
    return between(-a.high, -a.low, a.modulus, -a.residue)


def sub(a: Range, b: Range) -> Range:
    """a - b."""
    return add(a, neg(b))


def mul(a: Range, b: Range) -> Range:
    """a * b."""
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    modulus = gcd(a.modulus * b.modulus, a.modulus * b.residue, b.modulus * a.residue)
    return between(min(corners), max(corners), modulus, a.residue * b.residue)


def floordiv(a: Range, b: Range) -> Range:
    """a // b; 0 where b is 0."""
    by = b.constant
    if by:
        ends = (a.low // by, a.high // by)
        if a.modulus % by == 0:
            return between(min(ends), max(ends), abs(a.modulus // by), a.residue // by)
        return between(min(ends), max(ends))
    divisors = {d for d in (b.low, b.high, -1, 1) if d and b.low <= d <= b.high}
    quotients = [x // d for x in (a.low, a.high) for d in divisors]
    if b.low <= 0 <= b.high:
        quotients.append(0)
    return between(min(quotients), max(quotients))


def mod(a: Range, b: Range) -> Range:
    """a % b with the sign of b; 0 where b is 0."""
    by = b.constant
    if by is not None and by > 0:
        if a.within(0, by - 1):
            return a
        shared = gcd(a.modulus, by)
        if a.low // by == a.high // by:
            start = a.low // by * by
            return between(a.low - start, a.high - start, shared, a.residue - start)
        return between(0, by - 1, shared, a.residue)
    low, high = min(0, b.low + 1), max(0, b.high - 1)
    if a.low >= 0 and b.low >= 0:
        high = min(high, a.high)
    shared = gcd(a.modulus, b.modulus, b.residue)  # a - q b, or 0 where b is 0
    if shared > 1 and (a.residue % shared == 0 or b.low > 0 or b.high < 0):
        return between(low, high, shared, a.residue)
    return between(low, high)


def minimum(a: Range, b: Range) -> Range:
    """The lesser of the two."""
    if a.high <= b.low:
        return a
    if b.high <= a.low:
        return b
    both = join(a, b)
    return between(both.low, min(a.high, b.high), both.modulus, both.residue)


def maximum(a: Range, b: Range) -> Range:
    """The greater of the two."""
    return neg(minimum(neg(a), neg(b)))


def magnitude(a: Range) -> Range:
    """|a|."""
    return a if a.low >= 0 else maximum(a, neg(a)) if a.high > 0 else neg(a)


def bit_and(a: Range, b: Range) -> Range:
    """a & b."""
    for mask, other in ((b.constant, a), (a.constant, b)):
        if mask is None:
            continue
        if mask >= 0 and mask & (mask + 1) == 0:
            return mod(other, exactly(mask + 1))
        if mask < 0 and -mask & (-mask - 1) == 0:
            step = -mask
            return between(other.low // step * step, other.high // step * step, step, 0)
    if a.low < 0 and b.low < 0:
        return between(-(1 << max(-a.low, -b.low).bit_length()), max(a.high, b.high, -1))
    return between(0, min(r.high for r in (a, b) if r.low >= 0))


def bit_or(a: Range, b: Range) -> Range:
    """a | b."""
    either = bit_xor(a, b)
    return between(max(a.low, b.low), either.high) if either.low == 0 else either


def bit_xor(a: Range, b: Range) -> Range:
    """a ^ b."""
    bits = max(abs(v).bit_length() for v in (a.low, a.high, b.low, b.high))
    return between(0 if a.low >= 0 and b.low >= 0 else -(1 << bits), (1 << bits) - 1)


def shift_left(a: Range, b: Range, bits: int) -> Range | None:
    """a << b for a constant count; None for another."""
    by = b.constant
    return None if by is None else mul(a, exactly(1 << by % bits))


def shift_right(a: Range, b: Range, bits: int) -> Range:
    """a >> b."""
    by = b.constant
    if by is not None:
        return floordiv(a, exactly(1 << by % bits))
    return between(min(a.low, 0), max(a.high, -1 if a.low < 0 else 0))
