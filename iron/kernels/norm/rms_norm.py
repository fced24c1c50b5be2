"""RMS normalisation of each row:  y[r, i] = x[r, i] / sqrt(mean_j(x[r, j]^2) + eps) * w[i].

Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv:1910.07467), eq. 4;
the weight 1 + w is that of Gemma.
"""

import numpy as np

from iron.kernels.rows import WORD, held_chunks, owned, row_threads
from iron.lang import ELT, RED, Const, In, Out, Scalar, bf16, dims, dot, dtypes, f16, f32
from iron.lang import group_sum, groups, inline, kernel, require, rsqrt, strided, unrolled

R, N = dims("R N")
T = dtypes("T", f32, f16, bf16)


@inline
def weighted(unit, w, at, VEC, ONE_PLUS, ROUNDED, T):
    """`unit` times the weight of its elements; `ROUNDED` rounds it to T first."""
    if ROUNDED:
        unit = unit.to(T).to(f32)
    if w is None:
        return unit
    scale = w[at : at + VEC].to(f32)
    return unit * (1.0 + scale) if ONE_PLUS else unit * scale


@inline
def summed(x, residual, at, VEC):
    """VEC neighbours of both rows in f32, added."""
    return x[at : at + VEC].to(f32) + residual[at : at + VEC].to(f32)


@kernel(
    choose={"VEC": {"gpu": [8, 4, 1], "cpu": [1, 4]}},
    schedule={"cpu": {"THREADS": 32}},
    tune={"THREADS": [64, 128, 256, 512]},
)
def rms_norm(
    x: In[T, R, N],
    w: In[T, N] | None,
    residual: In[T, R, N] | None,
    y: Out[T, R, N],
    eps: Scalar[f32],
    *,
    ONE_PLUS: Const = False,
    ROUNDED: Const = False,
    L2: Const = False,
    VEC: Const = 1,
    THREADS: Const = lambda N, VEC: row_threads(N, VEC),
    HELD: Const = lambda N, VEC, THREADS: held_chunks(N, VEC, THREADS),
):
    """One group per row. A residual is added to the weighted result (y = residual + norm(x) * w).

    The sum of squares is taken in f32 whatever T is and overflows only for f32 rows beyond 1e19.
    `L2` divides by sqrt(sum + eps), not by sqrt(mean + eps). `ROUNDED` rounds the normalised row
    to T before the weight, as Llama-type models in 16 bits do. `x` is read twice,
    or once where a thread has HELD chunks of it in registers.
    """
    (row,) = groups(R, threads=THREADS)
    require(N % VEC == 0, "the row length N must be a multiple of VEC")
    require(VEC * T.bytes <= WORD, "VEC elements are one word")
    require(not HELD or N == HELD * VEC * THREADS, "HELD chunks a thread make a row")
    size = HELD * VEC * THREADS if HELD else N

    squares = f32(0)
    places = owned(HELD, VEC, THREADS)
    held = [x[row, i : i + VEC].to(f32) for i in places]
    for c in unrolled(HELD):
        squares += dot(held[c], held[c])
    for i in strided(0 if HELD else N, VEC):
        chunk = x[row, i : i + VEC].to(f32)
        squares += dot(chunk, chunk)
    total = group_sum(squares)
    scale = rsqrt(total + eps) if L2 else rsqrt(total / size + eps)

    for c in unrolled(HELD):
        i = places[c]
        out = weighted(held[c] * scale, w, i, VEC, ONE_PLUS, ROUNDED, T)
        if residual is not None:
            out = residual[row, i : i + VEC].to(f32) + out
        y[row, i : i + VEC] = out.to(T)
    for i in strided(0 if HELD else N, VEC):
        unit = x[row, i : i + VEC].to(f32) * scale
        out = weighted(unit, w, i, VEC, ONE_PLUS, ROUNDED, T)
        if residual is not None:
            out = residual[row, i : i + VEC].to(f32) + out
        y[row, i : i + VEC] = out.to(T)


