"""Product of two matrices:  c = ACT(alpha op(a) @ op(b) + bias) + beta residual, op(x) = x or x^T.

Source: the definition (BLAS level 3, Dongarra et al. 1990, doi:10.1145/77626.79170).
"""

import math

import numpy as np

from iron.kernels.gemm_cpu import AMX, CPU
from iron.kernels.gemm_tiles import CUDA, HOPPER, MATRICES, chained, columns_of, finish
from iron.kernels.gemm_tiles import rows_of, summed
from iron.lang import DOT, Const, In, Out, Scalar, bf16, dims, dtypes, f16, f32, grouped, groups
from iron.lang import kernel, require

P, Q, R, S, TA, TB = dims("P Q R S TA TB")
M, N = P * (1 - TA) + Q * TA, S * (1 - TB) + R * TB
T = dtypes("T", f32, f16, bf16)


@kernel(
    variants={"TA": [0, 1], "TB": [0, 1]},
    schedule={
        "cpu": CPU,
        "amx-bf16": AMX,
        "cuda": CUDA,
        "sm_90": HOPPER,
        "cooperative_matrix": MATRICES,
    },
    tune={"BM": [16, 32, 64, 128], "BN": [64, 128, 256], "BK": [32, 64, 128], "STAGES": [2, 3, 4]},
)
def gemm(
    a: In[T, P, Q],
    b: In[T, R, S],
    bias: In[T, N] | None,
    residual: In[T, M, N] | None,
    c: Out[T, M, N],
    alpha: Scalar[f32] | None,
    beta: Scalar[f32] | None,
    *,
    TA: Const = 0,
    TB: Const = 0,
    ACT: Const = "none",
    MATH: Const = "strict",
    BM: Const = rows_of,
    BN: Const = columns_of,
    BK: Const = 32,
    STAGES: Const = 2,
    CHAIN: Const = lambda T: 64 if T is f32 else 0,
    PERSISTENT: Const = 0,
    CONSUMERS: Const = 0,
    TRANSPOSED: Const = 0,
):
    """One group per BM x BN tile of c. Ragged edges read as zero and are not written.

    With TA, `a` is [K, M] and transposed; with TB, `b` is [N, K], which is how weights lie. Sums
    and what follows them are f32, rounded once. MATH "tf32" and "split" round the operands of f32.
    Products that are not rounded to tf32 are summed in chains of CHAIN (0: in one), whose sums are
    added with compensation (Kahan 1965, doi:10.1145/363707.363723): the error does not grow with K.
    """
    A = a.tiles(BK, BM) if TA else a.tiles(BM, BK)
    B = b.tiles(BN, BK) if TB else b.tiles(BK, BN)
    C = c.tiles(BM, BN)
    m, n = groups(*C.grid, order=grouped(8))
    require((P if TA else Q) == (S if TB else R), "the inner sizes of a and b must agree")

    some, turns = chained(CHAIN, BK, MATH), A.grid[0 if TA else 1]
    acc = summed(A, B, m, n, 0, turns, (BM, BN), STAGES, some, (TA, TB, MATH))
    added = bias.tiles(BN)[n].to(f32)[None, :] if bias is not None else None
    old = residual.tiles(BM, BN)[m, n].to(f32) if residual is not None else None
    C[m, n] = finish(acc, alpha, added, old, beta, ACT, T).to(T)


def curve(x, ACT):
    """ACT in f64, 0 at -inf; a slope of any of them is at most 1.13."""
    x = np.maximum(x, -1e9)
    if ACT == "relu":
        return np.maximum(x, 0)
    if ACT == "silu":
        return x / (1 + np.exp(np.minimum(-x, 700)))
    if ACT == "gelu_tanh":
        return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    return x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2


@gemm.oracle
def _(a, b, bias, residual, alpha, beta, TA=0, TB=0, ACT="none"):
    return finished(*product(a, b, TA, TB), bias, residual, alpha, beta, ACT)


def product(a, b, TA, TB):
    """op(a) @ op(b) and the two condition terms of DOT."""
    x, y = (a.T if TA else a), (b.T if TB else b)
    return x @ y, np.sqrt((x * x) @ (y * y)), np.abs(x) @ np.abs(y)


