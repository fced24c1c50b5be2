"""`gemm` with k divided among several groups:  c as there, for few tiles of c and a long k.

Each part of a tile of c is the sum over its share of k, in f32; the parts are added in their order,
so a result is the same bit for bit in every run.

Source: the definition; Osama et al. 2023 (arXiv:2301.03598), section 2, has the split.
"""

import numpy as np

from iron.kernels.gemm.gemm import finished, followed, operands, product
from iron.kernels.gemm_tiles import SPLIT, chained, columns_of, finish, rows_of, summed
from iron.lang import DOT, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, each, f16, f32
from iron.lang import groups, kernel, minimum, plan, require, scratch, unrolled

P, Q, R, S, TA, TB, M, N, SPLITS = dims("P Q R S TA TB M N SPLITS")
HEIGHT, WIDTH = P * (1 - TA) + Q * TA, S * (1 - TB) + R * TB
T = dtypes("T", f32, f16, bf16)


def splits_of(P, Q, R, S, TA, TB, T):
    """As many parts as give 128 groups work, each with 512 columns of k or more; 16 at most."""
    m, n, k = (Q, R if TB else S, P) if TA else (P, R if TB else S, Q)
    tiles = cdiv(m, 128) * cdiv(n, 64)
    return max(1, min(16, 128 // max(1, tiles), k // 512))


@kernel(
    variants={"TA": [0, 1], "TB": [0, 1]},
    schedule={"cpu": {"BM": 64, "BN": 64, "CHAIN": 256}, "sm_90": SPLIT},
    tune={"BM": [16, 32, 64, 128], "BN": [64, 128], "BK": [32, 64, 128], "STAGES": [2, 3, 4]},
)
def gemm_parts(
    a: In[T, P, Q],
    b: In[T, R, S],
    part: Out[f32, SPLITS, HEIGHT, WIDTH],
    *,
    TA: Const = 0,
    TB: Const = 0,
    MATH: Const = "strict",
    BM: Const = rows_of,
    BN: Const = columns_of,
    BK: Const = 32,
    STAGES: Const = 2,
    CHAIN: Const = lambda T: 64 if T is f32 else 0,
):
    """One group per part of a BM x BN tile of c: so many times 256 columns of k, the last parts
    fewer, or none."""
    A = a.tiles(BK, BM) if TA else a.tiles(BM, BK)
    B = b.tiles(BN, BK) if TB else b.tiles(BK, BN)
    m, n, s = groups(A.grid[1 if TA else 0], B.grid[0 if TB else 1], SPLITS)
    require((P if TA else Q) == (S if TB else R), "the inner sizes of a and b must agree")
    require(256 % BK == 0, "BK must divide 256")

    turns = A.grid[0 if TA else 1]
    share = cdiv(cdiv(turns, 256 // BK), SPLITS) * (256 // BK)
    low = minimum(s * share, turns)
    high = minimum(low + share, turns)
    some = chained(CHAIN, BK, MATH)
    acc = summed(A, B, m, n, low, high, (BM, BN), STAGES, some, (TA, TB, MATH))
    part[s].tiles(BM, BN)[m, n] = acc


@kernel(choose={"VEC": {"gpu": [4, 1], "cpu": [1, 4]}})
def gemm_joined(
    part: In[f32, SPLITS, M, N],
    bias: In[T, N] | None,
    residual: In[T, M, N] | None,
    c: Out[T, M, N],
    alpha: Scalar[f32] | None,
    beta: Scalar[f32] | None,
    *,
    ACT: Const = "none",
    VEC: Const = 1,
):
    """c = ACT(alpha sum_s part[s] + bias) + beta residual; one thread per VEC elements.

    SPLITS is compiled in, so that a thread asks for all of its parts at once.
    """
    j, m = each(N // VEC, M)
    require(N % VEC == 0, "the row length N must be a multiple of VEC")
    require(SPLITS > 0, "there is at least one part")
    n = j * VEC
    parts = [part[s, m, n : n + VEC].to(f32) for s in unrolled(SPLITS)]
    acc = parts[0]
    for s in unrolled(1, SPLITS):
        acc = acc + parts[s]
    added = bias[n : n + VEC].to(f32) if bias is not None else None
    old = residual[m, n : n + VEC].to(f32) if residual is not None else None
    c[m, n : n + VEC] = finish(acc, alpha, added, old, beta, ACT, T).to(T)


@plan(variants={"TA": [0, 1], "TB": [0, 1]})
def gemm_splitk(
    a: In[T, P, Q],
    b: In[T, R, S],
    bias: In[T, WIDTH] | None,
    residual: In[T, HEIGHT, WIDTH] | None,
    c: Out[T, HEIGHT, WIDTH],
    alpha: Scalar[f32] | None,
    beta: Scalar[f32] | None,
    *,
    TA: Const = 0,
    TB: Const = 0,
    ACT: Const = "none",
    MATH: Const = "strict",
    SPLITS: Const = splits_of,
):
    """`gemm` in two launches: SPLITS parts of every tile of c, then c.

    It needs memory for SPLITS f32 for each element of c.
    """
    part = scratch(f32, SPLITS, Q if TA else P, R if TB else S)
    gemm_parts(a, b, part, TA=TA, TB=TB, MATH=MATH)
    gemm_joined(part, bias, residual, c, alpha, beta, ACT=ACT)


@gemm_parts.oracle
def _(a, b, SPLITS, TA=0, TB=0):
    x, y = (a.T if TA else a), (b.T if TB else b)
    share = cdiv(cdiv(x.shape[1], 256), SPLITS) * 256
    shares = [slice(s * share, (s + 1) * share) for s in range(SPLITS)]
    terms = [product(x[:, k], y[k], 0, 0) for k in shares]
    total, root, size = map(np.stack, zip(*terms, strict=True))
    return {"part": total}, {"part": (root, size)}


@gemm_joined.oracle
def _(part, bias, residual, alpha, beta, ACT="none"):
    root, size = np.sqrt((part * part).sum(0)), np.abs(part).sum(0)
    return finished(part.sum(0), root, size, bias, residual, alpha, beta, ACT)


@gemm_splitk.oracle
def _(a, b, bias, residual, alpha, beta, TA=0, TB=0, ACT="none"):
    return finished(*product(a, b, TA, TB), bias, residual, alpha, beta, ACT)


def factors(rng, M, N, K, TA, TB):
    """The two matrices alone."""
    given = operands(rng, M, N, K, TA, TB)
    return {"a": given["a"], "b": given["b"]}


@gemm_parts.case(M=[33], N=[70], K=[512, 1089], SPLITS=[2], BM=[32], BN=[64], tol=DOT)
def _(rng, M, N, K, TA, TB):
    return factors(rng, M, N, K, TA, TB)


@gemm_parts.case(M=[33], N=[70], K=[864], SPLITS=[3, 9], BM=[32], BN=[64], tol=DOT, T=[f32],
                 degenerate="a part of no columns of k is zeros")  # fmt: skip
def _(rng, M, N, K, TA, TB):
    return factors(rng, M, N, K, TA, TB)


@gemm_joined.case(M=[9], N=[16, 37], SPLITS=[1, 5], ACT=["silu"], EPILOGUE=["none", "scaled"],
                  T=[f32, bf16], tol=DOT)  # fmt: skip
def _(rng, M, N, SPLITS, EPILOGUE):
    given = followed(rng, M, N, 1, 0, 0, EPILOGUE)
    del given["a"], given["b"]
    if EPILOGUE == "none":
        given["bias"] = None
    return {**given, "part": rng.normal(SPLITS, M, N)}


@gemm_splitk.case(M=[3, 40], N=[65], K=[97, 1300], SPLITS=[3], EPILOGUE=["scaled"],
                  ACT=["relu"], T=[f32, bf16], TA=[0], TB=[0, 1], tol=DOT)  # fmt: skip
def _(rng, M, N, K, TA, TB, EPILOGUE):
    return followed(rng, M, N, K, TA, TB, EPILOGUE)


gemm_parts.bench(
    M=16, N=4096, K=14336, SPLITS=4, TA=0, TB=1, T=bf16, make=factors,
    flops=lambda M, N, K: 2 * M * N * K,
)  # fmt: skip
gemm_joined.bench(
    M=16, N=4096, SPLITS=4, T=bf16, flops=lambda M, N, SPLITS: M * N * SPLITS,
    make=lambda rng, M, N, SPLITS: {"part": rng.normal(SPLITS, M, N)},
)  # fmt: skip
gemm_splitk.bench(
    M=[16, 64, 128], N=4096, K=14336, TA=0, TB=1, T=bf16, make=operands,
    flops=lambda M, N, K: 2 * M * N * K,
)  # fmt: skip
