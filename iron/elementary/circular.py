"""Sine, cosine and tangent: a polynomial each way, chosen by the quadrant.

The coefficients are minimax fits in r^2 for |r| up to 0.853, which is pi / 4 and the slack of
the reduction at its farthest.
"""

from __future__ import annotations

from iron.elementary.expression import Expr, polynomial, where
from iron.elementary.quadrant import reduced

# (sin r - r) / r^3, error below 2^-32
SIN = (2.78408720078005e-06, -0.00019848848751280457, 0.00833337102085352, -0.1666666716337204)
# (cos r - 1 + r^2 / 2) / r^4, error below 2^-32
COS = (2.4374236090807244e-05, -0.0013886780943721533, 0.04166663438081741)


def sin(x: Expr) -> Expr:
    """Sine of x radians at any size of x; NaN for infinities. The sign of 0 is kept."""
    s, c, quadrant = _both(x)
    return where(x.equals(0.0), x, _turned(s, c, quadrant))


def cos(x: Expr) -> Expr:
    """Cosine of x radians at any size of x; NaN for infinities."""
    s, c, quadrant = _both(x)
    return _turned(s, c, quadrant + 1)


def tan(x: Expr) -> Expr:
    """Tangent of x radians: s / c in even quadrants, -c / s in odd ones."""
    s, c, quadrant = _both(x)
    odd = (quadrant & 1).differs(0)
    ratio = where(odd, c, s) / where(odd, s, c)
    return where(x.equals(0.0), x, (ratio.ints() ^ (quadrant << 31)).float())


def _both(x: Expr) -> tuple[Expr, Expr, Expr]:
    r, tail, quadrant = reduced(x)
    z = r * r
    s = r + polynomial(z, *SIN).fma(r * z, tail)
    c = polynomial(z, *COS).fma(z * z, tail.fma(-r, z.fma(-0.5, 1.0)))
    return s, c, quadrant


def _turned(s: Expr, c: Expr, quadrant: Expr) -> Expr:
    value = where((quadrant & 1).differs(0), c, s)
    return (value.ints() ^ ((quadrant & 2) << 30)).float()
