"""Convolution of planar images, whose pixels are neighbours in memory, in tiles:

y[b, o, i, j] = ACT(sum_(c, r, s) w[o, c, r, s] * x[b, g D + c, i', j'] + bias[o]) + residual,
with i', j' and g as in `conv2d`; pixels outside of the image are 0.

Source: Chetlur et al. 2014 (arXiv:1410.0759, section 3): convolution as an implicit product.
"""

import numpy as np

from iron.kernels.convolution.conv2d import correlated, finished
from iron.kernels.convolution_tiles import box_of, channels_of, groups_of, height, moved, reach
from iron.kernels.convolution_tiles import tap, width
from iron.kernels.gemm_tiles import activated
from iron.lang import DOT, Const, In, Out, bf16, cdiv, dims, dtypes, f16, f32, groups, kernel, mma
from iron.lang import pipelined, require, zeros

B, H, W, C, N, R, S, D = dims("B H W C N R S D")
P, Q = dims("P Q")
T = dtypes("T", f32, f16, bf16)


@kernel(
    schedule={"cpu": {"BM": 64, "BN": 64}},
    tune={"BM": [32, 64, 128], "BN": [32, 64, 128], "BK": [16, 32, 64], "STAGES": [1, 2, 3, 4]},
)
def conv2d_planar(
    x: In[T, B, C, H, W],
    w: In[T, N, D, R, S],
    bias: In[T, N] | None,
    residual: In[T, B, N, P, Q] | None,
    y: Out[T, B, N, P, Q],
    *,
    STRIDE: Const = 1,
    PAD: Const = 0,
    DIL: Const = 1,
    P: Const = height,
    Q: Const = width,
    ACT: Const = "none",
    GROUPS: Const = groups_of,
    BM: Const = channels_of,
    BN: Const = 64,
    BK: Const = lambda D: 32 if D > 16 else 16,
    BOX: Const = lambda P, Q, BN: box_of((P, Q), BN),
    COLUMNS: Const = lambda S: S,
    CHUNKS: Const = lambda D, BK: cdiv(D, BK),
    STAGES: Const = 2,
):
    """One group per BM channels of one of GROUPS groups and BOX of BN pixels of one image.

    Sums and what follows them are f32, rounded once.
    """
    each, per = N // GROUPS, cdiv(N // GROUPS, BM)
    j, i, m, b = groups(cdiv(Q, BOX[1]), cdiv(P, BOX[0]), GROUPS * per, B)
    require(D * GROUPS == C, "the channels of x must be those of w times the groups")
    require(N % GROUPS == 0, "the channels of y must be a multiple of the groups")
    require((P > 0) & (Q > 0), "the filter must fit into the padded image")
    g, m = m // per, m % per
    mine, inside = x[b, g * D : (g + 1) * D], w[g * each : (g + 1) * each]

    acc = zeros((BM, BN), f32)
    for k in pipelined(R * COLUMNS * CHUNKS, stages=STAGES):
        r, s, c = tap(k, COLUMNS, CHUNKS)
        (top, up), (left, along) = moved(r, STRIDE, PAD, DIL), moved(s, STRIDE, PAD, DIL)
        pixels = mine[:, top::STRIDE, left::STRIDE].tiles(BK, BOX)
        place = (i * BOX[0] + up, j * BOX[1] + along)
        acc = mma(inside[:, :, r, s].tiles(BM, BK)[m, c], pixels.at(c * BK, place), acc)

    if bias is not None:
        acc = acc + bias[g * each : (g + 1) * each].tiles(BM)[m].to(f32)[:, None]
    acc = activated(acc, ACT, T)
    if residual is not None:
        acc = acc + residual[b, g * each : (g + 1) * each].tiles(BM, BOX)[m, (i, j)].to(f32)
    y[b, g * each : (g + 1) * each].tiles(BM, BOX)[m, (i, j)] = acc.to(T)


@conv2d_planar.oracle
def _(x, w, bias, residual, STRIDE=1, PAD=0, DIL=1, ACT="none"):
    pairs = ((x, w), (np.abs(x), np.abs(w)), (x * x, w * w))
    total, size, root = (correlated(a, b, STRIDE, PAD, DIL) for a, b in pairs)
    bias = None if bias is None else bias[:, None, None]
    return finished(total, size, np.sqrt(root), bias, residual, ACT)


def inputs(rng, B, H, W, C, N, R, S, D):
    """An image and a filter, whose sums are of the size of 1."""
    w = rng.normal(N, D, R, S) / np.sqrt(R * S * D)
    return {"x": rng.normal(B, C, H, W), "w": w, "bias": None, "residual": None}


@conv2d_planar.case(
    B=[3], H=[7], W=[13], C=[18], N=[33], R=[3], S=[3], D=[18], STRIDE=[1, 2, 3], PAD=[4],
    DIL=[2], BOX=[(2, 8)], BM=[16], BN=[16], BK=[16], T=[f32], tol=DOT,
)  # fmt: skip
def _(rng, B, H, W, C, N, R, S, D):
    return inputs(rng, B, H, W, C, N, R, S, D)


@conv2d_planar.case(
    B=[2], H=[17], W=[9], C=[12], N=[32, 68], R=[2], S=[5], D=[3], STRIDE=[2], PAD=[2],
    DIL=[1], ACT=["relu"], BOX=[(4, 4)], BN=[16], BM=[16], T=[f32, f16], tol=DOT,
)  # fmt: skip
def _(rng, B, H, W, C, N, R, S, D, STRIDE, PAD, DIL):
    given = inputs(rng, B, H, W, C, N, R, S, D)
    out = reach(H, R, STRIDE, PAD, DIL), reach(W, S, STRIDE, PAD, DIL)
    return given | {"bias": rng.normal(N), "residual": rng.normal(B, N, *out)}


@conv2d_planar.case(
    B=[1], H=[15], W=[15], C=[64], N=[96], R=[3], S=[3], D=[64], PAD=[1], T=[f16, bf16], tol=DOT,
)  # fmt: skip
def _(rng, B, H, W, C, N, R, S, D):
    return inputs(rng, B, H, W, C, N, R, S, D)


conv2d_planar.bench(
    B=8, H=64, W=64, C=320, N=320, R=3, S=3, D=320, STRIDE=1, PAD=1, T=bf16, make=inputs,
    flops=lambda B, N, R, S, D, H, W: 2 * B * N * H * W * R * S * D,
)  # fmt: skip
