"""One token drawn from each row of logits by inverse transform, in index order:

token[r] = min { i : p_0 + ... + p_i > u Z },  p_i = exp((x[r, i] - m) / temperature),  Z = sum p,

where m is the greatest logit of the row.

Source: Devroye, "Non-Uniform Random Variate Generation", 1986, III.2.1.
"""

import numpy as np

from iron.kernels.primitives import threefry, unit_interval
from iron.lang import EXACT, Const, In, Out, Scalar, add, bf16, dims, dtypes, exp, f16, f32
from iron.lang import group_max, group_min, group_scan, group_sum, groups, i32, inf, inline, kernel
from iron.lang import maximum, minimum, require, strided, thread, u32, unrolled, where

R, N = dims("R N")
T = dtypes("T", f32, f16, bf16)
NOBODY = 0x7FFFFFFF


@inline
def mass(x, row, i, top, temperature, N):
    """The unnormalised probability of token i: 0 for NaN and outside the row."""
    v = x[row, i].to(f32) if i < N else f32(-inf)
    p = where(v == top, 1.0, exp((v - top) / temperature))
    return where((v == v) & (i < N), p, 0.0)


@inline
def chance(u, key, row):
    """The row's number in [0, 1), given or drawn."""
    if u is not None:
        return u[row]
    return unit_interval(threefry((key[0], key[1]), (key[2], key[3] + u32(row)))[0])


@inline
def highest(x, row, N):
    """The greatest logit of the row; NaN counts as -inf."""
    top = f32(-inf)
    for i in strided(N):
        v = x[row, i].to(f32)
        top = maximum(top, where(v == v, v, -inf))
    return group_max(top)


@kernel(tune={"THREADS": [64, 128, 256], "VEC": [1, 4]})
def categorical_sample(
    x: In[T, R, N],
    u: In[f32, R] | None,
    key: In[u32, 4] | None,
    token: Out[u32, R],
    temperature: Scalar[f32],
    *,
    VEC: Const = 1,
    THREADS: Const = 256,
):
    """One group per row. `u` in [0, 1) decides; without it threefry(key[:2], (key[2], key[3] + r)).

    NaN counts as -inf, and rows with +inf share all mass among those. Sums are f32, the total in
    the order of the search, so that u < 1 lands inside; the last token with p > 0 is taken if
    rounding leaves none.
    """
    (row,) = groups(R, threads=THREADS)
    require(temperature > 0.0, "temperature must be positive; 0 means arg_reduce")
    require(N >= 1, "a row of no logits has no token")
    top = highest(x, row, N)

    whole = f32(0)
    for base in range(0, N, THREADS * VEC):
        own = f32(0)
        for j in unrolled(VEC):
            own += mass(x, row, base + thread * VEC + j, top, temperature, N)
        whole += group_sum(own)

    goal = chance(u, key, row) * whole
    best, last, before = i32(NOBODY), i32(-1), f32(0)
    for base in range(0, N, THREADS * VEC):
        first = base + thread * VEC
        p = [mass(x, row, first + j, top, temperature, N) for j in unrolled(VEC)]
        own = f32(0)
        for j in unrolled(VEC):
            own += p[j]
        run = before + group_scan(add, 0, own, exclusive=True)
        for j in unrolled(VEC):
            run += p[j]
            if p[j] > 0.0:
                last = maximum(last, first + j)
                if run > goal:
                    best = minimum(best, first + j)
        before += group_sum(own)
        best = group_min(best)
        if best < NOBODY:
            break
    last = group_max(last)
    if thread == 0:
        token[row] = u32(where(best < NOBODY, best, last))


def cumulative(x, temperature):
    """Running sums of the unnormalised probabilities in f64."""
    x = np.where(np.isnan(x), -np.inf, x.astype(np.float64))
    return np.cumsum(np.exp((x - x.max(-1, keepdims=True)) / temperature), -1)


@categorical_sample.oracle
def _(x, u, temperature):
    sums = cumulative(x, temperature)
    goal = u * sums[:, -1]
    return {"token": [np.searchsorted(row, g, "right") for row, g in zip(sums, goal, strict=True)]}


def drawn(rng, R, N, T, heat):
    """Logits, and numbers in the middle of what falls to likely tokens: far from rounding."""
    x = T((rng.normal(R, N) * 2).astype(np.float32)).astype(np.float64)
    sums = cumulative(x, heat)
    share = np.diff(sums, axis=1, prepend=0)
    wanted = np.argmax(share * rng.uniform(R, N), 1)[:, None]
    middle = np.take_along_axis(sums - share / 2, wanted, 1)
    return {"x": x, "u": (middle / sums[:, -1:])[:, 0], "key": None, "temperature": heat}


@categorical_sample.case(R=[5], N=[33, 1000], HEAT=[0.5, 1.0], tol=EXACT)
def _(rng, R, N, HEAT, T):
    return drawn(rng, R, N, T, HEAT)


@categorical_sample.case(R=[5], N=[35], tol=EXACT)
def _(rng, R, N):
    x = rng.normal(R, N)
    x[np.arange(R), [32, 0, 31, 5, 12]] = 150.0  # exp overflows for a shift that misses it
    return {"x": x, "u": rng.uniform(R), "key": None, "temperature": 1.0}


categorical_sample.bench(
    R=[1, 64], N=128256, make=lambda rng, R, N, T: drawn(rng, R, N, T, 1.0)
)  # fmt: skip
