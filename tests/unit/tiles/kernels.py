"""Tile kernels from source, as the road of one target sees them."""

from typing import Any

import ml_dtypes
import numpy as np

from iron.analysis.check import check
from iron.compiler import preferred
from iron.dtypes import bf16, f16
from iron.ir.core import Kernel
from iron.ir.text import print_kernel
from iron.lang import (
    Const,
    In,
    KernelFunction,
    Out,
    Scalar,
    cdiv,
    dims,
    dtypes,
    f32,
    fast_exp2,
    fast_rcp,
    full,
    grouped,
    groups,
    i8,
    i32,
    inf,
    iota,
    kernel,
    log2,
    maximum,
    mma,
    pipelined,
    require,
    u8,
    u32,
    where,
    zeros,
)
from iron.targets.nvidia import SM_90A
from tests.unit.front.trial import read

M, N, K, H, G, S, L, D, P = dims("M N K H G S L D P")
T = dtypes("T", f16, bf16)
X, Y = dtypes("X", f32, i8, u8), dtypes("Y", f32, i32)


@kernel
def product_nt(
    a: In[T, M, K],
    b: In[T, N, K],
    c: Out[T, M, N],
    *,
    BM: Const = 64,
    BN: Const = 64,
    BK: Const = 64,
    STAGES: Const = 2,
    CONSUMERS: Const = 0,
    PERSISTENT: Const = 0,
    TRANSPOSED: Const = 0,
):
    """c = a @ b.T"""
    A, B, C = a.tiles(BM, BK), b.tiles(BN, BK), c.tiles(BM, BN)
    m, n = groups(*C.grid, order=grouped(2))
    acc = zeros((BM, BN), f32)
    for k in pipelined(A.grid[1], stages=STAGES):
        acc = mma(A[m, k], B[n, k].T, acc)
    C[m, n] = acc.to(T)


@kernel
def product_tn(
    a: In[T, K, M],
    b: In[T, K, N],
    c: Out[T, M, N],
    *,
    BM: Const = 64,
    BN: Const = 64,
    BK: Const = 64,
    STAGES: Const = 2,
    CONSUMERS: Const = 0,
    PERSISTENT: Const = 0,
    TRANSPOSED: Const = 0,
):
    """c = a.T @ b"""
    A, B, C = a.tiles(BK, BM), b.tiles(BK, BN), c.tiles(BM, BN)
    m, n = groups(*C.grid, order=grouped(2, axis=1))
    acc = zeros((BM, BN), f32)
    for k in pipelined(A.grid[0], stages=STAGES):
        acc = mma(A[k, m].T, B[k, n], acc)
    C[m, n] = acc.to(T)


@kernel
def other_factors(
    a: In[X, M, K],
    b: In[X, N, K],
    c: Out[Y, M, N],
    *,
    MATH: Const = "strict",
    BM: Const = 64,
    BN: Const = 64,
    BK: Const = 32,
    STAGES: Const = 2,
    TRANSPOSED: Const = 0,
):
    """c = a @ b.T as it is summed."""
    A, B, C = a.tiles(BM, BK), b.tiles(BN, BK), c.tiles(BM, BN)
    m, n = groups(*C.grid)
    acc = zeros((BM, BN), Y)
    for k in pipelined(A.grid[1], stages=STAGES):
        acc = mma(A[m, k], B[n, k].T, acc, math=MATH)
    C[m, n] = acc


@kernel
def two_products(
    a: In[T, M, K],
    g: In[T, N, K],
    u: In[T, N, K],
    c: Out[T, M, N],
    *,
    BM: Const = 64,
    BN: Const = 64,
    BK: Const = 64,
    STAGES: Const = 2,
    PERSISTENT: Const = 0,
):
    """c = (a @ g.T) * (a @ u.T) + 1"""
    A, G, U, C = a.tiles(BM, BK), g.tiles(BN, BK), u.tiles(BN, BK), c.tiles(BM, BN)
    m, n = groups(*C.grid)
    left, right = zeros((BM, BN), f32), zeros((BM, BN), f32)
    for k in pipelined(A.grid[1], stages=STAGES):
        x = A[m, k]
        left = mma(x, G[n, k].T, left)
        right = mma(x, U[n, k].T, right)
    C[m, n] = (left * right + 1.0).to(T)