@kernel(
    choose={"VEC": {"gpu": [8, 4, 1], "cpu": [1, 4]}},
    schedule={"cpu": {"THREADS": 32}},
    tune={"THREADS": [64, 128, 256, 512]},
)
def add_rms_norm(
    x: In[T, R, N],
    residual: In[T, R, N],
    w: In[T, N],
    y: Out[T, R, N],
    h: Out[T, R, N],
    eps: Scalar[f32],
    *,
    ONE_PLUS: Const = False,
    VEC: Const = 1,
    THREADS: Const = lambda N, VEC: row_threads(N, VEC),
    HELD: Const = lambda N, VEC, THREADS: held_chunks(N, VEC, THREADS),
):
    """h = x + residual, and y = h / sqrt(mean(h^2) + eps) * w, one group per row.

    The statistic uses the sum in f32, before `h` is rounded to T.
    """
    (row,) = groups(R, threads=THREADS)
    require(N % VEC == 0, "the row length N must be a multiple of VEC")
    require(VEC * T.bytes <= WORD, "VEC elements are one word")
    require(not HELD or N == HELD * VEC * THREADS, "HELD chunks a thread make a row")
    size = HELD * VEC * THREADS if HELD else N

    squares = f32(0)
    places = owned(HELD, VEC, THREADS)
    held = [summed(x[row], residual[row], i, VEC) for i in places]
    for c in unrolled(HELD):
        squares += dot(held[c], held[c])
    for i in strided(0 if HELD else N, VEC):
        chunk = summed(x[row], residual[row], i, VEC)
        squares += dot(chunk, chunk)
    scale = rsqrt(group_sum(squares) / size + eps)

    for c in unrolled(HELD):
        i = places[c]
        h[row, i : i + VEC] = held[c].to(T)
        y[row, i : i + VEC] = weighted(held[c] * scale, w, i, VEC, ONE_PLUS, False, T).to(T)
    for i in strided(0 if HELD else N, VEC):
        chunk = summed(x[row], residual[row], i, VEC)
        h[row, i : i + VEC] = chunk.to(T)
        y[row, i : i + VEC] = weighted(chunk * scale, w, i, VEC, ONE_PLUS, False, T).to(T)


def normalised(x, w, eps, ONE_PLUS, L2):
    """The formula in f64."""
    x = x.astype(np.float64)
    square = (x * x).sum(-1, keepdims=True) if L2 else (x * x).mean(-1, keepdims=True)
    weight = 1.0 if w is None else w.astype(np.float64) + ONE_PLUS
    return x / np.sqrt(square + eps) * weight


@rms_norm.oracle
def _(x, w, residual, eps, ONE_PLUS=False, L2=False):
    unit = normalised(x, w, eps, ONE_PLUS, L2)
    y = unit if residual is None else residual + unit
    return {"y": y}, {"y": np.abs(unit) + np.abs(y)}


@rms_norm.case(R=[1, 3], N=[4, 129, 1000], tol=RED("N"))
def _(rng, R, N):
    return {"x": rng.normal(R, N), "w": rng.normal(N), "residual": None, "eps": 1e-5}


@rms_norm.case(R=[2], N=[2048], tol=RED("N"))
def _(rng, R, N):
    return {"x": rng.normal(R, N), "w": rng.normal(N), "residual": rng.normal(R, N), "eps": 1e-5}


@rms_norm.case(R=[3], N=[33], L2=[False, True], ONE_PLUS=[False, True], tol=RED("N"))
def _(rng, R, N, L2):
    size = 1e-3 if L2 else 1.0  # where the two meanings of eps differ most
    return {"x": rng.normal(R, N) * size, "w": rng.normal(N), "residual": None, "eps": 1e-5}


@rms_norm.case(R=[3], N=[33], WEIGHT=[False, True], ROUNDED=[False, True], tol=RED("N"))
def _(rng, R, N, WEIGHT, ROUNDED):
    w = rng.normal(N) if WEIGHT else None
    residual = None if ROUNDED else rng.normal(R, N)
    return {"x": rng.normal(R, N), "w": w, "residual": residual, "eps": 0.1}


@add_rms_norm.oracle
def _(x, residual, w, eps, ONE_PLUS=False):
    h = x + residual
    y = normalised(h, w, eps, ONE_PLUS, False)
    return {"y": y, "h": h}, {"y": np.abs(y), "h": np.abs(h)}


@add_rms_norm.case(R=[1, 3], N=[129, 260], ONE_PLUS=[False, True], tol={"y": RED("N"), "h": ELT})
def _(rng, R, N):
    return {"x": rng.normal(R, N), "residual": rng.normal(R, N), "w": rng.normal(N), "eps": 1e-5}


rms_norm.bench(
    R=[64, 4096, 16384],
    N=4096,
    flops=lambda R, N: 4 * R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N), "w": rng.normal(N), "eps": 1e-5},
)
rms_norm.bench(
    R=8192,
    N=8192,
    flops=lambda R, N: 4 * R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N), "w": rng.normal(N), "eps": 1e-5},
)
add_rms_norm.bench(R=[1024, 8192], N=4096, flops=lambda R, N: 5 * R * N)
