"""Inverse circular functions: odd minimax polynomials after folding the range."""

from __future__ import annotations

from iron.elementary.expression import Expr, polynomial, where

HALF_PI_HIGH, HALF_PI_LOW = 1.5707963705062866, -4.371138828673793e-08
PI_HIGH, PI_LOW = 3.1415927410125732, -8.742277657347586e-08

# (asin x - x) / x^3 in x^2 up to 1/4, error below 2^-31
ASIN = (
    0.037673164159059525,
    0.014329181052744389,
    0.03183605521917343,
    0.04451363533735275,
    0.07500521093606949,
    0.16666659712791443,
)
# (atan x - x) / x^3 in x^2 up to 1, error below 2^-28
ATAN = (
    -0.0017828490817919374,
    0.010868982411921024,
    -0.031097622588276863,
    0.0578819140791893,
    -0.08399323374032974,
    0.10950881987810135,
    -0.14264015853405,
    0.1999852955341339,
    -0.33333298563957214,
)


def asin(x: Expr) -> Expr:
    """Inverse sine: above 1/2 it is pi / 2 - 2 asin(sqrt((1 - |x|) / 2))."""
    a = abs(x)
    far, s, rest = _arc(a)
    folded = s.fma(-2.0, HALF_PI_HIGH) + rest.fma(-2.0, HALF_PI_LOW)
    return where(far, folded, s + rest).copysign(x)


def acos(x: Expr) -> Expr:
    """Inverse cosine: 2 asin(sqrt((1 - |x|) / 2)) above 1/2, pi minus that below -1/2."""
    far, s, rest = _arc(abs(x))
    near = HALF_PI_HIGH - (s.copysign(x) + (rest.copysign(x) - HALF_PI_LOW))
    left = s.fma(-2.0, PI_HIGH) + rest.fma(-2.0, PI_LOW)
    right = s + rest
    return where(far, where(x < 0.0, left, right + right), near)


def _arc(a: Expr) -> tuple[Expr, Expr, Expr]:
    """Whether a > 1/2, and asin(s) as s + rest for s = a or sqrt((1 - a) / 2)."""
    far = a > 0.5
    z = where(far, (1.0 - a) * 0.5, a * a)
    s = where(far, z.sqrt(), a)
    return far, s, polynomial(z, *ASIN) * (s * z)


def atan(x: Expr) -> Expr:
    """Inverse tangent: above 1 it is pi / 2 - atan(1 / |x|)."""
    a = abs(x)
    far = a > 1.0
    q = where(far, 1.0 / a, a)
    rest = _rest(q)
    return where(far, HALF_PI_HIGH - (q + (rest - HALF_PI_LOW)), q + rest).copysign(x)


def atan2(y: Expr, x: Expr) -> Expr:
    """Angle of (x, y): atan of the lesser over the greater, folded by octants."""
    a, b = abs(y), abs(x)
    low, high = a.at_most(b), a.at_least(b)
    even = where(high.equals(0.0), low, 1.0)
    q = where(low.equals(high), even, low / high)
    rest = _rest(q)
    steep = where(a > b, HALF_PI_HIGH - (q + (rest - HALF_PI_LOW)), q + rest)
    behind = PI_HIGH - (steep - PI_LOW)
    return where(x.ints() < 0, behind, steep).copysign(y)


def _rest(q: Expr) -> Expr:
    """atan(q) - q for 0 <= q <= 1."""
    z = q * q
    return polynomial(z, *ATAN) * (q * z)