@kernel
def epilogues(
    a: In[T, M, K],
    b: In[T, N, K],
    bias: In[T, N],
    rest: In[T, M, N],
    c: Out[T, M, N],
    d: Out[f32, M, N],
    s: Scalar[f32],
    *,
    BM: Const = 64,
    BN: Const = 64,
    BK: Const = 64,
    STAGES: Const = 2,
    TRANSPOSED: Const = 0,
):
    """c = relu(s * a @ b.T + bias) + rest above the diagonal, d the same in f32 everywhere."""
    A, B, C = a.tiles(BM, BK), b.tiles(BN, BK), c.tiles(BM, BN)
    m, n = groups(*C.grid)
    acc = zeros((BM, BN), f32)
    for k in pipelined(A.grid[1], stages=STAGES):
        acc = mma(A[m, k], B[n, k].T, acc)
    out = maximum(acc * s + bias.tiles(BN)[n].to(f32)[None, :], 0.0)
    out = out + rest.tiles(BM, BN)[m, n].to(f32)
    d.tiles(BM, BN)[m, n] = out
    above = (m * BM + iota(BM))[:, None] <= (n * BN + iota(BN))[None, :]
    C[m, n] = where(above, out, 7.0).to(T)


@kernel
def slanted(
    a: In[T, M, K],
    b: In[T, N, K],
    table: In[f32, L],
    c: Out[T, M, N],
    *,
    BM: Const = 64,
    BN: Const = 64,
):
    """c = a @ b.T + table[3 + column - row], where the table has that and the column is not 5."""
    A, B, C = a.tiles(BM, 64), b.tiles(BN, 64), c.tiles(BM, BN)
    m, n = groups(*C.grid)
    acc = zeros((BM, BN), f32)
    for k in pipelined(A.grid[1], stages=2):
        acc = mma(A[m, k], B[n, k].T, acc)
    rows, cols = m * BM + iota(BM)[:, None], n * BN + iota(BN)[None, :]
    C[m, n] = (acc + table.gather(3 + cols - rows, keep=cols != 5)).to(T)


