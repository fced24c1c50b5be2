"""The error function and its inverse."""

from __future__ import annotations

from math import inf

from iron.elementary.exponential import exp
from iron.elementary.expression import Expr, polynomial, where
from iron.elementary.logarithm import log

SPLIT = 0.921875

# erf(x) / x - 1 in x^2 up to 0.86, error below 2^-30
ERF = (
    7.969663420226425e-05,
    -0.0008043839479796588,
    0.005191947799175978,
    -0.02685558795928955,
    0.11283624172210693,
    -0.3761262893676758,
    0.12837916612625122,
)
# (log(erfc t) + t) / t for 0.91 < t < 3.95, error of erf below 2^-30
ERFC = (
    -1.0841388757398818e-05,
    0.00031890609534457326,
    -0.003626637626439333,
    0.023728670552372932,
    -0.10619820654392242,
    -0.6351746320724487,
    -0.12864276766777039,
)
# erfinv(y) / y in w - 5/2 for w = -log(1 - y^2) up to 5, and in sqrt(w) - 3 beyond; the error is
# below 2^-23 (the form is that of M. Giles, Approximating the erfinv function, 2010)
CENTRE = (
    2.8006800434354773e-08,
    3.4364117595941934e-07,
    -3.522199449434993e-06,
    -4.395834366732743e-06,
    0.00021857584943063557,
    -0.0012537104776129127,
    -0.004177674185484648,
    0.24664072692394257,
    1.5014094114303589,
)
TAIL = (
    -0.0001645297306822613,
    8.51025470183231e-05,
    0.0012991749681532383,
    -0.0036590134259313345,
    0.005762220360338688,
    -0.007625664118677378,
    0.009435558691620827,
    1.0016741752624512,
    2.832977056503296,
)


def erf(x: Expr) -> Expr:
    """x (1 + P(x^2)) below 0.92, else 1 - exp(t Q(t) - t) with t = |x|."""
    z = x * x
    near = polynomial(z, *ERF).fma(x, x)
    a = abs(x)
    t = a.at_most(4.0)
    far = 1.0 - exp(polynomial(t, *ERFC).fma(t, -t))
    return where(a > SPLIT, far.copysign(x), near)


def erfinv(y: Expr) -> Expr:
    """y P(w) with w = -log(1 - y^2), by one of two polynomials; infinite at 1, NaN beyond."""
    w = -log((-y).fma(y, 1.0))
    centre = w < 5.0
    t = where(centre, w - 2.5, w.sqrt() - 3.0)
    total = where(centre, y.constant(CENTRE[0]), TAIL[0])
    for c, d in zip(CENTRE[1:], TAIL[1:], strict=True):
        total = total.fma(t, where(centre, y.constant(c), d))
    return where(abs(y).equals(1.0), y * inf, total * y)
