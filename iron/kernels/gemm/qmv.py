"""Product of a packed weight with few vectors:  y[m, n] = sum_k decode(W[n, k]) * x[m, k].

Source: the definition; the formats and their decoding are those of `iron.quant.format`.
"""

import numpy as np

from iron.lang import DOT, Const, In, Out, Packed, bf16, cdiv, dims, dtypes, f16, f32, formats
from iron.lang import group_sum, groups, inline, kernel, minimum, require, thread, unrolled
from iron.quant.format import FORMATS, Algebra, by_name

M, N, K = dims("M N K")
T = dtypes("T", f32, f16, bf16)
NAMES = [
    "f32",
    "f16",
    "bf16",
    "gguf_q4_0",
    "gguf_q4_1",
    "gguf_q8_0",
    "mlx_int4_g64",
    "mlx_int8_g64",
    "int4_sym_g32_f16_r32",
    "mlx_int4_g64_r32",
    "int8_sym_g32_f16_r32",
]
COMMON = [by_name(name) for name in NAMES]
OTHERS = [by_name(name) for name in ("gguf_q5_1", "gguf_q4_k", "gguf_q6_k")]
NAMES_IN_PARTS = ("int4_g64_f32", "mlx_int2_g32", "int4_zp_g32", "int2_sym_g64_f32")
IN_PARTS = [by_name(name) for name in NAMES_IN_PARTS]
FMT = formats("FMT", *FORMATS.values())


@inline
def dense_sums(x, w, row, TEAM):
    """sum_k W[row[r], k] x[m, k] of a thread's columns: neighbours read neighbours."""
    acc = [[f32(0) for _ in unrolled(x.shape[0])] for _ in unrolled(len(row))]
    for k in range(thread % TEAM, x.shape[1], TEAM):
        xs = [x[m, k].to(f32) for m in unrolled(x.shape[0])]
        for r in unrolled(len(row)):
            weight = w.decode(row[r], k)
            for m in unrolled(len(xs)):
                acc[r][m] = acc[r][m] + weight * xs[m]
    return acc


