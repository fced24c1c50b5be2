"""Index of the greatest or least element of each row:  y[r] = argmax_i x[r, i].

The lowest index wins among equals; a NaN wins over every number, the first NaN over later ones.

Source: the definition, with the rules of numpy's argmax and argmin.
"""

import numpy as np

from iron.lang import EXACT, Const, In, Out, bf16, dims, dtypes, f16, f32, group_reduce, groups
from iron.lang import i32, inf, inline, kernel, require, strided, thread, u32, where

R, N = dims("R N")
T = dtypes("T", f32, f16, bf16)


@inline
def greatest(a, i, b, j):
    """The better of two (value, index) candidates."""
    a_nan, b_nan = a != a, b != b
    level = (a == b) | (a_nan & b_nan)
    better = (b > a) | (b_nan & ~a_nan) | (level & (j < i))
    return where(better, b, a), where(better, j, i)


@inline
def place_of_best(x, row, OP):
    """The index of the row's best element, in every thread."""
    best, at = f32(-inf), i32(0)  # no worse than any element, and right if all are -inf
    for i in strided(x.shape[1]):
        value = x[row, i].to(f32)
        best, at = greatest(best, at, -value if OP == "min" else value, i)
    return group_reduce(greatest, best, at)[1]


@kernel(variants={"OP": ["max", "min"]}, tune={"THREADS": [64, 128, 256, 512]})
def arg_reduce(
    x: In[T, R, N],
    names: In[u32, R, N] | None,
    y: Out[u32, R],
    *,
    OP: Const = "max",
    THREADS: Const = 256,
):
    """One group per row; the comparison is in f32. With `names`, y is the name of the element."""
    (row,) = groups(R, threads=THREADS)
    require(N >= 1, "a row of no elements has no greatest one")
    at = place_of_best(x, row, OP)
    if thread == 0:
        y[row] = names[row, at] if names is not None else u32(at)


@kernel(variants={"OP": ["max", "min"]}, tune={"THREADS": [64, 128, 256, 512]})
def arg_reduce_value(
    x: In[T, R, N],
    y: Out[u32, R],
    value: Out[T, R],
    *,
    OP: Const = "max",
    THREADS: Const = 256,
):
    """`arg_reduce`, and the element itself: value[r] = x[r, y[r]]."""
    (row,) = groups(R, threads=THREADS)
    require(N >= 1, "a row of no elements has no greatest one")
    at = place_of_best(x, row, OP)
    if thread == 0:
        y[row] = u32(at)
        value[row] = x[row, at]


def place(x, OP):
    """numpy's answer: the first NaN, else the first of the best."""
    return np.argmax(x, 1) if OP == "max" else np.argmin(x, 1)


@arg_reduce.oracle
def _(x, names, OP):
    at = place(x, OP)
    return {"y": at if names is None else names[np.arange(len(at)), at]}


@arg_reduce.case(R=[3], N=[33], T=[f32], tol=EXACT)
def _(rng, R, N):
    return {"x": rng.normal(R, N), "names": rng.integers(R, N, low=1000, high=9000)}


@arg_reduce_value.oracle
def _(x, OP):
    at = place(x, OP)
    return {"y": at, "value": x[np.arange(len(at)), at]}


@arg_reduce_value.case(R=[3], N=[33, 1000], tol=EXACT)
def _(rng, R, N):
    return {"x": rng.normal(R, N)}


@arg_reduce.case(R=[5], N=[33, 1000], TIES=[False, True], tol=EXACT)
def _(rng, R, N, TIES, OP):
    x = np.round(rng.normal(R, N)) if TIES else rng.normal(R, N)
    for r, at in enumerate((32, 0, 31, N - 1, 7)):
        x[r, at : at + 1 + TIES * 4] = 9.0 if OP == "max" else -9.0
    x[3] = -np.inf if OP == "max" else np.inf
    return {"x": x, "names": None}


arg_reduce.bench(R=[1, 64], N=128256, OP="max", make=lambda rng, R, N: {"x": rng.normal(R, N)})
arg_reduce_value.bench(R=[1], N=128256, OP="max", make=lambda rng, R, N: {"x": rng.normal(R, N)})
