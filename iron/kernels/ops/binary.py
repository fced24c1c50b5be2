"""One function of two elements:  z = OP(a, b), b equal in shape, a row, a column or one number.

Source: IEEE 754-2019 (9.2) and ISO C (7.12); remainder and floor_div round the quotient towards
minus infinity, so the remainder has the sign of b, as in Python.
"""

import numpy as np

from iron.kernels.primitives import silu
from iron.lang import ELT, EXACT, Const, In, Out, absolute, add, atan2, bf16, dims, dtypes, each
from iron.lang import exp, f16, f32, floor, fma, i32, inf, inline, kernel, log1p, maximum, minimum
from iron.lang import power, require, sigmoid, u8, u32, where

R, N, RB, NB = dims("R N RB NB")
T = dtypes("T", f32, f16, bf16)
INT = dtypes("INT", i32, u32)
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

    Exact where the quotient is below 2^24.
    """
    quotient = floor(a / b)
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


BODIES = (
    ("add", add), ("sub", sub), ("mul", mul), ("div", div), ("max", maximum), ("min", minimum),
    ("pow", power), ("atan2", atan2), ("remainder", remainder), ("floor_div", floor_div),
    ("logaddexp", logaddexp), ("sigmoid_mul", sigmoid_mul), ("silu_mul", silu_mul),
)  # fmt: skip


def body_of(op):
    """The function called `op`."""
    return next(body for name, body in BODIES if name == op)


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
):
    """One thread per element, in f32; `SWAP` computes OP(b, a)."""
    i, r = each(N, R)
    require(RB == R if SHAPE in ("same", "column") else RB == 1, "b has the rows of SHAPE")
    require(NB == N if SHAPE in ("same", "row") else NB == 1, "b has the columns of SHAPE")
    p, q = a[r, i].to(f32), b[place(r, i, SHAPE)].to(f32)
    z[r, i] = (body_of(OP)(q, p) if SWAP else body_of(OP)(p, q)).to(T)


@kernel(variants={"OP": ["eq", "ne", "lt", "le", "gt", "ge"]})
def compare(
    a: In[T, R, N], b: In[T, RB, NB], z: Out[u8, R, N], *, OP: Const, SHAPE: Const = "same"
):
    """z = 1 where the comparison holds, else 0; NaN is equal to nothing."""
    i, r = each(N, R)
    require(RB == R if SHAPE in ("same", "column") else RB == 1, "b has the rows of SHAPE")
    require(NB == N if SHAPE in ("same", "row") else NB == 1, "b has the columns of SHAPE")
    p, q = a[r, i].to(f32), b[place(r, i, SHAPE)].to(f32)
    if OP in ("eq", "ne"):
        holds = p == q if OP == "eq" else p != q
    elif OP in ("lt", "le"):
        holds = p < q if OP == "lt" else p <= q
    else:
        holds = p > q if OP == "gt" else p >= q
    z[r, i] = u8(holds)


@inline
def integer_floor_div(a, b):
    return a // b


@inline
def integer_remainder(a, b):
    return a % b


@inline
def bit_and(a, b):
    return a & b


@inline
def bit_or(a, b):
    return a | b


@inline
def bit_xor(a, b):
    return a ^ b


@inline
def left(a, b):
    return a << b


@inline
def right(a, b):
    return a >> b


INTEGERS = (
    ("add", add), ("sub", sub), ("mul", mul), ("max", maximum), ("min", minimum),
    ("floor_div", integer_floor_div), ("remainder", integer_remainder), ("and", bit_and),
    ("or", bit_or), ("xor", bit_xor), ("shl", left), ("shr", right),
)  # fmt: skip


def integer_of(op):
    """The integer function called `op`."""
    return next(body for name, body in INTEGERS if name == op)


@kernel(variants={"OP": [name for name, _ in INTEGERS]})
def binary_integer(a: In[INT, N], b: In[INT, N], z: Out[INT, N], *, OP: Const):
    """One thread per element; wraps, x // 0 = x % 0 = 0, shift counts modulo the width."""
    (i,) = each(N)
    z[i] = integer_of(OP)(a[i], b[i])


FORMULAS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "pow": np.power, "atan2": np.arctan2, "remainder": np.remainder,
    "floor_div": np.floor_divide, "logaddexp": np.logaddexp, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
    "sigmoid_mul": lambda a, b: b / (1 + np.exp(-a)),
    "silu_mul": lambda a, b: a * b / (1 + np.exp(-a)),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
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
        a = rng.integers(R, N, low=-60, high=60)
    if OP == "logaddexp":
        b[:, 0] = a[:, 0]
    return {"a": np.abs(a) if OP == "pow" else a, "b": b}


@compare.oracle
def _(a, b, OP):
    return {"z": FORMULAS[OP](a, b)}


@compare.case(R=[3], N=[129], tol=EXACT)
def _(rng, R, N):
    b = np.round(rng.normal(R, N))
    return {"a": np.where(rng.uniform(R, N) < 0.5, b, np.round(rng.normal(R, N))), "b": b}


@binary_integer.oracle
def _(a, b, OP):
    with np.errstate(all="ignore"):
        z = FORMULAS[OP](a, b % 32 if OP in ("shl", "shr") else b)
    return {"z": np.where(b == 0, 0, z) if OP in ("remainder", "floor_div") else z}


@binary_integer.case(N=[33, 300], tol=EXACT)
def _(rng, N):
    return {"a": rng.integers(N, low=-1000, high=1000), "b": rng.integers(N, low=-40, high=40)}


binary.bench(R=4096, N=4096, OP="add", reference="torch:add")
compare.bench(R=4096, N=4096, OP="lt")
binary_integer.bench(N=1 << 24, OP="xor")