@inline
def chunk_sums(x, w, row, TEAM, FMT):
    """The same of a thread's chunks: t, t + TEAM, ..., each of `FMT.vec` weights."""
    acc = [[f32(0) for _ in unrolled(x.shape[0])] for _ in unrolled(len(row))]
    for c in range(thread % TEAM, x.shape[1] // FMT.vec, TEAM):
        at = [FMT.at(c) + s + e for s, size in FMT.runs for e in unrolled(size)]
        for m in unrolled(x.shape[0]):
            xs = [x[m, i].to(f32) for i in at]
            for r in unrolled(len(row)):
                acc[r][m] = acc[r][m] + w.dot(row[r], c, xs)
    return acc


@inline
def part_sums(x, w, row, TEAM, FMT):
    """The same of a thread's parts of chunks, each a few words."""
    acc = [[f32(0) for _ in unrolled(x.shape[0])] for _ in unrolled(len(row))]
    for p in range(thread % TEAM, x.shape[1] // FMT.vec * FMT.parts, TEAM):
        at = [FMT.part_at(p) + s + e for s, size in FMT.part_runs for e in unrolled(size)]
        for m in unrolled(x.shape[0]):
            xs = [x[m, i].to(f32) for i in at]
            for r in unrolled(len(row)):
                acc[r][m] = acc[r][m] + FMT.part_dot(w, row[r], p, xs)
    return acc


@inline
def added(total, bias, residual, m, n):
    """total + bias[n] + residual[m, n], of what there is."""
    if bias is not None:
        total = total + bias[n].to(f32)
    return total if residual is None else total + residual[m, n].to(f32)


@kernel(
    choose={"TEAM": {"gpu": [32], "cpu": [1, 32]}},
    schedule={"cpu": {"THREADS": 32, "ROWS": 4, "PARTS": False}},
    tune={"TEAM": [8, 16, 32], "THREADS": [32, 64, 128, 256], "ROWS": [1, 2, 4, 8]},
)
def qmv(
    x: In[T, M, K],
    w: Packed[FMT, N, K],
    bias: In[T, N] | None,
    residual: In[T, M, N] | None,
    y: Out[T, M, N],
    *,
    TEAM: Const = 32,
    THREADS: Const = 64,
    ROWS: Const = 4,
    PARTS: Const = True,
):
    """One team of TEAM threads per ROWS // M rows of W; M is compiled in, 1 to 8.

    A thread takes chunks of W's rows, or with PARTS a few words of one. The codec owns the order of
    the elements inside and takes scales out of its sum. What a team reads of x serves all of its
    rows, which lie as many apart as the group has teams; packed formats that are not read in parts
    have one row a team, since their arithmetic fills the registers. `residual` is added. Sums are
    f32.
    """
    teams = max(1, THREADS // TEAM)
    several = FMT.parts > 1 if PARTS else FMT.body == "dense"
    rows = max(1, ROWS // M) if several else 1
    (group,) = groups(cdiv(N, teams * rows), threads=THREADS)
    require(TEAM <= THREADS, "a team of threads is part of a group")
    require(TEAM > 1 or FMT.body != "dense", "plain floats are read by teams")
    require(M <= 8, "qmv takes at most 8 vectors; use qmm for more")
    require(K % FMT.vec == 0, "the row length K must be a multiple of the format's chunk")
    n = [(group * rows + r) * teams + thread // TEAM for r in unrolled(rows)]
    whole = FMT.body == "tiles" and teams == 32  # a tile has a row for each of its 32 threads
    row = n if whole else [minimum(n[r], N - 1) for r in unrolled(rows)]

    if PARTS:
        acc = part_sums(x, w, row, TEAM, FMT)
    elif FMT.algebra is Algebra.DENSE and TEAM == THREADS:
        acc = dense_sums(x, w, row, TEAM)
    else:
        acc = chunk_sums(x, w, row, TEAM, FMT)
    for r in unrolled(rows):
        for m in unrolled(M):
            total = group_sum(acc[r][m], width=TEAM)
            if (thread % TEAM == 0) & (n[r] < N):
                y[m, n[r]] = added(total, bias, residual, m, n[r]).to(T)


def terms(w):
    """The size of decode(w)'s terms: s q and b reach a group's extreme where their sum is 0."""
    dense = np.abs(w.decode().astype(np.float64))
    if w.fmt.algebra is not Algebra.AFFINE:
        return dense
    groups = dense.reshape(*dense.shape[:-1], -1, w.fmt.group)
    return np.repeat(groups.max(-1), w.fmt.group, -1)


@qmv.oracle
def _(x, w, bias, residual):
    parts, size = x[:, None, :] * w.decode()[None], np.abs(x[:, None, :]) * terms(w)[None]
    extra = (0 if bias is None else bias) + (0 if residual is None else residual)
    root, total = np.sqrt((size**2).sum(-1)), size.sum(-1) + np.abs(extra)
    return {"y": parts.sum(-1) + extra}, {"y": (root, total)}


@qmv.case(M=[1, 3], N=[67], K=[320], T=[f32], FMT=COMMON, tol=DOT)
def _(rng, M, N, K, FMT):
    return {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K), "bias": None, "residual": None}


@qmv.case(M=[1], N=[33], K=[320], T=[f16, bf16], FMT=COMMON[3:6:2], tol=DOT)
def _(rng, M, N, K, FMT):
    return {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K), "bias": None, "residual": None}


@qmv.case(M=[5], N=[1, 33], K=[64], T=[f32], FMT=COMMON, tol=DOT)
def _(rng, M, N, K, FMT):
    bias, residual = rng.normal(N), rng.normal(M, N)
    return {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K), "bias": bias, "residual": residual}


@qmv.case(M=[2], N=[35], K=[320], T=[f32], FMT=COMMON[4:5], TEAM=[8], THREADS=[64], tol=DOT)
def _(rng, M, N, K, FMT):
    bias, residual = rng.normal(N), rng.normal(M, N)
    return {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K), "bias": bias, "residual": residual}


@qmv.case(
    M=[1], N=[34], K=[96], T=[f32], FMT=COMMON[2:3], TEAM=[32], THREADS=[32], ROWS=[3], tol=DOT
)
def _(rng, M, N, K, FMT):
    return {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K), "bias": None, "residual": None}


@qmv.case(
    M=[2], N=[13], K=[192], T=[f32], FMT=[*COMMON[2:7], *IN_PARTS], TEAM=[8], THREADS=[32],
    ROWS=[6], PARTS=[True], tol=DOT,
)  # fmt: skip
def _(rng, M, N, K, FMT):
    return {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K), "bias": None, "residual": None}


@qmv.case(M=[1], N=[7], K=[512], T=[f32], FMT=OTHERS, tol=DOT)
def _(rng, M, N, K, FMT):
    return {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K), "bias": None, "residual": None}


qmv.bench(
    M=1,
    N=[4096, 14336],
    K=4096,
    T=f32,
    FMT=[f for f in COMMON if f.name not in ("f32", "f16", "mlx_int8_g64")],
    flops=lambda M, N, K: 2 * M * N * K,
    make=lambda rng, M, N, K, FMT: {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K)},
)
