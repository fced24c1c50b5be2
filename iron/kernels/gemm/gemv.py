"""Product of a matrix with few vectors:  y[m, n] = sum_k w[n, k] * x[m, k] + bias[n].

Source: the definition.
"""

import numpy as np

from iron.lang import DOT, Const, In, Out, bf16, cdiv, dims, dtypes, f16, f32, group_sum
from iron.lang import groups, kernel, minimum, require, thread, unrolled

M, N, K = dims("M N K")
T = dtypes("T", f32, f16, bf16)


@kernel(
    choose={"VEC": {"gpu": [4, 1], "cpu": [1, 4]}},
    schedule={"cpu": {"ROWS": 4}},
    tune={"TEAM": [8, 16, 32], "THREADS": [64, 128, 256]},
)
def gemv(
    x: In[T, M, K],
    w: In[T, N, K],
    bias: In[T, N] | None,
    y: Out[T, M, N],
    *,
    VEC: Const = 1,
    TEAM: Const = 32,
    THREADS: Const = 128,
    ROWS: Const = 1,
):
    """One team of TEAM threads per ROWS // M rows of w; M is compiled in, 1 to 8. Sums are f32.

    What a team reads of x serves all of its rows, which lie as many apart as the group has teams.
    """
    teams, rows = max(1, THREADS // TEAM), max(1, ROWS // M)
    (group,) = groups(cdiv(N, teams * rows), threads=THREADS)
    require(TEAM <= THREADS, "a team of threads is part of a group")
    require(M <= 8, "gemv takes at most 8 vectors; use gemm for more")
    require(K % VEC == 0, "the row length K must be a multiple of VEC")
    first = group * (teams * rows) + thread // TEAM

    acc = [[f32(0) for _ in unrolled(M)] for _ in unrolled(rows)]
    for c in range(thread % TEAM, K // VEC, TEAM):
        xs = [x[m, c * VEC : c * VEC + VEC].to(f32) for m in unrolled(M)]
        for r in unrolled(rows):
            weights = w[minimum(first + r * teams, N - 1), c * VEC : c * VEC + VEC].to(f32)
            for m in unrolled(M):
                for e in unrolled(VEC):
                    acc[r][m] = acc[r][m] + weights[e] * xs[m][e]
    for r in unrolled(rows):
        n = first + r * teams
        for m in unrolled(M):
            total = group_sum(acc[r][m], width=TEAM)
            if (thread % TEAM == 0) & (n < N):
                if bias is not None:
                    total = total + bias[n].to(f32)
                y[m, n] = total.to(T)


@gemv.oracle
def _(x, w, bias):
    parts = x[:, None, :] * w[None]
    extra = 0 if bias is None else bias
    size = np.abs(parts).sum(-1) + np.abs(extra)
    return {"y": parts.sum(-1) + extra}, {"y": (np.sqrt((parts**2).sum(-1)), size)}


@gemv.case(M=[1, 3], N=[1, 33], K=[1, 65, 300], BIAS=[False, True], tol=DOT)
def _(rng, M, N, K, BIAS):
    bias = rng.normal(N) if BIAS else None
    return {"x": rng.normal(M, K), "w": rng.normal(N, K), "bias": bias}


@gemv.case(M=[3], N=[33], K=[65, 132], TEAM=[8], THREADS=[64], ROWS=[1, 6], tol=DOT)
def _(rng, M, N, K):
    return {"x": rng.normal(M, K), "w": rng.normal(N, K), "bias": rng.normal(N)}


gemv.bench(
    M=1,
    N=[4096, 14336],
    K=4096,
    flops=lambda M, N, K: 2 * M * N * K,
    make=lambda rng, M, N, K: {"x": rng.normal(M, K), "w": rng.normal(N, K), "bias": None},
)
