"""One function of two integers:  z[i, j, ...] = OP(a[i, j, ...], b[i, j, ...]).

Results wrap; x // 0 = x % 0 = 0; shift counts are taken modulo the width, and `shr` is arithmetic
on signed integers.

Source: two's complement arithmetic; quotients round towards minus infinity, as in Python.
"""

import numpy as np

from iron.kernels.primitives import place_of
from iron.lang import EXACT, Const, In, Out, add, dims, dtypes, each, i32, inline, kernel, maximum
from iron.lang import minimum, strided, u32

(N,) = dims("N")
T = dtypes("T", i32, u32)


@inline
def sub(a, b):
    return a - b


@inline
def mul(a, b):
    return a * b


@inline
def floor_div(a, b):
    return a // b


@inline
def remainder(a, b):
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
def shl(a, b):
    return a << b


@inline
def shr(a, b):
    return a >> b


BODIES = (
    ("add", add), ("sub", sub), ("mul", mul), ("max", maximum), ("min", minimum),
    ("floor_div", floor_div), ("remainder", remainder), ("and", bit_and), ("or", bit_or),
    ("xor", bit_xor), ("shl", shl), ("shr", shr),
)  # fmt: skip


def body_of(op):
    """The function called `op`."""
    return next(body for name, body in BODIES if name == op)


@kernel(variants={"OP": [name for name, _ in BODIES]})
def binary_integer(a: In[T, N], b: In[T, N], z: Out[T, N], *, OP: Const):
    """One thread per element."""
    (i,) = each(N)
    z[i] = body_of(OP)(a[i], b[i])


@kernel
def binary_integer_strided(
    a: In[T, ..., strided], b: In[T, ..., strided], z: Out[T, ...], *, OP: Const = "add"
):
    """One thread per element, of any rank and strides; a broadcast axis has stride 0."""
    (i,) = each(z.size)
    at = place_of(i, z)
    z[at] = body_of(OP)(a[at], b[at])


FORMULAS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "floor_div": np.floor_divide, "remainder": np.remainder, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip


def formula(a, b, OP):
    """The function by numpy, with the language's rules for counts and zero divisors."""
    with np.errstate(all="ignore"):
        z = FORMULAS[OP](a, b % 32 if OP in ("shl", "shr") else b)
    return np.where(b == 0, 0, z) if OP in ("remainder", "floor_div") else z


@binary_integer.oracle
def _(a, b, OP):
    return {"z": formula(a, b, OP)}


@binary_integer.case(N=[33, 300], tol=EXACT)
def _(rng, N):
    return {"a": rng.integers(N, low=-1000, high=1000), "b": rng.integers(N, low=-40, high=40)}


@binary_integer_strided.oracle
def _(a, b, OP):
    return {"z": formula(a, b, OP)}


@binary_integer_strided.case(FORM=["outer", "point"], OP=["sub"], tol=EXACT)
def _(rng, FORM):
    a, b = rng.integers(5, 3, 1, 4, high=99), rng.integers(3, 7, 1, high=99)
    a, b = np.broadcast_arrays(a, b)
    return {"a": a, "b": b} if FORM == "outer" else {"a": a[0, 0, 0, 0] + 99, "b": b[0, 0, 0, 0]}


binary_integer.bench(N=[1 << 24, 1 << 26], T=i32, OP="xor")
binary_integer_strided.bench(
    T=i32, OP="xor", L=[64, 256],
    make=lambda rng, L: {"a": rng.integers(L, 512, 512), "b": rng.integers(L, 512, 512)},
)  # fmt: skip
