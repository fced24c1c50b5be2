"""Product of a packed weight with few vectors of 8-bit codes:

y[m, n] = sum_b scale[m, b] * (s[n, b] * sum_k q[n, k] c[m, k] + t[n, b] * sum_k c[m, k]),

where a weight is s q + t and block b holds the columns k of one scale. Source: the definition; the
integer sums are those of ggml's products of quantised blocks.
"""

import numpy as np

from iron.kernels.matvec_columns import added
from iron.kernels.quant.quantize_blocks import blocks, quantize_blocks
from iron.lang import DOT, DOT8, Const, In, Out, Packed, bf16, bitcast, cdiv, dims, dot4, dtypes
from iron.lang import f16, f32, formats, groups, i8, i32, inline, kernel, minimum, plan, require
from iron.lang import scratch, thread, unrolled
from iron.quant.codec.tiles import bytes_of, offset
from iron.quant.format import Algebra, by_name

M, N, K = dims("M N K")
T = dtypes("T", f32, f16, bf16)
NAMES = [
    "int4_sym_g32_f16_r32",
    "mlx_int4_g32_r32",
    "mlx_int4_g64_r32",
    "int8_sym_g32_f16_r32",
    "mlx_int8_g64_r32",
]
FORMATS = [by_name(name) for name in NAMES]
FMT = formats("FMT", *FORMATS)


@inline
def block_dot(words, x, m, b, start, FMT):
    """`start` plus the products of the codes of a block's words with those of x[m]."""
    parts = 8 // FMT.bits
    for i in unrolled(FMT.bits):
        for p in unrolled(parts):
            at = b * 32 + (i * parts + p) * 4
            start = dot4(bytes_of(FMT, words[i], p), bitcast(x[m, at : at + 4], i32)[0], start)
    return start


