"""Softmax of each row:  y[r, i] = exp(s[i] - m) / sum_j exp(s[j] - m),  m = max s.

s = scale * x[r] + mask[r]. A sink z[r] joins the sum, and the maximum, with no place of its own.

Source: Bridle 1990, with the shift by the maximum that keeps exp in range.
"""

import numpy as np

from iron.kernels.activation import fast_exp, math_of
from iron.kernels.rows import WORD, held_chunks, owned, row_threads
from iron.lang import SOFT, Const, In, Out, Scalar, bf16, dims, dtypes, exp, f16, f32, fast_rcp
from iron.lang import group_max, group_sum, groups, inf, inline, kernel, log, maximum, require
from iron.lang import shared, strided, unrolled, where

R, N = dims("R N")
T = dtypes("T", f32, f16, bf16)


@inline
def power(x, MATH):
    """e^x."""
    return fast_exp(x) if MATH == "fast" else exp(x)


@inline
def score(x, mask, i, scale, VEC):
    """VEC scaled and masked neighbours of a row in f32."""
    s = x[i : i + VEC].to(f32) * scale
    return s if mask is None else s + mask[i : i + VEC].to(f32)


@inline
def peak(top, sink, ZERO):
    """The greatest score of the group's row and its sink; with `ZERO`, 0 in place of -inf."""
    top = group_max(top)
    if sink is not None:
        top = maximum(top, sink)
    return where(top == -inf, 0.0, top) if ZERO else top


@inline
def factors(total, top, sink, ZERO, MATH):
    """(log of the row's sum, its reciprocal); with `ZERO`, a sum of 0 has the reciprocal 0."""
    total = group_sum(total)
    if sink is not None:
        total += power(sink - top, MATH)
    inverse = fast_rcp(total) if MATH == "fast" else 1.0 / total
    return log(total), where(total == 0.0, 0.0, inverse) if ZERO else inverse


@inline
def held_softmax(x, mask, sink, y, scale, at, LOG, ZERO, MATH, VEC, T):
    """One row, read once into the chunks that start at the places `at`."""
    held = [score(x, mask, i, scale, VEC) for i in at]
    top = f32(-inf)
    for c in unrolled(len(at)):
        top = maximum(top, held[c].max())
    top = peak(top, sink, ZERO)

    below = [chunk - top for chunk in held]
    powers = [power(chunk, MATH) for chunk in below]
    total = f32(0)
    for c in unrolled(len(at)):
        total += powers[c].sum()
    shift, inverse = factors(total, top, sink, ZERO, MATH)
    for c in unrolled(len(at)):
        out = below[c] - shift if LOG else powers[c] * inverse
        y[at[c] : at[c] + VEC] = out.to(T)


@inline
def read_softmax(x, mask, sink, y, scale, LOG, ZERO, MATH, VEC, STAGE, T):
    """One row, read three times, or twice with its exponentials kept in STAGE elements."""
    N = x.shape[0]
    top = f32(-inf)
    for i in strided(N, VEC):
        top = maximum(top, score(x, mask, i, scale, VEC).max())
    top = peak(top, sink, ZERO)

    kept = shared((STAGE or 1,), f32)
    total = f32(0)
    for i in strided(N, VEC):
        part = power(score(x, mask, i, scale, VEC) - top, MATH)
        total += part.sum()
        if STAGE:
            kept[i : i + VEC] = part
    shift, inverse = factors(total, top, sink, ZERO, MATH)
    for i in strided(N, VEC):
        if STAGE:
            y[i : i + VEC] = (kept[i : i + VEC] * inverse).to(T)
        else:
            s = score(x, mask, i, scale, VEC) - top
            y[i : i + VEC] = (s - shift if LOG else power(s, MATH) * inverse).to(T)


def whole(N):
    """Row lengths worth a form of their own; others share one."""
    return N in (1024, 2048, 4096, 8192, 16384)


