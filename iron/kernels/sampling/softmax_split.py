"""Softmax of few long rows, each divided among several groups: y and its options as in `softmax`.

Part p of a row leaves its greatest score m_p and the sum l_p of exp(s - m_p); then every part
writes its share of y from m = max_p m_p and sum_p l_p exp(m_p - m).

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018
(arXiv:1805.02867), section 3.1.
"""

import numpy as np

from iron.kernels.activation import math_of
from iron.kernels.rows import WORD
from iron.kernels.sampling.softmax import factors, peak, power, score
from iron.lang import RED, SOFT, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, f16, f32
from iron.lang import group_max, group_sum, groups, inf, inline, kernel, maximum, minimum, plan
from iron.lang import require, scratch, strided, thread, where

R, N, P = dims("R N P")
T = dtypes("T", f32, f16, bf16)


@inline
def part_of_row(p, N, P, VEC):
    """(first, length) of part p of a row of N; the last parts may be shorter, or empty."""
    share = cdiv(N // VEC, P) * VEC
    first = minimum(p * share, N)
    return first, minimum(share, N - first)


@kernel(
    choose={"VEC": {"gpu": [8, 4, 1], "cpu": [1, 4]}},
    schedule={"cpu": {"THREADS": 32}},
    tune={"THREADS": [64, 128, 256, 512]},
)
def softmax_parts(
    x: In[T, R, N],
    mask: In[T, R, N] | None,
    stat: Out[f32, R, P, 2],
    scale: Scalar[f32],
    *,
    MATH: Const = lambda T: math_of(T),
    VEC: Const = 1,
    THREADS: Const = 256,
):
    """One group per part of a row, read twice: its greatest score and the sum of exp(s - it).

    The sum of a part of nothing but -inf is 0.
    """
    p, row = groups(P, R, threads=THREADS)
    require(N % VEC == 0, "the row length N must be a multiple of VEC")
    require(VEC * T.bytes <= WORD, "VEC elements are one word")
    first, length = part_of_row(p, N, P, VEC)
    added = mask[row] if mask is not None else None
    top = f32(-inf)
    for i in strided(length, VEC):
        top = maximum(top, score(x[row], added, first + i, scale, VEC).max())
    top = group_max(top)
    shift = where(top == -inf, 0.0, top)
    total = f32(0)
    for i in strided(length, VEC):
        total += power(score(x[row], added, first + i, scale, VEC) - shift, MATH).sum()
    total = group_sum(total)
    if thread == 0:
        stat[row, p, 0] = top
        stat[row, p, 1] = total


@kernel(
    variants={"LOG": [False, True]},
    choose={"VEC": {"gpu": [8, 4, 1], "cpu": [1, 4]}},
    schedule={"cpu": {"THREADS": 32}},
    tune={"THREADS": [64, 128, 256, 512]},
)
def softmax_joined(
    x: In[T, R, N],
    mask: In[T, R, N] | None,
    sink: In[f32, R] | None,
    stat: In[f32, R, P, 2],
    y: Out[T, R, N],
    scale: Scalar[f32],
    *,
    LOG: Const = False,
    ZERO: Const = False,
    MATH: Const = lambda T: math_of(T),
    VEC: Const = 1,
    THREADS: Const = 256,
):
    """One group per part of a row: every group finds the row's sum and writes its part of y."""
    p, row = groups(P, R, threads=THREADS)
    require(N % VEC == 0, "the row length N must be a multiple of VEC")
    require(VEC * T.bytes <= WORD, "VEC elements are one word")
    extra = sink[row] if sink is not None else None
    most, total = f32(-inf), f32(0)
    for i in strided(P):
        most = maximum(most, stat[row, i, 0])
    top = peak(most, extra, ZERO)
    for i in strided(P):
        total += stat[row, i, 1] * power(stat[row, i, 0] - top, MATH)
    shift, inverse = factors(total, top, extra, ZERO, MATH)

    added = mask[row] if mask is not None else None
    first, length = part_of_row(p, N, P, VEC)
    for i in strided(length, VEC):
        s = score(x[row], added, first + i, scale, VEC) - top
        out = s - shift if LOG else power(s, MATH) * inverse
        y[row, first + i : first + i + VEC] = out.to(T)


@plan(variants={"LOG": [False, True]})
def softmax_split(
    x: In[T, R, N],
    mask: In[T, R, N] | None,
    sink: In[f32, R] | None,
    y: Out[T, R, N],
    scale: Scalar[f32],
    *,
    LOG: Const = False,
    ZERO: Const = False,
    PARTS: Const = lambda R, N: max(1, min(1024 // R, 128, cdiv(N, 1024))),
):
    """`softmax` with each row divided into PARTS; by default up to 1024 groups."""
    stat = scratch(f32, R, PARTS, 2)
    softmax_parts(x, mask, stat, scale)
    softmax_joined(x, mask, sink, stat, y, scale, LOG=LOG, ZERO=ZERO)


@softmax_parts.oracle
def _(x, mask, scale, P, VEC):
    s = x * scale + (0 if mask is None else mask)
    share = -(-(s.shape[1] // VEC) // P) * VEC
    stat = np.stack([np.full((len(s), P), -np.inf), np.zeros((len(s), P))], -1)
    for r, p in np.ndindex(len(s), P):
        mine = s[r, p * share : (p + 1) * share]
        top = mine.max(initial=-np.inf)
        total = np.exp(mine - (top if top > -np.inf else 0)).sum()
        stat[r, p] = top, total
    near = np.where(np.isfinite(stat[..., :1]), 1 + np.abs(stat[..., :1]), 0)
    return {"stat": stat}, {"stat": np.concatenate([near, near * stat[..., 1:]], -1)}


def softened(x, mask, sink, scale, LOG):
    """The formula in f64."""
    s = x * scale + (0 if mask is None else mask)
    extra = np.full((len(s), 1), -np.inf) if sink is None else sink[:, None]
    top = np.maximum(s.max(-1, keepdims=True), extra)
    s = s - top
    total = np.exp(s).sum(-1, keepdims=True) + np.exp(extra - top)
    return {"y": s - np.log(total) if LOG else np.exp(s) / total}


@softmax_joined.oracle
def _(x, mask, sink, stat, scale, LOG):
    return softened(x, mask, sink, scale, LOG)


@softmax_split.oracle
def _(x, mask, sink, scale, LOG):
    return softened(x, mask, sink, scale, LOG)


def rows(rng, R, N, MASK):
    """Scores, the first row of which is masked but for one element."""
    mask = np.where(rng.uniform(R, N) < 0.3, -np.inf, rng.normal(R, N)) if MASK else None
    if mask is not None:
        mask[0], mask[0, N - 1] = -np.inf, 0.5
    return {"x": rng.normal(R, N) * 3, "mask": mask, "scale": 0.7}


@softmax_parts.case(R=[3], N=[37, 200], P=[1, 5], MASK=[False, True], tol=RED("N"))
def _(rng, R, N, MASK):
    return rows(rng, R, N, MASK)


@softmax_joined.case(R=[1, 3], N=[16, 41, 260], P=[1, 5, 48], SINK=[False, True], tol=SOFT)
def _(rng, R, N, P, T, SINK):
    x = rng.normal(R, N) * 3 + 140  # exp overflows for a shift that is no score
    s = x.astype(T.np).astype(np.float64)
    whole = np.log(np.exp(s - 140).sum(-1, keepdims=True)) + 140
    share = np.log(rng.uniform(R, P) + 0.1)
    share += whole - np.log(np.exp(share).sum(-1, keepdims=True))
    top = np.rint(share)  # exact, as a score is
    stat = np.stack([top, np.exp(share - top)], -1)
    sink = np.array([140.5, 143.0, 139.0])[:R] if SINK else None
    return {"x": x, "mask": None, "scale": 1.0, "stat": stat, "sink": sink}


@softmax_split.case(R=[1, 3], N=[37, 520], PARTS=[4], MASK=[False, True], tol=SOFT)
def _(rng, R, N, MASK):
    return {**rows(rng, R, N, MASK), "sink": None}


@softmax_split.case(R=[3], N=[33], PARTS=[1, 40], T=[f32], tol=SOFT)
def _(rng, R, N):
    x = rng.normal(R, N)
    x[np.arange(R), [32, 0, 31]] = 150.0  # exp overflows for a shift that misses it
    return {"x": x, "mask": None, "sink": np.array([0.5, 150.0, 3]), "scale": 1.0}


softmax_parts.bench(
    R=64,
    N=128256,
    P=8,
    flops=lambda R, N: 3 * R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N), "mask": None, "scale": 1.0},
)
softmax_joined.bench(
    R=64,
    N=128256,
    P=8,
    flops=lambda R, N: 3 * R * N,
    make=lambda rng, R, N, P: {
        "x": rng.normal(R, N), "mask": None, "sink": None, "scale": 1.0,
        "stat": 1 + rng.uniform(R, P, 2),
    },
)  # fmt: skip
softmax_split.bench(
    R=[1, 64],
    N=128256,
    flops=lambda R, N: 5 * R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N), "mask": None, "scale": 1.0},
)
