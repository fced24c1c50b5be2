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
    """The better of two (value, index) candidates; index -1 is no candidate."""
    a_nan, b_nan = a != a, b != b
    level = (a == b) | (a_nan & b_nan)
    better = (b > a) | (b_nan & ~a_nan) | (level & (j < i))
    take = ((j >= 0) & better) | (i < 0)
    return where(take, b, a), where(take, j, i)


@kernel(variants={"OP": ["max", "min"]}, tune={"THREADS": [64, 128, 256, 512]})
def arg_reduce(x: In[T, R, N], y: Out[u32, R], *, OP: Const = "max", THREADS: Const = 256):
    """One group per row; the comparison is in f32."""
    (row,) = groups(R, threads=THREADS)
    require(N >= 1, "a row of no elements has no greatest one")
    best, at = f32(-inf), i32(-1)
    for i in strided(N):
        value = x[row, i].to(f32)
        best, at = greatest(best, at, -value if OP == "min" else value, i)
    best, at = group_reduce(greatest, best, at)
    if thread == 0:
        y[row] = u32(at)


@arg_reduce.oracle
def _(x, OP):
    return {"y": np.argmax(x, 1) if OP == "max" else np.argmin(x, 1)}


@arg_reduce.case(R=[5], N=[33, 1000], TIES=[False, True], tol=EXACT)
def _(rng, R, N, TIES):
    x = rng.normal(R, N)
    return {"x": np.round(x) if TIES else x}


arg_reduce.bench(R=8, N=151936, OP="max", reference="torch:argmax")
