"""Reduction of a row or of a middle axis:  y = OP_i x[i].

OP is sum, mean, prod, max, min, sumsq (of squares), any or all (elements that are not 0).

Source: the definitions; NaN wins in max and min as in IEEE 754-2019 (9.6) maximum and minimum.
"""

import numpy as np

from iron.lang import EXACT, RED, Const, In, Out, bf16, dims, dtypes, each, f16, f32, group_max
from iron.lang import group_min, group_reduce, group_sum, groups, inf, inline, kernel, maximum
from iron.lang import minimum, strided, thread, where

R, N, C = dims("R N C")
T = dtypes("T", f32, f16, bf16)
OPS = ["sum", "mean", "prod", "max", "min", "sumsq", "any", "all"]


@inline
def unit(OP):
    """The result of an empty reduction."""
    if OP in ("prod", "all"):
        return f32(1)
    if OP == "max":
        return f32(-inf)
    return f32(inf) if OP == "min" else f32(0)


@inline
def lifted(x, OP):
    """The element as the reduction sees it."""
    if OP == "sumsq":
        return x * x
    return where(x != 0.0, 1.0, 0.0) if OP in ("any", "all") else x


@inline
def joined(a, b, OP):
    """Two partial results combined."""
    if OP in ("max", "any"):
        return maximum(a, b)
    if OP in ("min", "all"):
        return minimum(a, b)
    return a * b if OP == "prod" else a + b


@inline
def product(a, b):
    return a * b


@inline
def over_group(x, OP):
    """The partial results of all threads combined."""
    if OP in ("max", "any"):
        return group_max(x)
    if OP in ("min", "all"):
        return group_min(x)
    return group_reduce(product, x) if OP == "prod" else group_sum(x)


@kernel(variants={"OP": OPS}, tune={"THREADS": [64, 128, 256, 512]})
def reduce(x: In[T, R, N], y: Out[T, R], *, OP: Const = "sum", THREADS: Const = 256):
    """One group per row; partial results are f32, rounded once. any and all give 1 or 0.

    No elements: sum, sumsq and any 0, prod and all 1, max -inf, min inf, mean NaN.
    """
    (row,) = groups(R, threads=THREADS)
    acc = unit(OP)
    for i in strided(N):
        acc = joined(acc, lifted(x[row, i].to(f32), OP), OP)
    acc = over_group(acc, OP)
    if thread == 0:
        y[row] = (acc / N if OP == "mean" else acc).to(T)


@kernel(variants={"OP": OPS})
def reduce_axis(x: In[T, R, N, C], y: Out[T, R, C], *, OP: Const = "sum"):
    """One thread per result: `reduce` over the middle axis, in index order."""
    i, r = each(C, R)
    acc = unit(OP)
    for n in range(N):
        acc = joined(acc, lifted(x[r, n, i].to(f32), OP), OP)
    y[r, i] = (acc / N if OP == "mean" else acc).to(T)


def formula(x, OP, axis):
    """The reduction in f64 and the size of the terms it adds."""
    x = x.astype(np.float64)
    n = x.shape[axis]
    y = {
        "sum": lambda: x.sum(axis), "mean": lambda: x.mean(axis), "prod": lambda: x.prod(axis),
        "max": lambda: x.max(axis, initial=-np.inf), "min": lambda: x.min(axis, initial=np.inf),
        "sumsq": lambda: (x * x).sum(axis), "any": lambda: (x != 0).any(axis) * 1.0,
        "all": lambda: (x != 0).all(axis) * 1.0,
    }[OP]()  # fmt: skip
    size = np.abs(x).sum(axis) if OP == "sum" else np.abs(x).sum(axis) / max(n, 1)
    return y, size if OP in ("sum", "mean") else np.abs(y) * (n if OP == "prod" else 1)


@reduce.oracle
def _(x, OP):
    y, size = formula(x, OP, 1)
    return {"y": y}, {"y": size}


@reduce.case(R=[1, 3], N=[1, 33, 1000], OP=OPS[:6], tol=RED("N"))
def _(rng, R, N, OP):
    x = rng.normal(R, N)
    decides = 9.0 + np.arange(R)[:, None]  # the first element of a second turn
    x[:, 32:33] = -decides if OP == "min" else decides
    return {"x": 1 + x * 0.05 if OP == "prod" else x}


@reduce.case(R=[3], N=[1, 33, 1000], OP=["any", "all"], tol=EXACT)
def _(rng, R, N, OP):
    x = np.full((R, N), OP == "all", float)
    x[::2, rng.integers(1, high=N)] = OP == "any"
    return {"x": x}


@reduce_axis.oracle
def _(x, OP):
    y, size = formula(x, OP, 1)
    return {"y": y}, {"y": size}


@reduce_axis.case(R=[1, 3], N=[1, 33], C=[1, 101], OP=OPS[:6], tol=RED("N"))
def _(rng, R, N, C, OP):
    x = rng.normal(R, N, C)
    return {"x": 1 + x * 0.05 if OP == "prod" else x}


@reduce_axis.case(R=[3], N=[33], C=[35], OP=["any", "all"], tol=EXACT)
def _(rng, R, N, C, OP):
    x = (rng.uniform(R, N, C) < 0.02) * 1.0
    return {"x": x if OP == "any" else 1 - x}


reduce.bench(
    R=[1, 16384],
    N=4096,
    OP="sum",
    flops=lambda R, N: R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N)},
)
reduce.bench(
    R=64,
    N=1 << 20,
    OP="sum",
    flops=lambda R, N: R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N)},
)
reduce_axis.bench(
    R=1,
    N=4096,
    C=[5120, 16384],
    OP="sum",
    flops=lambda R, N, C: R * N * C,
    make=lambda rng, R, N, C: {"x": rng.normal(R, N, C)},
)