@kernel(schedule={"cpu": {"ROWS": 2}}, tune={"THREADS": [32, 64, 128]})
def qmv_codes(
    code: In[i8, M, K],
    scale: In[f32, M, K // 32],
    total: In[i32, M, K // 32],
    w: Packed[FMT, N, K],
    bias: In[T, N] | None,
    residual: In[T, M, N] | None,
    y: Out[T, M, N],
    *,
    THREADS: Const = lambda simd_width: max(32, simd_width),
    ROWS: Const = 1,
):
    """One thread per ROWS // M rows of W; M is compiled in, 1 to 8. `total` holds the sums of x's
    blocks.

    Sums of a block are exact integers, those of blocks are f32. `residual` is added.
    """
    rows = max(1, ROWS // M)
    (group,) = groups(cdiv(N, THREADS * rows), threads=THREADS)
    require(M <= 8, "qmv_codes takes at most 8 vectors")
    n = [(group * rows + r) * THREADS + thread for r in unrolled(rows)]
    row = [minimum(n[r], N - 1) for r in unrolled(rows)]
    if THREADS == 32:  # a tile has rows for all of its 32 threads
        row = [minimum(group * rows + r, cdiv(N, 32) - 1) * 32 + thread for r in unrolled(rows)]
    less = offset(FMT)

    acc = [[f32(0) for _ in unrolled(M)] for _ in unrolled(rows)]
    for b in range(K // 32):
        for r in unrolled(rows):
            words = [FMT.word(w, row[r], b * FMT.bits + i) for i in unrolled(FMT.bits)]
            s, t = FMT.factors(w, row[r], b // (FMT.group // 32))
            for m in unrolled(M):
                sums = block_dot(words, code, m, b, total[m, b] * -less, FMT)
                acc[r][m] = acc[r][m] + (s * scale[m, b]) * f32(sums)
                if FMT.algebra is Algebra.AFFINE:
                    acc[r][m] = acc[r][m] + t * (scale[m, b] * f32(total[m, b]))
    for r in unrolled(rows):
        for m in unrolled(M):
            if n[r] < N:
                y[m, n[r]] = added(acc[r][m], bias, residual, m, n[r]).to(T)


@plan
def qmv_q8(
    x: In[T, M, K],
    w: Packed[FMT, N, K],
    bias: In[T, N] | None,
    residual: In[T, M, N] | None,
    y: Out[T, M, N],
):
    """y = x W^T with x rounded to 8-bit codes in blocks of 32: one launch for them, one for y."""
    code = scratch(i8, M, K)
    scale = scratch(f32, M, K // 32)
    total = scratch(i32, M, K // 32)
    quantize_blocks(x, code, scale, total)
    qmv_codes(code, scale, total, w, bias, residual, y)


def product(x, w, bias, residual):
    """x W^T and the two condition terms of DOT."""
    parts = x[:, None, :] * w.decode().astype(np.float64)[None]
    extra = (0 if bias is None else bias) + (0 if residual is None else residual)
    size = np.abs(x)[:, None, :] * terms(w)[None]
    root, total = np.sqrt((size**2).sum(-1)), size.sum(-1) + np.abs(extra)
    return parts.sum(-1) + extra, root, total


def terms(w):
    """The largest size of s q and b in each group: they may cancel in a weight."""
    dense = np.abs(w.decode().astype(np.float64))
    groups_of = dense.reshape(len(dense), -1, w.fmt.group)
    return np.repeat(groups_of.max(-1) * 2, w.fmt.group, -1)


@qmv_codes.oracle
def _(code, scale, total, w, bias, residual):
    y, root, size = product(np.repeat(scale, 32, -1) * code, w, bias, residual)
    return {"y": y}, {"y": (root, size)}


@qmv_q8.oracle
def _(x, w, bias, residual):
    y, root, size = product(x, w, bias, residual)
    step = np.repeat(blocks(x)[1] / 2, 32, -1)
    lost = step @ np.abs(w.decode().astype(np.float64)).T
    return {"y": y}, {"y": (root, size, lost)}


def codes_of(rng, M, K):
    """Random codes, scales and the sums of the codes."""
    code, scale = rng.integers(M, K, low=-127, high=128), rng.uniform(M, K // 32)
    return {"code": code, "scale": scale, "total": code.reshape(M, -1, 32).sum(-1)}


@qmv_codes.case(M=[1, 3], N=[67], K=[320], T=[f32], tol=DOT)
def _(rng, M, N, K, FMT):
    return {**codes_of(rng, M, K), "w": rng.packed(FMT, N, K), "bias": None, "residual": None}


def finished(rng, M, N, K, FMT):
    """Codes, a weight, and what is added to the products."""
    bias, residual = rng.normal(N), rng.normal(M, N)
    given = {"w": rng.packed(FMT, N, K), "bias": bias, "residual": residual}
    return {**codes_of(rng, M, K), **given}


@qmv_codes.case(M=[2], N=[1, 97], K=[64], FMT=FORMATS[1:4:2], tol=DOT)
def _(rng, M, N, K, FMT):
    return finished(rng, M, N, K, FMT)


@qmv_codes.case(M=[2], N=[1, 97], K=[64], THREADS=[64], FMT=FORMATS[1:4:2], tol=DOT)
def _(rng, M, N, K, FMT):
    return finished(rng, M, N, K, FMT)


@qmv_codes.case(M=[1], N=[64, 97], K=[64], T=[f32], ROWS=[3], FMT=FORMATS[2:4], tol=DOT)
def _(rng, M, N, K, FMT):
    return {**codes_of(rng, M, K), "w": rng.packed(FMT, N, K), "bias": None, "residual": None}


@qmv_q8.case(M=[1, 3], N=[67], K=[64, 192], T=[f32], tol=DOT8)
def _(rng, M, N, K, FMT):
    apart = rng.distinct(M, N, low=-400.0, high=400.0)  # more than what rounding x may cost
    return {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K), "bias": None, "residual": apart}


qmv_codes.bench(M=1, N=4096, K=4096, FMT=FORMATS[0], T=f32, flops=lambda M, N, K: 2 * M * N * K)
qmv_q8.bench(
    M=1, N=[4096, 14336], K=4096, FMT=FORMATS[:4], T=f32, flops=lambda M, N, K: 2 * M * N * K,
    make=lambda rng, M, N, K, FMT: {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K)},
)  # fmt: skip
