"""Layer normalisation of each row:  y[r, i] = (x[r, i] - mu) / sqrt(var + eps) * w[i] + b[i].

mu and var are the mean and the biased variance of the row.

Source: Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv:1607.06450), eq. 4. The mean is
taken twice, the second time of the residuals, as in Chan, Golub and LeVeque 1983 (corrected
two-pass algorithm), so that rows whose mean is far above their spread keep their digits.
"""

import numpy as np

from iron.kernels.rows import WORD, held_chunks, owned, row_threads
from iron.lang import RED, Const, In, Out, Scalar, bf16, dims, dot, dtypes, f16, f32, group_sum
from iron.lang import groups, inline, kernel, require, rsqrt, strided, unrolled

R, N = dims("R N")
T = dtypes("T", f32, f16, bf16)


@inline
def affine(unit, w, b, at, VEC):
    """unit * w + b of VEC neighbours, of what there is."""
    if w is not None:
        unit = unit * w[at : at + VEC].to(f32)
    return unit if b is None else unit + b[at : at + VEC].to(f32)


@kernel(
    choose={"VEC": {"gpu": [8, 4, 1], "cpu": [1, 4]}},
    schedule={"cpu": {"THREADS": 32}},
    tune={"THREADS": [64, 128, 256, 512]},
)
def layer_norm(
    x: In[T, R, N],
    w: In[T, N] | None,
    b: In[T, N] | None,
    y: Out[T, R, N],
    eps: Scalar[f32],
    *,
    VEC: Const = 1,
    THREADS: Const = lambda N, VEC: row_threads(N, VEC),
    HELD: Const = lambda N, VEC, THREADS: held_chunks(N, VEC, THREADS),
):
    """One group per row, read three times, or once into HELD chunks a thread; all sums are f32.

    The first mean is only a point near the row; the residual of the mean about it is subtracted
    from each residual, never added to the first mean, which would round it away.
    """
    (row,) = groups(R, threads=THREADS)
    require(N % VEC == 0, "the row length N must be a multiple of VEC")
    require(VEC * T.bytes <= WORD, "VEC elements are one word")
    require(not HELD or N == HELD * VEC * THREADS, "HELD chunks a thread make a row")
    size = HELD * VEC * THREADS if HELD else N
    rest_of = 0 if HELD else N
    places = owned(HELD, VEC, THREADS)
    held = [x[row, i : i + VEC].to(f32) for i in places]
    total = f32(0)
    for c in unrolled(HELD):
        total += held[c].sum()
    for i in strided(rest_of, VEC):
        total += x[row, i : i + VEC].to(f32).sum()
    guess = group_sum(total) / size

    sums, squares = f32(0), f32(0)
    for c in unrolled(HELD):
        d = held[c] - guess
        sums += d.sum()
        squares += dot(d, d)
    for i in strided(rest_of, VEC):
        d = x[row, i : i + VEC].to(f32) - guess
        sums += d.sum()
        squares += dot(d, d)
    sums, squares = group_sum(sums, squares)
    rest = sums / size
    scale = rsqrt((squares - sums * rest) / size + eps)

    for c in unrolled(HELD):
        i = places[c]
        out = affine(((held[c] - guess) - rest) * scale, w, b, i, VEC)
        y[row, i : i + VEC] = out.to(T)
    for i in strided(rest_of, VEC):
        out = affine(((x[row, i : i + VEC].to(f32) - guess) - rest) * scale, w, b, i, VEC)
        y[row, i : i + VEC] = out.to(T)


@layer_norm.oracle
def _(x, w, b, eps):
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    unit = (x - x.mean(-1, keepdims=True)) * scale
    weight = 1.0 if w is None else w
    y = unit * weight + (0 if b is None else b)
    return {"y": y}, {"y": (1 + np.abs(unit)) * np.abs(weight) + np.abs(y)}


@layer_norm.case(R=[2], N=[2048], tol=RED("N"))
def _(rng, R, N, T):
    mean = 1000.0 if T is f32 else 0.5
    return {"x": rng.normal(R, N) + mean, "w": rng.normal(N), "b": rng.normal(N), "eps": 0.1}


@layer_norm.case(R=[1, 3], N=[33, 129, 260], AFFINE=[0, 1, 2], tol=RED("N"))
def _(rng, R, N, AFFINE, T):
    w, b = rng.normal(N) if AFFINE else None, rng.normal(N) if AFFINE == 2 else None
    mean = 1000.0 if T is f32 else 0.5  # far above the spread, where the type can hold both
    return {"x": rng.normal(R, N) + mean, "w": w, "b": b, "eps": 0.1}


layer_norm.bench(
    R=[64, 4096, 8192, 16384],
    N=4096,
    flops=lambda R, N: 8 * R * N,
    make=lambda rng, R, N: {
        "x": rng.normal(R, N), "w": rng.normal(N), "b": rng.normal(N), "eps": 1e-5,
    },
)  # fmt: skip
