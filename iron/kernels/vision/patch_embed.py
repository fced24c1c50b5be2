"""Patches of images as tokens:

y[b, p, n] = sum_k w[n, k] * x[b, c, SIDE py + i, SIDE px + j] + bias[n] + place[p, n],
p = py * (W // SIDE) + px; k counts (c, i, j), or (i, j, c) with ORDER "yxc", the last fastest.

Source: Dosovitskiy et al. 2021 (arXiv:2010.11929, equation 1).
"""

import numpy as np

from iron.lang import DOT, Const, In, Out, bf16, cdiv, dims, dtypes, f16, f32, groups, inline, iota
from iron.lang import kernel, mma, next_pow2, pipelined, require, zeros

B, C, H, W, N, SIDE = dims("B C H W N SIDE")
T = dtypes("T", f32, f16, bf16)


@inline
def parts(k, C, SIDE, ORDER):
    """(channel, row, column) of element k of a patch."""
    if ORDER == "yxc":
        return k % C, k // C // SIDE, k // C % SIDE
    return k // (SIDE * SIDE), k // SIDE % SIDE, k % SIDE


@kernel(
    variants={"ORDER": ["cyx", "yxc"]},
    schedule={"cpu": {"BM": 64, "BN": 64}, "cuda": {"BK": 64}},
    tune={"BM": [32, 64, 128], "BN": [64, 128, 256], "BK": [16, 32, 64]},
)
def patch_embed(
    x: In[T, B, C, H, W],
    w: In[T, N, C * SIDE * SIDE],
    bias: In[T, N] | None,
    place: In[T, H // SIDE * (W // SIDE), N] | None,
    y: Out[T, B, H // SIDE * (W // SIDE), N],
    *,
    SIDE: Const,
    ORDER: Const = "cyx",
    CHANNELS: Const = lambda C: C,
    BM: Const = 64,
    BN: Const = lambda N: min(128, max(16, next_pow2(N))),
    BK: Const = 32,
):
    """One group per BM patches of any images and BN features of each.

    Rows and columns that fill no patch are left out. Sums are f32, rounded once.
    """
    m, n = groups(cdiv(B * (H // SIDE) * (W // SIDE), BM), cdiv(N, BN))
    require((H >= SIDE) & (W >= SIDE), "an image must hold a patch")
    across, each = W // SIDE, H // SIDE * (W // SIDE)
    patch = m * BM + iota(BM)
    image, row, column = patch // each, patch % each // across, patch % across
    weights = w.tiles(BN, BK)

    acc = zeros((BM, BN), f32)
    for k in pipelined(cdiv(CHANNELS * SIDE * SIDE, BK), stages=2):
        c, i, j = parts(k * BK + iota(BK), CHANNELS, SIDE, ORDER)
        i = (row * SIDE)[:, None] + i[None, :]
        j = (column * SIDE)[:, None] + j[None, :]
        acc = mma(x.gather(image[:, None], c[None, :], i, j), weights[n, k].T, acc)

    if bias is not None:
        acc = acc + bias.tiles(BN)[n].to(f32)[None, :]
    column = (n * BN + iota(BN))[None, :]
    if place is not None:
        acc = acc + place.gather((patch % each)[:, None], column).to(f32)
    y.scatter(image[:, None], (patch % each)[:, None], column, value=acc.to(T))


@patch_embed.oracle
def _(x, w, bias, place, SIDE, ORDER="cyx"):
    B, C, H, W = x.shape
    rows, columns = H // SIDE, W // SIDE
    cut = x[:, :, : rows * SIDE, : columns * SIDE].reshape(B, C, rows, SIDE, columns, SIDE)
    order = (0, 2, 4, 1, 3, 5) if ORDER == "cyx" else (0, 2, 4, 3, 5, 1)
    patches = cut.transpose(order).reshape(B, rows * columns, -1)
    total, root = patches @ w.T, np.sqrt(patches**2 @ w.T**2)
    size = np.abs(patches) @ np.abs(w).T
    for extra in (bias, place):
        if extra is not None:
            total, size = total + extra, size + np.abs(extra)
    return {"y": total}, {"y": (root, size)}


def inputs(rng, B, C, H, W, N, SIDE):
    """Images, and weights whose sums are of the size of 1."""
    w = rng.normal(N, C * SIDE * SIDE) / np.sqrt(C * SIDE * SIDE)
    return {"x": rng.normal(B, C, H, W), "w": w, "bias": None, "place": None}


@patch_embed.case(
    B=[3],
    C=[3],
    H=[29],
    W=[33],
    N=[21],
    SIDE=[7, 14],
    BM=[16],
    BN=[16],
    BK=[16],
    T=[f32],
    tol=DOT,
)
def _(rng, B, C, H, W, N, SIDE):
    given = inputs(rng, B, C, H, W, N, SIDE)
    each = (H // SIDE) * (W // SIDE)
    return given | {"bias": rng.normal(N), "place": rng.normal(each, N)}


@patch_embed.case(B=[2], C=[3], H=[70], W=[57], N=[96], SIDE=[14], T=[f16, bf16], tol=DOT)
def _(rng, B, C, H, W, N, SIDE):
    return inputs(rng, B, C, H, W, N, SIDE)


patch_embed.bench(
    B=[16, 4], C=3, H=[384, 896], W=[384, 896], N=1152, SIDE=14, T=bf16, make=inputs,
    flops=lambda B, C, H, W, N, SIDE: 2 * B * (H // SIDE) * (W // SIDE) * C * SIDE * SIDE * N,
)  # fmt: skip
