"""One function of each element:  y[i] = OP(x[i]).

Source: IEEE 754-2019 (9.2) and ISO C (7.12) for the named functions; gelu, Hendrycks and Gimpel
2016 (arXiv:1606.08415); silu, Elfwing et al. 2017 (arXiv:1702.03118).
"""

import math

import numpy as np

from iron.kernels import activation
from iron.lang import ELT, Const, In, Out, Scalar, absolute, acos, acosh, asin, asinh, atan, atanh
from iron.lang import bf16, ceil, cos, cosh, dims, dtypes, each, erf, erfinv, exp, exp2, expm1, f16
from iron.lang import f32, fast_exp2, fast_rcp, fast_rsqrt, floor, inline, kernel, log, log1p, log2
from iron.lang import log10, rint, rsqrt, sigmoid, sign, sin, sinh, sqrt, tan, tanh, trunc, where

(N,) = dims("N")
T = dtypes("T", f32, f16, bf16)


@inline
def neg(x):
    return -x


@inline
def square(x):
    return x * x


@inline
def recip(x):
    return 1.0 / x


@inline
def logical_not(x):
    return where(x == 0.0, 1.0, 0.0)


BODIES = (
    ("abs", absolute), ("neg", neg), ("sign", sign), ("square", square), ("sqrt", sqrt),
    ("rsqrt", rsqrt), ("recip", recip), ("exp", exp), ("exp2", exp2), ("expm1", expm1),
    ("log", log), ("log2", log2), ("log10", log10), ("log1p", log1p), ("sin", sin), ("cos", cos),
    ("tan", tan), ("asin", asin), ("acos", acos), ("atan", atan), ("sinh", sinh), ("cosh", cosh),
    ("tanh", tanh), ("asinh", asinh), ("acosh", acosh), ("atanh", atanh), ("ceil", ceil),
    ("floor", floor), ("round", rint), ("trunc", trunc), ("erf", erf), ("erfinv", erfinv),
    ("sigmoid", sigmoid), ("silu", activation.silu), ("softplus", activation.softplus),
    ("relu", activation.relu), ("relu2", activation.relu2), ("gelu_erf", activation.gelu_erf),
    ("gelu_tanh", activation.gelu_tanh), ("gelu_quick", activation.gelu_quick),
    ("logical_not", logical_not),
)  # fmt: skip
OPS = [*(name for name, _ in BODIES), "leaky_relu"]
FAST = (
    ("rsqrt", fast_rsqrt), ("recip", fast_rcp), ("exp", activation.fast_exp), ("exp2", fast_exp2),
    ("sigmoid", activation.fast_sigmoid), ("silu", activation.fast_silu),
    ("gelu_tanh", activation.fast_gelu_tanh), ("gelu_quick", activation.fast_gelu_quick),
)  # fmt: skip


def body_of(op, math):
    """The function called `op`; in its fast form, where it has one, if `math` says so."""
    bodies = (*FAST, *BODIES) if math == "fast" else BODIES
    return next(body for name, body in bodies if name == op)


@kernel(variants={"OP": OPS})
def unary(
    x: In[T, N],
    y: Out[T, N],
    slope: Scalar[f32] = 0.01,
    *,
    OP: Const,
    MATH: Const = lambda T: activation.math_of(T),
):
    """One thread per element, in f32. `slope` is that of leaky_relu below 0.

    MATH is `precise`, or `fast`: the functions of `FAST` within 2e-5 of themselves, which is below
    the rounding of a 16-bit T, and 0 for what is below 2^-125.
    """
    (i,) = each(N)
    value = x[i].to(f32)
    if OP == "leaky_relu":
        y[i] = where(value < 0.0, slope * value, value).to(T)
    else:
        y[i] = body_of(OP, MATH)(value).to(T)


def gelu(x, inner):
    """x times the part of a normal distribution below it, by the given approximation."""
    return 0.5 * x * (1 + inner)


FORMULAS = {
    "abs": np.abs, "neg": np.negative, "sign": np.sign, "square": np.square, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "recip": lambda x: 1 / x, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "ceil": np.ceil, "floor": np.floor,
    "round": np.rint, "trunc": np.trunc, "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, 0), "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2, "gelu_quick": lambda x: x / (1 + np.exp(-1.702 * x)),
    "gelu_erf": lambda x: gelu(x, np.vectorize(math.erf, otypes=[np.float64])(x / np.sqrt(2))),
    "gelu_tanh": lambda x: gelu(x, np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "logical_not": lambda x: (x == 0).astype(np.float64),
}  # fmt: skip


@unary.oracle
def _(x, slope, OP):
    if OP == "leaky_relu":
        y = np.where(x < 0, slope * x, x)
    elif OP == "erfinv":
        y = inverse_erf(x)
    else:
        y = FORMULAS[OP](x)
    scale = np.maximum(np.abs(y), np.abs(x)) if OP.startswith("gelu") else np.abs(y)
    return {"y": y}, {"y": np.where(np.isfinite(scale), scale, 0)}


def inverse_erf(y):
    """The inverse error function by bisection."""
    low, high = np.full(np.shape(y), -7.0), np.full(np.shape(y), 7.0)
    for _ in range(100):
        middle = (low + high) / 2
        below = np.vectorize(math.erf, otypes=[np.float64])(middle) < y
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(y == 0, 0.0, (low + high) / 2)


LOW = {
    "sqrt": 0.0, "rsqrt": 0.01, "log": 0.01, "log2": 0.01, "log10": 0.01, "log1p": -0.9,
    "tanh": -3.0,
    "erf": -2.0,
    "asin": -1.0, "acos": -1.0, "atanh": -0.99, "erfinv": -0.99, "acosh": 1.0, "recip": 0.1,
}  # fmt: skip
HIGH = {"tanh": 3.0, "erf": 2.0, "asin": 1.0, "acos": 1.0, "atanh": 0.99, "erfinv": 0.99}


@unary.case(N=[33, 1028], T=[f32], tol=ELT)
def _(rng, N, OP):
    x = rng.distinct(N, low=LOW.get(OP, -9.0), high=HIGH.get(OP, 9.0))
    return {"x": np.maximum(x, 0) if OP == "logical_not" else x}


@unary.case(N=[33, 1028], T=[f16, bf16], OP=["neg", "gelu_erf"], tol=ELT)
def _(rng, N):
    return {"x": rng.distinct(N, low=-3.0, high=3.0)}


@unary.case(
    N=[33, 1028], T=[f16, bf16], OP=["exp", "silu"], MATH=["precise", "fast"], tol=ELT.fast()
)
def _(rng, N):
    return {"x": rng.distinct(N, low=-3.0, high=3.0)}


@unary.case(N=[33], T=[f32], OP=[name for name, _ in FAST], MATH=["fast"], tol=ELT.fast())
def _(rng, N, OP):
    far = 80.0 if OP.startswith("exp") else 9.0
    return {"x": rng.distinct(N, low=LOW.get(OP, -far), high=far)}


unary.bench(N=[1 << 20, 1 << 26], OP=["exp", "silu"], flops=lambda N: 4 * N)