@kernel
def convolution(
    x: In[T, P, M, N, D],
    w: In[T, L, S, S, D],
    y: Out[T, P, M, N, L],
    *,
    SIDES: Const = (1, 8, 8),
    BN: Const = 64,
    PERSISTENT: Const = 0,
):
    """y = the sums of w over windows of S x S of x, 0 beyond its edges; channels are last."""
    X, Y = x.tiles(SIDES, 64), y.tiles(SIDES, BN)
    (images, down, across), deep = Y.grid
    p, i, j, o = groups(images, down, across, deep)
    acc, cuts = zeros((SIDES[0] * SIDES[1] * SIDES[2], BN), f32), cdiv(D, 64)
    for t in pipelined(S * S * cuts, stages=3):
        c, r, s = t % cuts, t // cuts // S, t // cuts % S
        first = (p * SIDES[0], i * SIDES[1] + r - S // 2, j * SIDES[2] + s - S // 2)
        acc = mma(X.at(first, c * 64), w[:, r, s].tiles(BN, 64)[o, c].T, acc)
    Y[(p, i, j), o] = acc.to(T)


@kernel
def parts(
    a: In[T, M, K],
    b: In[T, N, K],
    first: In[u32, P],
    used: In[u32, P],
    c: Out[T, M, N],
    *,
    BM: Const = 64,
    BN: Const = 64,
    PERSISTENT: Const = 0,
):
    """c = a @ b.T for the rows first[p] to first[p + 1] - 1, with the first used[p] rows of b."""
    m, n, p = groups(cdiv(M, BM), cdiv(N, BN), P - 1)
    low, high = first[p].to(i32), first[p + 1].to(i32)
    A, B = a[low:high].tiles(BM, 64), b[: used[p].to(i32)].tiles(BN, 64)
    acc = zeros((BM, BN), f32)
    for k in pipelined(A.grid[1], stages=2):
        acc = mma(A[m, k], B[n, k].T, acc)
    c[low:high].tiles(BM, BN)[m, n] = acc.to(T)


@kernel
def attention(
    q: In[T, H, S, D],
    k: In[T, G, L, D],
    v: In[T, G, L, D],
    o: Out[T, H, S, D],
    lse: Out[f32, H, S],
    scale: Scalar[f32],
    *,
    CAUSAL: Const = False,
    BM: Const = 64,
    BN: Const = 64,
    HEAD: Const = 64,
    STAGES: Const = 2,
    PERSISTENT: Const = 0,
    OVERLAP: Const = 0,
    PINGPONG: Const = 0,
):
    """Softmax attention of H heads over G heads of keys; `lse` in powers of 2."""
    i, h = groups(cdiv(S, BM), H)
    require(H % G == 0, "query heads are a multiple of key heads")
    require(scale > 0, "the scale is above 0")
    g = h * G // H
    query = q[h].tiles(BM, HEAD)[i, 0]
    keys, values = k[g].tiles(BN, HEAD), v[g].tiles(BN, HEAD)
    rows = i * BM + iota(BM) + (L - S)
    top, norm, acc = full((BM,), -inf, f32), zeros((BM,), f32), zeros((BM, HEAD), f32)
    seen = min(L, (i + 1) * BM + L - S) if CAUSAL else L
    for j in pipelined(cdiv(seen, BN), stages=STAGES):
        score = mma(query, keys[j, 0].T, zeros((BM, BN), f32)) * (scale * 1.4426950408889634)
        cols = j * BN + iota(BN)
        keep = cols[None, :] < L
        if CAUSAL:
            keep = keep & (cols[None, :] <= rows[:, None])
        score = where(keep, score, -inf)
        peak = maximum(top, score.max(axis=1))
        safe = where(peak == -inf, 0.0, peak)
        weight = fast_exp2(score - safe[:, None])
        decay = fast_exp2(top - safe)
        norm = norm * decay + weight.sum(axis=1)
        acc = mma(weight.to(T), values[j, 0], acc * decay[:, None])
        top = peak
    o[h].tiles(BM, HEAD)[i, 0] = where(norm[:, None] == 0.0, 0.0, acc * fast_rcp(norm)[:, None]).to(
        T
    )
    lse[h].tiles(BM)[i] = where(norm == 0.0, -inf, top + log2(norm))


def small(rng: np.random.Generator, *shape: int, dtype: Any = bf16) -> Any:
    """Integers whose products are summed exactly."""
    return rng.integers(-2, 3, shape).astype(dtype.np)


BYTES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def empty(*shape: int, dtype: Any = bf16) -> Any:
    """NaN everywhere."""
    return np.full(shape, np.nan, np.float32).astype(dtype.np)


def tiles_of(fn: KernelFunction, arrays: dict[str, Any], **consts: Any) -> Kernel:
    """The kernel of tiles of one call."""
    return read(fn, 32, **arrays, **consts)


def special(fn: KernelFunction, arrays: dict[str, Any], **consts: Any) -> Kernel:
    """What sm_90a prefers, after every pass; made once for each source."""
    source = tiles_of(fn, arrays, **consts)
    text = print_kernel(source)
    if text not in MADE:
        check(source)
        made = preferred(source, SM_90A)
        assert made is not None
        MADE[text] = made
    return MADE[text]


MADE: dict[str, Kernel] = {}
