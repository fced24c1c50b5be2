"""Elementary functions: rows whose meaning is a body in IR, the same on every backend.

`truth` is the mathematical function in float64, against which the body's error is measured; no
row has a `ref`, so a constant operand is folded through the body and never through a library.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from iron.ir.table import OpDef, Trait, defop

BODY = Trait.PURE | Trait.ELEMENTWISE | Trait.EXPANDED


def _row(name: str, ulp: float, truth: Callable[..., Any], doc: str, operands: str = "x") -> OpDef:
    names = operands.split()
    sig = " ".join("T" * len(names)) + "->T"
    return defop(name, operands, sig=sig, kinds="f", traits=BODY, truth=truth, ulp=ulp, doc=doc)


_erf = np.vectorize(math.erf, otypes=[np.float64])

exp = _row("exp", 1.5, np.exp, "e to the x.")
exp2 = _row("exp2", 1.5, np.exp2, "2 to the x.")
expm1 = _row("expm1", 3.0, np.expm1, "e to the x, minus 1, exact near 0.")
log = _row("log", 1.5, np.log, "Natural logarithm; NaN below 0, -inf at 0.")
log2 = _row("log2", 2.0, np.log2, "Logarithm to base 2.")
log10 = _row("log10", 2.5, np.log10, "Logarithm to base 10.")
log1p = _row("log1p", 3.0, np.log1p, "Natural logarithm of 1 + x, exact near 0.")
sin = _row(
    "sin", 2.0, np.sin, "Sine of x radians, for |x| up to 2^20; larger arguments lose accuracy."
)
cos = _row("cos", 2.0, np.cos, "Cosine of x radians, for |x| up to 2^20.")
tan = _row("tan", 4.0, np.tan, "Tangent of x radians, for |x| up to 2^20.")
asin = _row("asin", 3.0, np.arcsin, "Inverse sine; NaN outside -1 to 1.")
acos = _row("acos", 3.0, np.arccos, "Inverse cosine; NaN outside -1 to 1.")
atan = _row("atan", 3.0, np.arctan, "Inverse tangent.")
atan2 = _row("atan2", 4.0, np.arctan2, "Angle of the point (b, a).", "a b")
sinh = _row("sinh", 4.0, np.sinh, "Hyperbolic sine.")
cosh = _row("cosh", 4.0, np.cosh, "Hyperbolic cosine.")
tanh = _row("tanh", 2.0, np.tanh, "Hyperbolic tangent.")
asinh = _row("asinh", 4.0, np.arcsinh, "Inverse hyperbolic sine.")
acosh = _row("acosh", 4.0, np.arccosh, "Inverse hyperbolic cosine; NaN below 1.")
atanh = _row("atanh", 4.0, np.arctanh, "Inverse hyperbolic tangent; NaN outside -1 to 1.")
erf = _row("erf", 3.0, _erf, "Error function.")
erfinv = _row("erfinv", 8.0, lambda y: _erfinv(y), "Inverse error function; NaN outside -1 to 1.")
pow_ = _row("pow", 16.0, np.power, "a to the b by the rules of C99 pow.", "a b")
rsqrt = _row("rsqrt", 1.5, lambda x: 1 / np.sqrt(x), "1 / sqrt(x).")
sigmoid = _row("sigmoid", 3.0, lambda x: 1 / (1 + np.exp(-x)), "1 / (1 + exp(-x)).")
fast_exp2 = _row("fast_exp2", 4.0, np.exp2, "2 to the x, with the target's approximation allowed.")
fast_rcp = _row("fast_rcp", 2.0, lambda x: 1 / x, "1 / x, with the target's approximation allowed.")
fast_rsqrt = _row(
    "fast_rsqrt",
    2.0,
    lambda x: 1 / np.sqrt(x),
    "1 / sqrt(x), with the target's approximation allowed.",
)


def _erfinv(y: Any) -> Any:
    """Inverse error function in float64 by bisection on `erf`, for accuracy tests only."""
    y = np.asarray(y, np.float64)
    low, high = np.full(y.shape, -6.0), np.full(y.shape, 6.0)
    for _ in range(80):
        middle = (low + high) / 2
        below = _erf(middle) < y
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    inside = np.where(np.abs(y) == 1, np.copysign(np.inf, y), (low + high) / 2)
    return np.where(np.abs(y) <= 1, inside, np.nan)