def finished(total, root, size, bias, residual, alpha, beta, ACT):
    """What follows the sums, and what becomes of their condition."""
    if alpha is not None:
        total, size, root = alpha * total, abs(alpha) * size, abs(alpha) * root
    if bias is not None:
        total, size = total + bias, size + np.where(np.isinf(bias), 0, np.abs(bias))
    if ACT != "none":
        total = curve(total, ACT)
        size, root = 1.13 * size + 4 * np.abs(total), 1.13 * root
    if residual is not None:
        old = residual if beta is None else beta * residual
        total, size = total + old, size + np.abs(old)
    return {"c": total}, {"c": (root, size)}


def operands(rng, M, N, K, TA, TB):
    """The two matrices as they lie, and no epilogue."""
    a = rng.normal(K, M) if TA else rng.normal(M, K)
    b = rng.normal(N, K) if TB else rng.normal(K, N)
    return {"a": a, "b": b, "bias": None, "residual": None, "alpha": None, "beta": None}


def flops(M, N, K):
    """Operations of a product."""
    return 2 * M * N * K


@gemm.case(M=[1, 33, 70], N=[7, 97], K=[66], BM=[32], BN=[64], BK=[32], tol=DOT)
def _(rng, M, N, K, TA, TB):
    return operands(rng, M, N, K, TA, TB)


@gemm.case(M=[33], N=[31], K=[1, 104], MATH=["strict", "tf32", "split"], T=[f32], TA=[0], TB=[0],
           tol=DOT.rounded("tf32"))  # fmt: skip
def _(rng, M, N, K, TA, TB):
    return operands(rng, M, N, K, TA, TB)


@gemm.case(M=[6], N=[20], K=[256, 4096, 16384], SIGN=["any", "plus", "far"], TA=[0], TB=[1],
           T=[f32], tol=DOT)  # fmt: skip
def _(rng, M, N, K, TA, TB, SIGN):
    a, b = rng.normal(M, K), rng.normal(N, K)
    if SIGN == "plus":
        a, b = np.abs(a), np.abs(b)
    if SIGN == "far":
        a[1, 5] = np.inf
    return {**operands(rng, M, N, K, TA, TB), "a": a, "b": b}


@gemm.case(M=[65], N=[200], K=[70], BM=[16, 64], BN=[32, 96], BK=[32], STAGES=[1, 3],
           TA=[0], TB=[1], T=[f32], tol=DOT)  # fmt: skip
def _(rng, M, N, K, TA, TB):
    return operands(rng, M, N, K, TA, TB)


def followed(rng, M, N, K, TA, TB, EPILOGUE):
    """Operands of a product of the size of 1, and what follows it."""
    given = operands(rng, M, N, K, TA, TB)
    given["a"], given["bias"] = given["a"] / np.sqrt(K), rng.normal(N)
    if EPILOGUE == "far":
        given["bias"][::3] = -np.inf
    if EPILOGUE in ("both", "scaled"):
        given["residual"] = rng.normal(M, N)
    if EPILOGUE == "scaled":
        given["alpha"], given["beta"] = 0.75, -1.5
    return given


@gemm.case(M=[31], N=[104], K=[97], EPILOGUE=["bias", "both"], BM=[16], TA=[0], TB=[1], tol=DOT)
def _(rng, M, N, K, TA, TB, EPILOGUE):
    return followed(rng, M, N, K, TA, TB, EPILOGUE)


@gemm.case(M=[130], N=[257], K=[97], ACT=["silu", "gelu_tanh"], EPILOGUE=["scaled"], TA=[0], TB=[1],
           T=[f32, bf16], tol=DOT)  # fmt: skip
def _(rng, M, N, K, TA, TB, EPILOGUE):
    return followed(rng, M, N, K, TA, TB, EPILOGUE)


@gemm.case(M=[31], N=[104], K=[97], ACT=["relu", "silu", "gelu_tanh", "gelu_erf"],
           EPILOGUE=["scaled", "far"], BM=[16], TA=[0], TB=[1], tol=DOT)  # fmt: skip
def _(rng, M, N, K, TA, TB, EPILOGUE):
    return followed(rng, M, N, K, TA, TB, EPILOGUE)


gemm.bench(M=1024, N=1024, K=1024, TA=0, TB=[0, 1], flops=flops, make=operands)
gemm.bench(
    M=[1024, 4096],
    N=4096,
    K=4096,
    TA=0,
    TB=[0, 1],
    flops=flops,
    make=operands,
)
gemm.bench(
    M=[16, 64, 128],
    N=8192,
    K=8192,
    TA=0,
    TB=1,
    T=bf16,
    flops=flops,
    make=operands,
)
