"""Product of a packed weight with few vectors:  y[m, n] = sum_k decode(W[n, k]) * x[m, k].

Source: the definition; the formats and their decoding are those of `iron.quant.format`.
"""

import numpy as np

from iron.kernels.matvec_columns import by_columns, in_bytes
from iron.kernels.matvec_matrix import BLOCK, LINES, by_matrix, in_blocks, in_lines
from iron.kernels.matvec_teams import by_teams, by_tiles, rows_of, teams_of, threads_of, way_of
from iron.lang import DOT, Const, In, Out, Packed, bf16, cdiv, dims, dtypes, f16, f32
from iron.lang import formats, groups, kernel, require
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
NAMES_IN_BLOCKS = ("mlx_int4_g64", "mlx_int4_g128", "int4_zp_g64", "int4_row_f32")
IN_BLOCKS = [by_name(name) for name in NAMES_IN_BLOCKS]
FMT = formats("FMT", *FORMATS.values())


@kernel(
    choose={"TEAM": {"gpu": [32], "cpu": [1, 32]}},
    schedule={
        "integer_dot": {"DOT4": True},
        "simd_mma": {"MATRIX": True},
        "cpu": {"THREADS": 32, "ROWS": 4, "PARTS": False, "WAY": "teams"},
    },
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
    DOT4: Const = False,
    MATRIX: Const = False,
    WAY: Const = way_of,
    TEAMS: Const = teams_of,
    THREADS: Const = threads_of,
    UNROLL: Const = lambda WAY, FMT: 4 if WAY != "matrix" else 2 if in_blocks(FMT) else 1,
    ROWS: Const = rows_of,
    PARTS: Const = True,
):
    """y = x W^T (+ bias) (+ residual); M is compiled in, 1 to 8. Sums are f32.

    In the way of `teams`, one team of TEAM threads takes ROWS // M rows of W. A thread takes chunks
    of these rows, or with PARTS a few words of one. The codec owns the order of the elements inside
    and takes scales out of its sum. What a team reads of x serves all of its rows, which lie as
    many apart as the group has teams; packed formats that are not read in parts have one row a
    team, since their arithmetic fills the registers. `whole` is the same for plain floats with a
    team that is the group and asks for every word of its rows at once.

    In the way of `tiles`, a group takes the 32 rows of a tile, and its simdgroups share their
    columns. In the way of `columns`, for one vector and many rows, a thread keeps one chunk's
    columns of x in fixed point (`matvec_columns`) and walks down the ROWS rows of its team, of
    which a group has TEAMS, UNROLL at a time. It is for targets that multiply bytes four at a time
    (DOT4). In the way of `matrix` simdgroups share the columns instead: 16 rows meet the digits of
    x in one instruction, and UNROLL times 16 are asked for early. Without MATRIX it is `columns`.
    """
    whole, matrix = WAY == "whole", WAY == "matrix" and MATRIX
    columns = WAY == "columns" or (WAY == "matrix" and not MATRIX)
    tiles, team = WAY == "tiles", THREADS if whole else TEAM
    teams = max(1, THREADS // team)
    several = FMT.parts > 1 if PARTS else FMT.body == "dense"
    rows = max(1, ROWS // M) if several else 1
    held = K // FMT.vec * FMT.parts // THREADS if whole else 0
    held = K // BLOCK // (THREADS // 32) if matrix else held
    ahead = min(UNROLL, ROWS // 16) if matrix else 0
    size = TEAMS * ROWS if columns else ROWS if matrix else 32 if tiles else teams * rows
    (group,) = groups(cdiv(N, size), threads=THREADS)
    require(team <= THREADS, "a team of threads is part of a group")
    require(team > 1 or FMT.body != "dense", "plain floats are read by teams")
    require(M <= 8, "qmv takes at most 8 vectors; use qmm for more")
    require(K % FMT.vec == 0, "the row length K must be a multiple of the format's chunk")
    require(not whole or FMT.body == "dense", "whole rows are for plain floats")
    require(held <= 8, "a thread holds at most 8 parts of a row")
    require(held * THREADS == K // FMT.vec * FMT.parts or not whole, "held parts make a row")
    require(not tiles or FMT.body == "tiles", "tiles are for rows that lie side by side")
    require(not columns or in_bytes(FMT), "columns are for codes in words")
    require(not (columns or matrix) or M == 1, "columns are for one vector")
    require(THREADS % (32 * TEAMS) == 0 or not columns, "teams of columns are runs of 32 threads")
    require(not columns or K // FMT.vec <= THREADS // TEAMS, "a chunk of a row has a thread")
    require(ROWS % UNROLL == 0 or not columns, "rows are walked UNROLL at a time")

    require(not matrix or in_blocks(FMT) or in_lines(FMT), "products are for some codes of 4 bits")
    require(held * (THREADS // 32) * BLOCK == K or not matrix, "simdgroups share the columns")
    if matrix and in_lines(FMT):
        require(16 % (THREADS // 32) == 0, "simdgroups share 16 rows")
        require(K % LINES == 0, "every lane reads as many words of a row")
    require(ROWS % 16 == 0 or not matrix, "a product of simdgroups has 16 rows")

    if matrix:
        by_matrix(x, w, bias, residual, y, group * ROWS, (ROWS, THREADS, held, ahead), FMT)
    elif columns:
        by_columns(x, w, bias, residual, y, group * size, (ROWS, TEAMS, THREADS, UNROLL), FMT)
    elif tiles:
        by_tiles(x, w, bias, residual, y, group, THREADS, FMT)
    else:
        by_teams(x, w, bias, residual, y, group, (rows, team, THREADS), held, PARTS, FMT)


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


def small(rng, M, N, K, FMT):
    """Vectors far below 1, and what is added to their products."""
    x, bias, residual = (rng.normal(*shape) / 1024 for shape in ((M, K), (N,), (M, N)))
    return {"x": x, "w": rng.packed(FMT, N, K), "bias": bias, "residual": residual}


@qmv.case(
    M=[1], N=[9], K=[192], FMT=[*COMMON[3:5], COMMON[6], *IN_PARTS], WAY=["columns"], TEAM=[32],
    TEAMS=[2], THREADS=[128], ROWS=[3], UNROLL=[1], tol=DOT,
)  # fmt: skip
def _(rng, M, N, K, FMT):
    return small(rng, M, N, K, FMT)


@qmv.case(
    M=[1], N=[90], K=[256], T=[f32], FMT=IN_BLOCKS, WAY=["matrix"], TEAM=[32], TEAMS=[1],
    THREADS=[64], ROWS=[80], UNROLL=[1], tol=DOT,
)  # fmt: skip
def _(rng, M, N, K, FMT):
    return small(rng, M, N, K, FMT)


@qmv.case(
    M=[1], N=[90], K=[1024], T=[f32], FMT=COMMON[4:7:2], WAY=["matrix"], TEAM=[32], TEAMS=[1],
    THREADS=[64], ROWS=[80], UNROLL=[2], tol=DOT,
)  # fmt: skip
@qmv.case(
    M=[1], N=[90], K=[1024, 4096], T=[f32, bf16], FMT=COMMON[4:7:2], WAY=["matrix"], TEAM=[32],
    TEAMS=[1], THREADS=[128], ROWS=[32], UNROLL=[1], tol=DOT,
)  # fmt: skip
def _(rng, M, N, K, FMT):
    return small(rng, M, N, K, FMT)


@qmv.case(
    M=[1], N=[21], K=[1088], T=[f32], FMT=COMMON[6:7], WAY=["columns"], TEAM=[32], TEAMS=[2],
    THREADS=[128], ROWS=[9], UNROLL=[3], tol=DOT,
)  # fmt: skip
def _(rng, M, N, K, FMT):
    return small(rng, M, N, K, FMT)


@qmv.case(
    M=[1, 3], N=[5], K=[1024], T=[f32], FMT=COMMON[:3], WAY=["whole"], TEAM=[32], THREADS=[64],
    ROWS=[4], tol=DOT,
)  # fmt: skip
def _(rng, M, N, K, FMT):
    return {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K), "bias": None, "residual": None}


@qmv.case(
    M=[1, 3], N=[35], K=[320], T=[f32], FMT=COMMON[8:], WAY=["tiles"], TEAM=[32], THREADS=[64],
    tol=DOT,
)  # fmt: skip
def _(rng, M, N, K, FMT):
    bias, residual = rng.normal(N), rng.normal(M, N)
    return {"x": rng.normal(M, K), "w": rng.packed(FMT, N, K), "bias": bias, "residual": residual}


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
