"""Logarithms and the inverse hyperbolic functions.

Every body writes its argument as 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and sums
log(1 + f) = f - f^2 / 2 + f^3 P(f) from the small terms to the large ones.
"""

from __future__ import annotations

from math import inf, nan

from iron.dtypes import f32
from iron.elementary.exponential import LN2_HIGH, LN2_LOW, LOG2_E, ONE_BITS
from iron.elementary.expression import Expr, polynomial, where

SQRT_HALF_BITS = 0x3F3504F3
EXPONENT_MASK = -0x800000
LEAST_NORMAL = 2.0**-126
LOG10_E = 0.4342944819032518
LOG10_2_HIGH = 0.301025390625
LOG10_2_LOW = 4.605039066518657e-06
FAR = 2.0**20  # from here on sqrt(x^2 + 1) is x

# (log(1 + f) - f + f^2 / 2) / f^3, error below 2^-29
LOG = (
    0.05319179221987724,
    -0.10904407501220703,
    0.12111909687519073,
    -0.12552112340927124,
    0.14209434390068054,
    -0.16659213602542877,
    0.20002225041389465,
    -0.2500016987323761,
    0.3333331346511841,
)


def log(x: Expr) -> Expr:
    """Natural logarithm; -inf at 0 and NaN below."""
    f, k = normalised(x)
    z = f * f
    small = z.fma(-0.5, k.fma(LN2_LOW, _cubic(f, z)))
    return _special(x, k.fma(LN2_HIGH, f + small))


def log2(x: Expr) -> Expr:
    """Logarithm to base 2, exact at powers of 2."""
    f, k = normalised(x)
    z = f * f
    small = z.fma(-0.5, _cubic(f, z))
    return _special(x, k + f.fma(LOG2_E, small * LOG2_E))


def log10(x: Expr) -> Expr:
    """Logarithm to base 10."""
    f, k = normalised(x)
    z = f * f
    small = z.fma(-0.5, _cubic(f, z))
    scaled = f.fma(LOG10_E, small.fma(LOG10_E, k * LOG10_2_LOW))
    return _special(x, k.fma(LOG10_2_HIGH, scaled))


def log1p(x: Expr) -> Expr:
    """log(1 + x): the rounding error of 1 + x is carried into the logarithm."""
    r = where((x + x).equals(x), x, _log_of_sum(x, x.constant(1.0)))
    return where(x > -1.0, r, where(x.equals(-1.0), x.constant(-inf), nan))


def asinh(x: Expr) -> Expr:
    """log1p(a + a^2 / (1 + sqrt(a^2 + 1))) with a = |x|, and log(2 a) far out."""
    a = abs(x)
    z = a * a
    grown = a + z / ((z + 1.0).sqrt() + 1.0)
    return where((a + a).equals(a), a, _log_of_grown(a, grown)).copysign(x)


def acosh(x: Expr) -> Expr:
    """log1p(t + sqrt(t (t + 2))) with t = x - 1, and log(2 x) far out; NaN below 1."""
    t = x - 1.0
    grown = t + (t * (t + 2.0)).sqrt()
    r = _log_of_grown(x, grown)
    return where(x < 1.0, nan, where(x.equals(inf), x, r))


def atanh(x: Expr) -> Expr:
    """log1p(2 a / (1 - a)) / 2 with a = |x|; infinite at 1 and NaN beyond."""
    a = abs(x)
    return (log1p((a + a) / (1.0 - a)) * 0.5).copysign(x)


def normalised(x: Expr) -> tuple[Expr, Expr]:
    """f and k with x = 2^k (1 + f), for any positive x."""
    tiny = x < LEAST_NORMAL
    bits = where(tiny, x * 2.0**23, x).ints()
    above = bits - SQRT_HALF_BITS
    k = (above >> 23) + where(tiny, bits.constant(-23), 0)
    return (bits - (above & EXPONENT_MASK)).float() - 1.0, k.to(f32)


def _cubic(f: Expr, z: Expr) -> Expr:
    return f * z * polynomial(f, *LOG)


def _special(x: Expr, r: Expr) -> Expr:
    r = where(x.equals(inf), x, r)
    return where(x > 0.0, r, where(x.equals(0.0), x.constant(-inf), nan))


def _log_of_grown(a: Expr, grown: Expr) -> Expr:
    """log(1 + grown), or log(2 a) where a is so large that grown is 2 a."""
    far = a > FAR
    big, small = where(far, a, grown), where(far, a.constant(0.0), 1.0)
    return _log_of_sum(big, small, where(far, a.constant(1.0), 0.0))


def _log_of_sum(x: Expr, y: Expr, more: Expr | None = None) -> Expr:
    """log(x + y) + more ln 2 for a sum of at least 2^-24, with the sum's rounding error."""
    total = x + y
    lost = x.at_most(y) - (total - x.at_least(y))
    bits = total.ints()
    above = bits - SQRT_HALF_BITS
    e = above >> 23
    shrink = ONE_BITS - (e.at_most(127) << 23)
    m = (bits - (above & EXPONENT_MASK)).float()
    f = lost.fma(shrink.float(), m - 1.0)
    k = e.to(f32) if more is None else e.to(f32) + more
    z = f * f
    small = z.fma(-0.5, k.fma(LN2_LOW, _cubic(f, z)))
    return k.fma(LN2_HIGH, f + small)