@kernel(
    variants={"LOG": [False, True]},
    choose={"VEC": {"gpu": [8, 4, 1], "cpu": [1, 4]}},
    schedule={"cpu": {"THREADS": 32, "KEPT": True}},
    tune={"THREADS": [64, 128, 256, 512]},
)
def softmax(
    x: In[T, R, N],
    mask: In[T, R, N] | None,
    sink: In[f32, R] | None,
    y: Out[T, R, N],
    scale: Scalar[f32],
    *,
    LOG: Const = False,
    ZERO: Const = False,
    MATH: Const = lambda T: math_of(T),
    KEPT: Const = False,
    STAGE: Const = lambda N, LOG, KEPT: N if KEPT and not LOG and whole(N) else 0,
    VEC: Const = 1,
    THREADS: Const = lambda N, VEC: row_threads(N, VEC),
    HELD: Const = lambda N, VEC, THREADS, KEPT: 0 if KEPT else held_chunks(N, VEC, THREADS),
):
    """One group per row; sums are f32. `LOG` gives log(y).

    The row is read three times, or once into HELD chunks a thread; with STAGE, the row's length,
    the exponentials are kept in group memory and computed once.
    MATH is `precise` or `fast`, as of `unary`. A row of nothing but -inf gives NaN, as the formula
    says; with `ZERO`, zeros.
    """
    (row,) = groups(R, threads=THREADS)
    require(N % VEC == 0, "the row length N must be a multiple of VEC")
    require(VEC * T.bytes <= WORD, "VEC elements are one word")
    require(not HELD or N == HELD * VEC * THREADS, "HELD chunks a thread make a row")
    added = mask[row] if mask is not None else None
    extra = sink[row] if sink is not None else None
    if HELD:
        at = owned(HELD, VEC, THREADS)
        held_softmax(x[row], added, extra, y[row], scale, at, LOG, ZERO, MATH, VEC, T)
    else:
        read_softmax(x[row], added, extra, y[row], scale, LOG, ZERO, MATH, VEC, STAGE, T)


@softmax.oracle
def _(x, mask, sink, scale, LOG):
    s = x * scale + (0 if mask is None else mask)
    extra = np.full((len(s), 1), -np.inf) if sink is None else sink[:, None]
    top = np.maximum(s.max(-1, keepdims=True), extra)
    s = s - top
    total = np.exp(s).sum(-1, keepdims=True) + np.exp(extra - top)
    return {"y": s - np.log(total) if LOG else np.exp(s) / total}


@softmax.case(R=[1, 3], N=[33, 520], MASK=[False, True], tol=SOFT)
def _(rng, R, N, MASK):
    mask = np.where(rng.uniform(R, N) < 0.3, -np.inf, rng.normal(R, N)) if MASK else None
    return {"x": rng.normal(R, N) * 3, "mask": mask, "sink": None, "scale": 0.7}


@softmax.case(R=[3], N=[33], T=[f32], tol=SOFT)
def _(rng, R, N):
    return {"x": rng.normal(R, N), "mask": None, "sink": np.array([0.5, 150.0, 3]), "scale": 1.0}


@softmax.case(R=[3], N=[33], tol=SOFT)
def _(rng, R, N):
    x = rng.normal(R, N)
    x[np.arange(R), [32, 0, 31]] = 150.0  # exp overflows for a shift that misses it
    return {"x": x, "mask": None, "sink": None, "scale": 1.0}


@softmax.case(R=[2], N=[2048], tol=SOFT)
def _(rng, R, N):
    return {"x": rng.normal(R, N) * 3, "mask": None, "sink": None, "scale": 0.7}


@softmax.case(R=[1, 3], N=[1], tol=SOFT, degenerate="a row of one element is 1")
def _(rng, R, N):
    return {"x": rng.normal(R, N), "mask": None, "sink": None, "scale": 1.0}


softmax.bench(
    R=[4096, 16384],
    N=4096,
    flops=lambda R, N: 5 * R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N), "mask": None, "scale": 1.0},
)
softmax.bench(
    R=8192,
    N=8192,
    flops=lambda R, N: 5 * R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N), "mask": None, "scale": 1.0},
)
softmax.bench(
    R=[1, 64],
    N=128256,
    flops=lambda R, N: 5 * R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N), "mask": None, "scale": 1.0},
)
softmax.bench(
    R=4096,
    N=32768,
    T=[f16, bf16],
    flops=lambda R, N: 5 * R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N), "mask": None, "scale": 1.0},
)
