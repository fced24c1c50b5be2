"""Product of two matrices:  c = ACT(alpha op(a) @ op(b) + bias) + beta residual, op(x) = x or x^T.

Source: the definition (BLAS level 3, Dongarra et al. 1990, doi:10.1145/77626.79170).
"""

import math

import numpy as np

from iron.kernels.activation import fast_gelu_tanh, fast_silu, gelu_erf, gelu_tanh, relu, silu
from iron.lang import DOT, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, f16, f32, grouped
from iron.lang import groups, inf, inline, kernel, minimum, mma, next_pow2, pipelined, require
from iron.lang import where, zeros

P, Q, R, S, TA, TB = dims("P Q R S TA TB")
M, N = P * (1 - TA) + Q * TA, S * (1 - TB) + R * TB
T = dtypes("T", f32, f16, bf16)


def side_of(n, T, shared_bytes):
    """The side of a tile along n elements: 128 where two such operands of 32 columns have room."""
    most = 128 if 2 * 2 * 128 * 32 * T.bytes <= shared_bytes else 64
    return min(most, max(16, next_pow2(n)))


def hopper(m, n, TA):
    """(BM, BN, BK, STAGES, CONSUMERS, TRANSPOSED, PERSISTENT) on sm_90, BK for 16-bit factors.

    Measured on an H200. Few rows read weights as fast as memory gives them: one wave of groups,
    many bytes under way, and up to 48 rows as columns of the transpose. Many rows take the widest
    product of a warpgroup that leaves no processor without a tile.
    """
    side = next((s for s in (256, 128) if cdiv(n, s) >= 96), 64)
    if m <= 48 and not TA:
        rows = 16 if m <= 16 else 32 if m <= 32 else 48
        return rows, side, *{256: (64, 5, 4), 128: (128, 4, 2), 64: (256, 4, 1)}[side], 1, 0
    if m <= 64:
        if side == 256:
            return 64, 256, 64, 4, 4, 1, 0
        return (64, 128, 128, 4, 1, 0, 0) if n >= 8192 else (64, 64, 128, 6, 1, 1, 0)
    if m <= 128 and side < 256:
        if side == 128:
            return 128, 128, 128, 3, 2, 0, 0
        return (64, 128, 128, 4, 1, 0, 0) if n >= 8192 else (64, 64, 128, 6, 1, 0, 0)
    side = next((s for s in (256, 128) if cdiv(m, 128) * cdiv(n, s) >= 112), 64)
    return 128, side, 64, {256: 3, 128: 6}.get(side, 8), 2, 0, 132


def hopper_entry(number):
    """The function that a schedule calls for one number of `hopper`."""

    def entry(P, Q, R, S, TA, TB, T, MATH, shared_bytes):
        m, n = Q if TA else P, R if TB else S
        if T is f32 and (MATH != "tf32" or TA or not TB):
            sides = (side_of(m, T, shared_bytes), side_of(n, T, shared_bytes))
            return (*sides, 32, 2, 0, 0, 132)[number]
        found = hopper(m, n, TA)[number]
        return found // 2 if T is f32 and number == 2 else found

    return entry


HOPPER = {
    name: hopper_entry(number)
    for number, name in enumerate(
        ("BM", "BN", "BK", "STAGES", "CONSUMERS", "TRANSPOSED", "PERSISTENT")
    )
}


@inline
def activated(x, ACT, T):
    """ACT of x; in 16 bits by the fast functions, whose error the store rounds away."""
    if ACT == "relu":
        return relu(x)
    if ACT == "silu":
        return silu(x) if T is f32 else fast_silu(x)
    if ACT == "gelu_tanh":
        return gelu_tanh(x) if T is f32 else fast_gelu_tanh(x)
    return gelu_erf(x) if ACT == "gelu_erf" else x


@inline
def turn(A, B, m, n, k, acc, TA, TB, MATH):
    """acc plus the products of one tile of k."""
    x = A[k, m].T if TA else A[m, k]
    y = B[n, k].T if TB else B[k, n]
    return mma(x, y, acc, math=MATH)


