"""One function of two elements:  z[i, j, ...] = OP(a[i, j, ...], b[i, j, ...]).

Source: IEEE 754-2019 (9.2) and ISO C (7.12); remainder and floor_div round the quotient towards
minus infinity, so the remainder has the sign of b, as in Python.
"""

import numpy as np

from iron.kernels.activation import fast_sigmoid, fast_silu, math_of, silu
from iron.kernels.primitives import place_of
from iron.lang import ELT, Const, In, Out, absolute, add, atan2, bf16, dims, dtypes, each, exp, f16
from iron.lang import f32, floor, fma, inf, inline, kernel, log1p, maximum, minimum, power, require
from iron.lang import sigmoid, strided, where

R, N, RB, NB = dims("R N RB NB")
T = dtypes("T", f32, f16, bf16)
SHAPES = ["same", "row", "column", "number"]


@inline
def sub(a, b):
    return a - b


@inline
def mul(a, b):
    return a * b


@inline
def div(a, b):
    return a / b


@inline
def logaddexp(a, b):
    """log(exp(a) + exp(b)); equal infinities give themselves."""
    top = maximum(a, b)
    gap = where(a == b, 0.0, absolute(a - b))
    return top + log1p(exp(-gap))


@inline
def divided(a, b):
    """floor(a / b) and a - floor(a / b) * b, both as if the quotient were not rounded before floor.

    Exact where the quotient is below 2^24; NaN, as in numpy and torch, where a is infinite.
    """
    quotient = where(absolute(a) == inf, a - a, floor(a / b))
    rest = fma(-quotient, b, a)
    far = (absolute(b) == inf) & (absolute(a) < inf)
    quotient, rest = where(far, 0.0, quotient), where(far, a, rest)
    over = (rest != 0.0) & ((rest < 0.0) ^ (b < 0.0))
    return where(over, quotient - 1.0, quotient), where(over, rest + b, rest)


@inline
def floor_div(a, b):
    return divided(a, b)[0]


@inline
def remainder(a, b):
    return divided(a, b)[1]


@inline
def sigmoid_mul(a, b):
    return sigmoid(a) * b


@inline
def silu_mul(a, b):
    return silu(a) * b


@inline
def fast_sigmoid_mul(a, b):
    return fast_sigmoid(a) * b


@inline
def fast_silu_mul(a, b):
    return fast_silu(a) * b


BODIES = (
    ("add", add), ("sub", sub), ("mul", mul), ("div", div), ("max", maximum), ("min", minimum),
    ("pow", power), ("atan2", atan2), ("remainder", remainder), ("floor_div", floor_div),
    ("logaddexp", logaddexp), ("sigmoid_mul", sigmoid_mul), ("silu_mul", silu_mul),
)  # fmt: skip


FAST = (("sigmoid_mul", fast_sigmoid_mul), ("silu_mul", fast_silu_mul))


def body_of(op, math):
    """The function called `op`; in its fast form, where it has one, if `math` says so."""
    bodies = (*FAST, *BODIES) if math == "fast" else BODIES
    return next(body for name, body in bodies if name == op)


@inline
def place(r, i, SHAPE):
    """Where b stands for element (r, i) of a."""
    return (r if SHAPE in ("same", "column") else 0, i if SHAPE in ("same", "row") else 0)


@kernel(variants={"OP": [name for name, _ in BODIES], "SHAPE": SHAPES})
def binary(
    a: In[T, R, N],
    b: In[T, RB, NB],
    z: Out[T, R, N],
    *,
    OP: Const,
    SHAPE: Const = "same",
    SWAP: Const = False,
    MATH: Const = lambda T: math_of(T),
):
    """One thread per element, in f32. b is of a's shape, a row, a column or one number.

    `SWAP` computes OP(b, a). MATH is `precise` or `fast`, as of `unary`.
    """
    i, r = each(N, R)
    require(RB == R if SHAPE in ("same", "column") else RB == 1, "b has the rows of SHAPE")
    require(NB == N if SHAPE in ("same", "row") else NB == 1, "b has the columns of SHAPE")
    p, q = a[r, i].to(f32), b[place(r, i, SHAPE)].to(f32)
    body = body_of(OP, MATH)
    z[r, i] = (body(q, p) if SWAP else body(p, q)).to(T)


