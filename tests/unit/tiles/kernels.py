"""Tile kernels from source, as the road of one target sees them."""

from dataclasses import replace
from typing import Any

import numpy as np

from iron.compiler import lower
from iron.dtypes import bf16, f16
from iron.ir.core import Kernel
from iron.lang import (
    Const,
    In,
    KernelFunction,
    Out,
    Scalar,
    dims,
    dtypes,
    f32,
    grouped,
    groups,
    iota,
    kernel,
    maximum,
    mma,
    pipelined,
    where,
    zeros,
)
from iron.targets.nvidia import SM_90A
from tests.unit.front.trial import read

M, N, K = dims("M N K")
T = dtypes("T", f16, bf16)


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
):
    """c = a.T @ b"""
    A, B, C = a.tiles(BK, BM), b.tiles(BK, BN), c.tiles(BM, BN)
    m, n = groups(*C.grid, order=grouped(2, axis=1))
    acc = zeros((BM, BN), f32)
    for k in pipelined(A.grid[0], stages=STAGES):
        acc = mma(A[k, m].T, B[k, n], acc)
    C[m, n] = acc.to(T)


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


def small(rng: np.random.Generator, *shape: int, dtype: Any = bf16) -> Any:
    """Integers whose products are summed exactly."""
    return rng.integers(-2, 3, shape).astype(dtype.np)


def empty(*shape: int, dtype: Any = bf16) -> Any:
    """NaN everywhere."""
    return np.full(shape, np.nan, np.float32).astype(dtype.np)


def tiles_of(fn: KernelFunction, arrays: dict[str, Any], **consts: Any) -> Kernel:
    """The kernel of tiles of one call."""
    return read(fn, 32, **arrays, **consts)


def special(fn: KernelFunction, arrays: dict[str, Any], **consts: Any) -> Kernel:
    """What sm_90a prefers, after every pass."""
    made = lower(tiles_of(fn, arrays, **consts), SM_90A).preferred
    assert made is not None
    return replace(made, preferred=None)
