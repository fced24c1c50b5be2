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

exp = _row("exp", 1.05, np.exp, "e to the x.")
exp2 = _row("exp2", 0.85, np.exp2, "2 to the x.")
expm1 = _row("expm1", 1.6, np.expm1, "e to the x, minus 1, exact near 0.")
log = _row("log", 0.85, np.log, "Natural logarithm; NaN below 0, -inf at 0.")
log2 = _row("log2", 1.2, np.log2, "Logarithm to base 2.")
log10 = _row("log10", 1.25, np.log10, "Logarithm to base 10.")
log1p = _row("log1p", 1.5, np.log1p, "Natural logarithm of 1 + x, exact near 0.")
sin = _row("sin", 1.6, np.sin, "Sine of x radians, at any size of x.")
cos = _row("cos", 1.6, np.cos, "Cosine of x radians, at any size of x.")
tan = _row("tan", 3.3, np.tan, "Tangent of x radians, at any size of x.")
asin = _row("asin", 2.2, np.arcsin, "Inverse sine; NaN outside -1 to 1.")
acos = _row("acos", 1.25, np.arccos, "Inverse cosine; NaN outside -1 to 1.")
atan = _row("atan", 1.25, np.arctan, "Inverse tangent.")
atan2 = _row("atan2", 1.6, np.arctan2, "Angle of the point (b, a).", "a b")
sinh = _row("sinh", 1.75, np.sinh, "Hyperbolic sine.")
cosh = _row("cosh", 1.5, np.cosh, "Hyperbolic cosine.")
tanh = _row("tanh", 1.4, np.tanh, "Hyperbolic tangent.")
asinh = _row("asinh", 1.9, np.arcsinh, "Inverse hyperbolic sine.")
acosh = _row("acosh", 2.3, np.arccosh, "Inverse hyperbolic cosine; NaN below 1.")
atanh = _row("atanh", 2.2, np.arctanh, "Inverse hyperbolic tangent; NaN outside -1 to 1.")
erf = _row("erf", 1.1, _erf, "Error function.")
erfinv = _row("erfinv", 3.5, lambda y: _erfinv(y), "Inverse error function; NaN outside -1 to 1.")
pow_ = _row("pow", 4.5, np.power, "a to the b by the rules of C99 pow.", "a b")
rsqrt = _row("rsqrt", 1.5, lambda x: 1 / np.sqrt(x), "1 / sqrt(x).")
sigmoid = _row("sigmoid", 2.5, lambda x: 1 / (1 + np.exp(-x)), "1 / (1 + exp(-x)).")
fast_exp2 = _row(
    "fast_exp2",
    4.0,
    np.exp2,
    "2 to the x, with the target's approximation allowed; a result below 2^-125 may be 0.",
)
fast_rcp = _row(
    "fast_rcp",
    2.0,
    lambda x: 1 / x,
    "1 / x, with the target's approximation allowed; below 2^-126, x and the result may be 0.",
)
fast_rsqrt = _row(
    "fast_rsqrt",
    2.0,
    lambda x: 1 / np.sqrt(x),
    "1 / sqrt(x), with the target's approximation allowed; an x below 2^-126 may be 0.",
)


def _erfinv(y: Any) -> Any:
    """Inverse error function in float64 by Halley's steps on `erf`, for accuracy tests only."""
    y = np.asarray(y, np.float64)
    a = np.where(np.abs(y) < 1, np.abs(y), 0.5)
    w = np.log1p(-a * a)
    t = 2 / (np.pi * 0.147) + w / 2
    x = np.sqrt(np.maximum(np.sqrt(t * t - w / 0.147) - t, 0))
    x = np.where(a < 1e-3, a * np.sqrt(np.pi) / 2, x)
    for _ in range(4):
        step = (_erf(x) - a) * np.sqrt(np.pi) / 2 * np.exp(x * x)
        x = x - step / (1 + x * step)
    inside = np.where(np.abs(y) == 1, np.inf, x)
    return np.copysign(np.where(np.abs(y) <= 1, inside, np.nan), y)
