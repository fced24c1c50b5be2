"""Convolution of images whose channels are neighbours in memory, in tiles:

y[b, i, j, o] = ACT(sum_(r, s, c) w[o, r, s, c] * x[b, i', j', g D + c] + bias[o]) + residual,
i' = STRIDE i + DIL r - PAD, j' = STRIDE j + DIL s - PAD, g = o // (N / GROUPS);
pixels outside of the image are 0.

Source: Chetlur et al. 2014 (arXiv:1410.0759, section 3): convolution as an implicit product.
"""

import numpy as np

from iron.kernels.convolution_tiles import box_of, channels_of, groups_of, height, moved, reach
from iron.kernels.convolution_tiles import tap, width
from iron.kernels.gemm.gemm import curve
from iron.kernels.gemm_tiles import activated
from iron.lang import DOT, Const, In, Out, bf16, cdiv, dims, dtypes, f16, f32, groups, kernel, mma
from iron.lang import pipelined, require, zeros

B, H, W, C, N, R, S, D = dims("B H W C N R S D")
P, Q = dims("P Q")
T = dtypes("T", f32, f16, bf16)


def hopper_columns(N, GROUPS):
    """Of the widths of a warpgroup's product the one that covers the channels the soonest.

    A tile costs its columns and about 64 more, for the rows that it reads.
    """
    return min((256, 192, 128, 64), key=lambda n: cdiv(N // GROUPS, n) * (n + 64))


HOPPER = {
    "BM": lambda T: 64 if T is f32 else 128,
    "BN": hopper_columns,
    "BK": 64,
    "STAGES": lambda BN: {256: 3, 192: 4}.get(BN, 6),
    "PERSISTENT": 132,
}


@kernel(
    schedule={"cpu": {"BM": 64, "BN": 64}, "sm_90": HOPPER},
    tune={"BM": [32, 64, 128], "BN": [64, 128, 256], "BK": [16, 32, 64], "STAGES": [1, 2, 3, 4]},
)
def conv2d(
    x: In[T, B, H, W, C],
    w: In[T, N, R, S, D],
    bias: In[T, N] | None,
    residual: In[T, B, P, Q, N] | None,
    y: Out[T, B, P, Q, N],
    *,
    STRIDE: Const = 1,
    PAD: Const = 0,
    DIL: Const = 1,
    P: Const = height,
    Q: Const = width,
    ACT: Const = "none",
    GROUPS: Const = groups_of,
    BM: Const = 64,
    BN: Const = channels_of,
    BK: Const = 32,
    BOX: Const = lambda B, P, Q, BM: box_of((B, P, Q), BM),
    COLUMNS: Const = lambda S: S,
    CHUNKS: Const = lambda D, BK: cdiv(D, BK),
    STAGES: Const = 2,
    PERSISTENT: Const = 0,
):
    """One group per BOX of BM output pixels and BN channels of one of GROUPS groups.

    Groups have D channels of x and N / GROUPS of y each. Sums and what follows them are f32,
    rounded once.
    """
    n, j, i, b = groups(
        GROUPS * cdiv(N // GROUPS, BN), cdiv(Q, BOX[2]), cdiv(P, BOX[1]), cdiv(B, BOX[0])
    )
    require(D * GROUPS == C, "the channels of x must be those of w times the groups")
    require(N % GROUPS == 0, "the channels of y must be a multiple of the groups")
    require((P > 0) & (Q > 0), "the filter must fit into the padded image")
    if GROUPS > 1:
        each, mine = N // GROUPS, n // cdiv(N // GROUPS, BN)
        n = n % cdiv(N // GROUPS, BN)
        x, w = x[:, :, :, mine * D : (mine + 1) * D], w[mine * each : (mine + 1) * each]
        y = y[:, :, :, mine * each : (mine + 1) * each]
        bias = bias[mine * each : (mine + 1) * each] if bias is not None else None
        if residual is not None:
            residual = residual[:, :, :, mine * each : (mine + 1) * each]

    acc = zeros((BM, BN), f32)
    for k in pipelined(R * COLUMNS * CHUNKS, stages=STAGES):
        r, s, c = tap(k, COLUMNS, CHUNKS)
        (top, up), (left, along) = moved(r, STRIDE, PAD, DIL), moved(s, STRIDE, PAD, DIL)
        pixels = x[:, top::STRIDE, left::STRIDE].tiles(BOX, BK)
        place = (b * BOX[0], i * BOX[1] + up, j * BOX[2] + along)
        acc = mma(pixels.at(place, c * BK), w[:, r, s].tiles(BN, BK)[n, c].T, acc)

    if bias is not None:
        acc = acc + bias.tiles(BN)[n].to(f32)[None, :]
    acc = activated(acc, ACT, T)
    if residual is not None:
        acc = acc + residual.tiles(BOX, BN)[(b, i, j), n].to(f32)
    y.tiles(BOX, BN)[(b, i, j), n] = acc.to(T)


def correlated(x, w, STRIDE, PAD, DIL):
    """The sum of the formula for planar arrays, group by group, tap by tap."""
    B, C, H, W = x.shape
    N, D, R, S = w.shape
    P, Q, many = reach(H, R, STRIDE, PAD, DIL), reach(W, S, STRIDE, PAD, DIL), C // D
    wide = np.pad(x, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD))).reshape(B, many, D, H + 2 * PAD, -1)
    total = np.zeros((B, many, N // many, P, Q))
    for r, s in np.ndindex(R, S):
        seen = wide[..., r * DIL :, s * DIL :][..., ::STRIDE, ::STRIDE][..., :P, :Q]
        total += np.einsum("bgcpq,goc->bgopq", seen, w[..., r, s].reshape(many, -1, D))
    return total.reshape(B, N, P, Q)


def finished(total, size, root, bias, residual, ACT):
    """Bias, activation and residual, which broadcast, and the condition terms after them."""
    if bias is not None:
        total, size = total + bias, size + np.abs(bias)
    if ACT != "none":
        total = curve(total, ACT)
        size, root = 1.13 * size + 4 * np.abs(total), 1.13 * root
    if residual is not None:
        total, size = total + residual, size + np.abs(residual)
    return {"y": total}, {"y": (root, size)}


@conv2d.oracle
def _(x, w, bias, residual, STRIDE=1, PAD=0, DIL=1, ACT="none"):
    x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1)
    pairs = ((x, w), (np.abs(x), np.abs(w)), (x * x, w * w))
    total, size, root = (np.moveaxis(correlated(a, b, STRIDE, PAD, DIL), 1, -1) for a, b in pairs)
    return finished(total, size, np.sqrt(root), bias, residual, ACT)


def inputs(rng, B, H, W, C, N, R, S, D):
    """An image and a filter, whose sums are of the size of 1."""
    w = rng.normal(N, R, S, D) / np.sqrt(R * S * D)
    return {"x": rng.normal(B, H, W, C), "w": w, "bias": None, "residual": None}


def padded(rng, B, H, W, C, N, R, S, D, STRIDE, PAD, DIL, EXTRA):
    """The same, with a bias or with a residual too."""
    given = inputs(rng, B, H, W, C, N, R, S, D)
    out = reach(H, R, STRIDE, PAD, DIL), reach(W, S, STRIDE, PAD, DIL)
    given["bias"] = rng.normal(N) if EXTRA != "none" else None
    given["residual"] = rng.normal(B, *out, N) if EXTRA == "both" else None
    return given


@conv2d.case(
    B=[3], H=[7], W=[13], C=[18], N=[33], R=[3], S=[3], D=[18], STRIDE=[1, 2, 3], PAD=[4],
    DIL=[2], BOX=[(2, 2, 4)], BM=[16], BN=[16], BK=[16], T=[f32], tol=DOT,
)  # fmt: skip
def _(rng, B, H, W, C, N, R, S, D):
    return inputs(rng, B, H, W, C, N, R, S, D)


@conv2d.case(
    B=[1], H=[17], W=[9], C=[12], N=[68, 128], R=[2], S=[5], D=[3, 12], STRIDE=[2], PAD=[2],
    DIL=[1], EXTRA=["both"], BOX=[(1, 4, 4)], BM=[16], BN=[16], BK=[16], T=[f32], tol=DOT,
)  # fmt: skip
def _(rng, B, H, W, C, N, R, S, D, STRIDE, PAD, DIL, EXTRA):
    return padded(rng, B, H, W, C, N, R, S, D, STRIDE, PAD, DIL, EXTRA)


@conv2d.case(
    B=[5], H=[9], W=[8], C=[40], N=[33], R=[3], S=[3], D=[40], STRIDE=[4], PAD=[0], DIL=[2],
    EXTRA=["bias"], ACT=["relu"], BN=[16], BK=[16], BOX=[(4, 1, 4), (2, 2, 4)], BM=[16],
    T=[f32, f16], tol=DOT,
)  # fmt: skip
def _(rng, B, H, W, C, N, R, S, D, STRIDE, PAD, DIL, EXTRA):
    return padded(rng, B, H, W, C, N, R, S, D, STRIDE, PAD, DIL, EXTRA)


@conv2d.case(
    B=[2], H=[15], W=[15], C=[64], N=[96], R=[3], S=[3], D=[64], PAD=[1], ACT=["gelu_tanh"],
    EXTRA=["both"], STRIDE=[1], DIL=[1], T=[f16, bf16], tol=DOT,
)  # fmt: skip
def _(rng, B, H, W, C, N, R, S, D, STRIDE, PAD, DIL, EXTRA):
    return padded(rng, B, H, W, C, N, R, S, D, STRIDE, PAD, DIL, EXTRA)


def flops(B, N, R, S, D, H, W, STRIDE, PAD, DIL=1):
    """Products and sums."""
    out = reach(H, R, STRIDE, PAD, DIL) * reach(W, S, STRIDE, PAD, DIL)
    return 2 * B * N * out * R * S * D


conv2d.bench(
    B=8, H=64, W=64, C=320, N=320, R=3, S=3, D=320, STRIDE=1, PAD=1, T=bf16, make=inputs,
    flops=flops,
)  # fmt: skip
conv2d.bench(
    B=1, H=128, W=128, C=512, N=512, R=3, S=3, D=512, STRIDE=1, PAD=1, T=bf16, make=inputs,
    flops=flops,
)  # fmt: skip
conv2d.bench(
    B=32, H=56, W=56, C=256, N=256, R=3, S=3, D=256, STRIDE=1, PAD=1, T=bf16, make=inputs,
    flops=flops,
)  # fmt: skip