@inline(exact=True)
def compensated(total, part):
    """total + part, and what is lost when that is rounded: 0 where it is not finite."""
    new = total + part
    return new, where(abs(new) < inf, part - (new - total), 0.0)


@kernel(
    variants={"TA": [0, 1], "TB": [0, 1]},
    schedule={"cpu": {"BM": 64, "BN": 64, "CHAIN": 256}, "sm_90": HOPPER},
    tune={"BM": [32, 64, 128], "BN": [64, 128, 256], "BK": [16, 32, 64], "STAGES": [1, 2, 3, 4]},
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
    BM: Const = lambda P, Q, TA, T, shared_bytes: side_of(Q if TA else P, T, shared_bytes),
    BN: Const = lambda R, S, TB, T, shared_bytes: side_of(R if TB else S, T, shared_bytes),
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

    acc, turns = zeros((BM, BN), f32), A.grid[0 if TA else 1]
    if CHAIN and MATH != "tf32":
        lost, some = zeros((BM, BN), f32), max(1, CHAIN // BK)
        for first in range(0, turns, some):
            for k in pipelined(first, minimum(first + some, turns), stages=STAGES):
                lost = turn(A, B, m, n, k, lost, TA, TB, MATH)
            acc, lost = compensated(acc, lost)
    else:
        for k in pipelined(turns, stages=STAGES):
            acc = turn(A, B, m, n, k, acc, TA, TB, MATH)

    if alpha is not None:
        acc = acc * alpha
    if bias is not None:
        acc = acc + bias.tiles(BN)[n].to(f32)[None, :]
    acc = activated(acc, ACT, T)
    if residual is not None:
        old = residual.tiles(BM, BN)[m, n].to(f32)
        acc = acc + (old if beta is None else old * beta)
    C[m, n] = acc.to(T)


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
    x, y = (a.T if TA else a), (b.T if TB else b)
    size, root = np.abs(x) @ np.abs(y), np.sqrt((x * x) @ (y * y))
    total = x @ y
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


@gemm.case(M=[1, 33, 70], N=[7, 97], K=[66], BM=[32], BN=[64], BK=[32], tol=DOT)
def _(rng, M, N, K, TA, TB):
    return operands(rng, M, N, K, TA, TB)


@gemm.case(M=[33], N=[31], K=[1, 104], MATH=["strict", "tf32", "split"], T=[f32], TA=[0], TB=[0],
           tol=DOT.rounded("tf32"))  # fmt: skip
def _(rng, M, N, K, TA, TB):
    return operands(rng, M, N, K, TA, TB)


@gemm.case(M=[9], N=[14], K=[256, 4096, 16384], SIGN=["any", "plus", "far"], TA=[0], TB=[1],
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


def finished(rng, M, N, K, TA, TB, EPILOGUE):
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
    return finished(rng, M, N, K, TA, TB, EPILOGUE)


@gemm.case(M=[130], N=[257], K=[97], ACT=["silu", "gelu_tanh"], EPILOGUE=["scaled"], TA=[0], TB=[1],
           T=[f32, bf16], tol=DOT)  # fmt: skip
def _(rng, M, N, K, TA, TB, EPILOGUE):
    return finished(rng, M, N, K, TA, TB, EPILOGUE)


@gemm.case(M=[31], N=[104], K=[97], ACT=["relu", "silu", "gelu_tanh", "gelu_erf"],
           EPILOGUE=["scaled", "far"], BM=[16], TA=[0], TB=[1], tol=DOT)  # fmt: skip
def _(rng, M, N, K, TA, TB, EPILOGUE):
    return finished(rng, M, N, K, TA, TB, EPILOGUE)


gemm.bench(
    M=[1024, 4096],
    N=4096,
    K=4096,
    TA=0,
    TB=[0, 1],
    flops=lambda M, N, K: 2 * M * N * K,
    make=operands,
)