@kernel
def binary_strided(
    a: In[T, ..., strided],
    b: In[T, ..., strided],
    z: Out[T, ...],
    *,
    OP: Const = "add",
    MATH: Const = lambda T: math_of(T),
):
    """One thread per element, in f32, of any rank and strides; a broadcast axis has stride 0."""
    (i,) = each(z.size)
    at = place_of(i, z)
    z[at] = body_of(OP, MATH)(a[at].to(f32), b[at].to(f32)).to(T)


def silu64(a):
    """a sigmoid(a) in f64; its limit at -inf."""
    return np.where(np.isneginf(a), -0.0, a / (1 + np.exp(-a)))


FORMULAS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "pow": np.power, "atan2": np.arctan2, "remainder": np.remainder,
    "floor_div": np.floor_divide, "logaddexp": np.logaddexp,
    "sigmoid_mul": lambda a, b: b / (1 + np.exp(-a)), "silu_mul": lambda a, b: silu64(a) * b,
}  # fmt: skip


@binary.oracle
def _(a, b, OP, SWAP=False):
    p, q = a, b
    z = FORMULAS[OP](q, p) if SWAP else FORMULAS[OP](p, q)
    return {"z": z}, {"z": np.abs(z)}


def other(rng, R, N, SHAPE):
    rows, columns = R if SHAPE in ("same", "column") else 1, N if SHAPE in ("same", "row") else 1
    return rng.uniform(rows, columns, low=0.25, high=3.25)


@binary.case(R=[3], N=[129], OP=["sub", "pow"], SWAP=[False, True], T=[f32, f16], tol=ELT)
def _(rng, R, N, OP, SHAPE):
    return {"a": rng.uniform(R, N, low=0.25, high=5.0), "b": other(rng, R, N, SHAPE)}


@binary.case(R=[3], N=[129], SHAPE=["same"], tol=ELT)
def _(rng, R, N, OP, SHAPE):
    a, b = rng.normal(R, N) * 4, other(rng, R, N, SHAPE)
    if OP in ("remainder", "floor_div"):  # quotients that round up to an integer, and exact ones
        b = 0.1 * rng.integers(R, N, low=1, high=11) * rng.signs(R, N)
        a = rng.integers(R, N, low=-60, high=60) + 0.0
        a[:, :2], b[:, :2] = [[5.0, -5.0]], np.inf
    if OP == "logaddexp":
        b[:, 0] = a[:, 0]
    a[:, 2] = -np.inf
    return {"a": np.abs(a) if OP == "pow" else a, "b": b}


@binary_strided.oracle
def _(a, b, OP):
    z = FORMULAS[OP](a, b)
    return {"z": z}, {"z": np.abs(z)}


@binary_strided.case(FORM=["outer", "reversed", "point"], OP=["sub", "pow"], tol=ELT)
def _(rng, FORM):
    a, b = rng.uniform(5, 3, 1, 4, low=0.5, high=3.0), rng.uniform(3, 7, 1, low=0.5, high=3.0)
    if FORM == "point":
        return {"a": a[0, 0, 0, 0], "b": b[0, 0, 0]}
    a, b = np.broadcast_arrays(a, b)
    return {"a": a, "b": b} if FORM == "outer" else {"a": a[::-1, :, ::2], "b": b[:, ::-1, 1:5]}


binary.bench(R=[4096, 16384], N=4096, OP="add", SHAPE="same", flops=lambda R, N: R * N)
binary_strided.bench(
    OP="mul", L=[64, 256], flops=lambda L: L << 18,
    make=lambda rng, L: {"a": rng.normal(L, 512, 512), "b": rng.normal(L, 512, 512)},
)  # fmt: skip
