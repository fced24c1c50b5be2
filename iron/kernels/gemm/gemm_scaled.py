"""Product of two matrices of 8-bit floats with scales, op as in `gemm`:

c[m, n] = ACT(alpha * r[m] * s[n] * sum_k a[m, k] * b[n, k] + bias[n]).

Source: the definition; the formats are those of the OCP 8-bit Floating Point Specification 1.0.
"""

import numpy as np

from iron.kernels.gemm.gemm import finished, product
from iron.kernels.gemm_tiles import finish, side_of
from iron.lang import DOT, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, f16, f32, grouped
from iron.lang import groups, kernel, mma, pipelined, u8, zeros
from iron.quant.codec.element import e4m3, e5m2

M, N, K = dims("M N K")
T = dtypes("T", bf16, f16, f32)
DECODED = {"e4m3": e4m3, "e5m2": e5m2}
HOPPER = {
    "BM": lambda M: 64 if M <= 128 else 128,
    "BN": lambda M, N: 256 if cdiv(M, 128) * cdiv(N, 256) >= 112 and M > 128 else 128,
    "BK": 128,
    "STAGES": lambda BM, BN, BK: min(8, 200 * 1024 // ((BM + BN) * BK)) if BN < 256 else 3,
    "PERSISTENT": lambda M: 132 if M > 128 else 0,
}


@kernel(
    schedule={"cpu": {"BM": 64, "BN": 64, "BK": 64}, "sm_90": HOPPER},
    tune={"BM": [32, 64, 128], "BN": [64, 128, 256], "BK": [32, 64, 128], "STAGES": [2, 3, 4]},
)
def gemm_scaled(
    a: In[u8, M, K],
    b: In[u8, N, K],
    a_scale: In[f32, M] | None,
    b_scale: In[f32, N] | None,
    bias: In[T, N] | None,
    c: Out[T, M, N],
    alpha: Scalar[f32] | None,
    *,
    FORMAT: Const = "e4m3",
    ACT: Const = "none",
    BM: Const = lambda M, shared_bytes: side_of(M, f16, shared_bytes),
    BN: Const = lambda N, shared_bytes: side_of(N, f16, shared_bytes),
    BK: Const = 32,
    STAGES: Const = 2,
    PERSISTENT: Const = 0,
):
    """One group per BM x BN tile of c; bytes are floats of FORMAT, "e4m3" or "e5m2".

    Sums are f32. Hardware for such floats may keep 13 bits of fraction while it adds.
    """
    A, B, C = a.tiles(BM, BK), b.tiles(BN, BK), c.tiles(BM, BN)
    m, n = groups(*C.grid, order=grouped(8))

    acc = zeros((BM, BN), f32)
    for k in pipelined(A.grid[1], stages=STAGES):
        acc = mma(A[m, k], B[n, k].T, acc, math=FORMAT)
    if a_scale is not None:
        acc = acc * a_scale.tiles(BM)[m][:, None]
    if b_scale is not None:
        acc = acc * b_scale.tiles(BN)[n][None, :]
    added = bias.tiles(BN)[n].to(f32)[None, :] if bias is not None else None
    C[m, n] = finish(acc, alpha, added, None, None, ACT, T).to(T)


@gemm_scaled.oracle
def _(a, b, a_scale, b_scale, bias, alpha, FORMAT="e4m3", ACT="none"):
    x, y = (DECODED[FORMAT](codes.astype(np.uint32)).astype(np.float64) for codes in (a, b))
    rows = np.ones(len(x)) if a_scale is None else a_scale
    columns = np.ones(len(y)) if b_scale is None else b_scale
    total, root, size = product(rows[:, None] * x, (columns[:, None] * y).T, 0, 0)
    return finished(total, root, size, bias, None, alpha, None, ACT)


def floats(rng, *shape):
    """Bytes of floats of both signs, up to about 1."""
    return rng.integers(*shape, low=0, high=0x3A) + 0x80 * rng.integers(*shape, low=0, high=2)


def factors(rng, M, N, K):
    """The two matrices, and nothing else."""
    nothing = {"a_scale": None, "b_scale": None, "bias": None, "alpha": None}
    return {"a": floats(rng, M, K), "b": floats(rng, N, K), **nothing}


@gemm_scaled.case(M=[33], N=[70], K=[8, 17, 33], FORMAT=["e4m3", "e5m2"], BM=[32], BN=[64],
                  BK=[16], T=[bf16, f32], tol=DOT.rounded("tf32"))  # fmt: skip
def _(rng, M, N, K):
    return factors(rng, M, N, K)


@gemm_scaled.case(M=[130], N=[264], K=[48], SCALES=["rows", "columns", "all"], ACT=["silu"],
                  T=[bf16, f32], tol=DOT.rounded("tf32"))  # fmt: skip
def _(rng, M, N, K, SCALES):
    given = factors(rng, M, N, K)
    if SCALES != "columns":
        given["a_scale"] = 0.5 + rng.uniform(M)
    if SCALES != "rows":
        given["b_scale"] = 0.5 + rng.uniform(N)
    if SCALES == "all":
        given["bias"], given["alpha"] = rng.normal(N), 0.25
    return given


gemm_scaled.bench(
    M=[1024, 4096], N=4096, K=4096, T=bf16, flops=lambda M, N, K: 2 * M * N * K, make=factors,
)  # fmt: skip
