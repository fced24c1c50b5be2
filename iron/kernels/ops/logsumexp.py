"""Logarithm of the sum of exponentials of each row:  y[r] = m + log sum_i exp(x[r, i] - m).

m is the greatest element of the row.

Source: the definition; the shift by the maximum keeps exp in range.
"""

import numpy as np

from iron.lang import RED, Const, In, Out, bf16, dims, dtypes, exp, f16, f32, group_max, group_sum
from iron.lang import groups, inf, kernel, log, maximum, strided, thread, where

R, N = dims("R N")
T = dtypes("T", f32, f16, bf16)


@kernel(tune={"THREADS": [64, 128, 256, 512]})
def logsumexp(x: In[T, R, N], y: Out[T, R], *, THREADS: Const = 256):
    """One group per row, read twice; sums are f32. -inf for a row of -inf or of no elements."""
    (row,) = groups(R, threads=THREADS)
    top = f32(-inf)
    for i in strided(N):
        top = maximum(top, x[row, i].to(f32))
    top = group_max(top)
    shift = where((top == -inf) | (top == inf), 0.0, top)
    total = f32(0)
    for i in strided(N):
        total += exp(x[row, i].to(f32) - shift)
    total = group_sum(total)
    if thread == 0:
        y[row] = (log(total) + shift).to(T)


@logsumexp.oracle
def _(x):
    top = x.max(-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0)
    y = np.log(np.exp(x - shift).sum(-1)) + shift[:, 0]
    return {"y": y}, {"y": 1 + np.abs(y)}


@logsumexp.case(R=[1, 3], N=[1, 33, 1000], SPIKE=[False, True], tol=RED("N"))
def _(rng, R, N, SPIKE):
    x = rng.normal(R, N) * 4
    x[:, 32:33] += 100.0 * SPIKE  # exp overflows for a shift that misses it
    return {"x": x}


logsumexp.bench(
    R=[1, 64],
    N=128256,
    flops=lambda R, N: 3 * R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N)},
)
logsumexp.bench(
    R=16384, N=4096, flops=lambda R, N: 3 * R * N, make=lambda rng, R, N: {"x": rng.normal(R, N)}
)
