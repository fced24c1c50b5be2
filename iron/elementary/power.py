"""Powers and reciprocal roots."""

from __future__ import annotations

from math import inf, nan

from iron.elementary.exponential import EXP2, LOG2_E, MAGIC, scaled
from iron.elementary.expression import Expr, polynomial, where
from iron.elementary.logarithm import normalised

LOG2_E_REST = 1.925963033500011e-08  # of log2(e) beyond its nearest f32

# (atanh q - q) / q^3 in q^2 up to 0.0295, error below 2^-35
ATANH = (0.12139428406953812, 0.14249396324157715, 0.20000486075878143, 0.3333333134651184)


def rsqrt(x: Expr) -> Expr:
    """1 / sqrt(x), both steps correctly rounded."""
    return 1.0 / x.sqrt()


def reciprocal(x: Expr) -> Expr:
    """1 / x, correctly rounded."""
    return 1.0 / x


def pow(x: Expr, y: Expr) -> Expr:
    """x to the y = 2^(y log2 |x|) with the logarithm in two parts, by the rules of C99."""
    a = abs(x)
    high, low = _log2(a)
    r = _exp2_of_product(y, high, low)
    whole = y.op("floor").equals(y)
    half = y * 0.5
    odd = whole & half.op("floor").differs(half)
    r = where((x.ints() < 0) & odd, -r, r)
    wrong = (x < 0.0) & (a < inf) & y.op("floor").differs(y)
    r = where(wrong | x.differs(x) | y.differs(y), nan, r)
    unit = y.equals(0.0) | x.equals(1.0) | (x.equals(-1.0) & abs(y).equals(inf))
    return where(unit, 1.0, r)


def _log2(a: Expr) -> tuple[Expr, Expr]:
    """log2(a) as a sum of two, from 2 atanh(q) with q = f / (2 + f)."""
    f, k = normalised(a)
    d = f + 2.0
    d_rest = f - (d - 2.0)
    q = f / d
    q_rest = ((-q).fma(d, f) - q * d_rest) / d
    s = q * q
    main = q + q
    rest = q_rest + q_rest
    rest = (polynomial(s, *ATANH) * s).fma(main, rest)
    high = main * LOG2_E
    low = main.fma(LOG2_E, -high)
    low = rest.fma(LOG2_E, main.fma(LOG2_E_REST, low))
    total = k + high
    low = low + (high - (total - k))
    high = total + low
    low = low - (high - total)
    return where(a.equals(0.0), -inf, where(a.equals(inf), a, high)), low


def _exp2_of_product(y: Expr, high: Expr, low: Expr) -> Expr:
    """2 to the y (high + low), over the full range."""
    product = y * high
    rest = y.fma(low, y.fma(high, -product))
    inside = abs(product) < 160.0
    z = product.at_least(-160.0).at_most(130.0)
    shifted = z + MAGIC
    r = (z - (shifted - MAGIC)) + where(inside, rest, 0.0)
    return scaled(r.fma(polynomial(r, *EXP2), 1.0), shifted.ints())
