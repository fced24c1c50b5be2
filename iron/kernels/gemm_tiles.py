"""Tiles of a product of two matrices: their sizes, their sums, and what follows a sum."""

from typing import NamedTuple

from iron.kernels.activation import fast_gelu_tanh, fast_silu, gelu_erf, gelu_tanh, relu, silu
from iron.lang import cdiv, f32, inf, inline, minimum, mma, next_pow2, pipelined, where, zeros


def side_of(n, T, shared_bytes):
    """The side of a tile along n elements: 128 where two such operands of 32 columns have room."""
    most = 128 if 2 * 2 * 128 * 32 * T.bytes <= shared_bytes else 64
    return min(most, max(16, next_pow2(n)))


def rows_of(P, Q, TA, T, shared_bytes):
    """Rows of a tile of c."""
    return side_of(Q if TA else P, T, shared_bytes)


def columns_of(R, S, TB, T, shared_bytes):
    """Columns of a tile of c."""
    return side_of(R if TB else S, T, shared_bytes)


def deep_where_there_is_room(T, shared_bytes):
    """BK for matrices of a simdgroup whose operands wait in registers: 224 TFLOP/s in bf16 through
    Vulkan on an H200 with 64, where 32 has 173. Two operands and the blocks of sums have room."""
    room = 2 * 128 * (64 + 8) * T.bytes + 8 * 16 * 20 * 4
    return 64 if T is not f32 and room <= shared_bytes else 32


class Schedule(NamedTuple):
    """The keys of a schedule where warpgroups multiply."""

    BM: int
    BN: int
    BK: int
    STAGES: int
    CONSUMERS: int
    TRANSPOSED: int = 0
    PERSISTENT: int = 0


def hopper(m, n, TA):
    """The schedule on sm_90 of m rows and n columns, BK for 16-bit factors.

    Measured on an H200. Few rows read weights as fast as memory gives them: one wave of groups,
    many bytes under way, and up to 48 rows as columns of the transpose. Many rows take the widest
    product of a warpgroup that leaves no processor without a tile.
    """
    side = next((s for s in (256, 128) if cdiv(n, s) >= 96), 64)
    if m <= 48 and not TA:
        rows = 16 if m <= 16 else 32 if m <= 32 else 48
        many = 3 if rows == 48 else 4  # slots of BK 256, as the memory of a group holds
        depth, stages, consumers = {256: (64, 5, 4), 128: (128, 4, 2), 64: (256, many, 1)}[side]
        return Schedule(rows, side, depth, stages, consumers, TRANSPOSED=1)
    if m <= 64 and side == 256:
        return Schedule(64, 256, 64, 4, 4, TRANSPOSED=1)
    if 64 < m <= 128 and side == 128:
        return Schedule(128, 128, 128, 3, 2)
    if m <= 128 and side < 256:
        if n >= 8192:
            return Schedule(64, 128, 128, 4, 1) if m <= 64 else Schedule(128, 64, 64, 8, 2)
        return Schedule(64, 64, 128, 6, 1, TRANSPOSED=int(m <= 64))
    side = next((s for s in (256, 128) if cdiv(m, 128) * cdiv(n, s) >= 112), 64)
    depth, stages = {256: (64, 3), 128: (64, 6), 64: (128, 4)}[side]
    return Schedule(128, side, depth, stages, 2, PERSISTENT=132)


def hopper_entry(key):
    """The function that a schedule calls for one key of `hopper`."""

    def entry(P, Q, R, S, TA, TB, T, MATH, shared_bytes):
        m, n = Q if TA else P, R if TB else S
        if T is f32 and (MATH != "tf32" or TA or not TB):
            sides = side_of(m, T, shared_bytes), side_of(n, T, shared_bytes)
            return getattr(Schedule(*sides, 32, 2, 0, PERSISTENT=132), key)
        found = getattr(hopper(m, n, TA), key)
        return found // 2 if T is f32 and key == "BK" else found

    return entry


MATRICES = {"BK": deep_where_there_is_room}
HOPPER = {key: hopper_entry(key) for key in Schedule._fields}


CUDA = {
    "BK": lambda T: 64 if T.bytes == 2 else 32,
    "STAGES": lambda T, BM, BN, BK, shared_bytes: (
        3 if T.bytes == 2 and shared_bytes >= 3 * (BM + BN) * (2 * BK + 16) else 2
    ),
}
"""Where mma.sync multiplies 16 bits: measured with tiles of 128 x 128 on an H200."""


SPLIT = {
    "BN": lambda R, S, TB, T, shared_bytes: (
        columns_of(R, S, TB, T, shared_bytes) if T is f32 else 64
    ),
    "BK": lambda T, BM: 32 if T is f32 else 256 if BM <= 32 else 128,
    "STAGES": lambda T, BM, BN, BK: 2 if T is f32 else 200 * 1024 // ((BM + BN) * BK * T.bytes),
}
"""The schedule of sm_90 where k is divided, measured on an H200."""


def chained(CHAIN, BK, MATH):
    """Tiles of k whose products make one chain; 0: all of them."""
    return max(1, CHAIN // BK) if CHAIN and MATH != "tf32" else 0


@inline(exact=True)
def compensated(total, part):
    """total + part, and what is lost when that is rounded: 0 where it is not finite."""
    new = total + part
    return new, where(abs(new) < inf, part - (new - total), 0.0)


@inline
def turn(A, B, m, n, k, acc, form):
    """acc plus the products of one tile of k."""
    TA, TB, MATH = form
    x = A[k, m].T if TA else A[m, k]
    y = B[n, k].T if TB else B[k, n]
    return mma(x, y, acc, math=MATH)


@inline
def summed(A, B, m, n, low, high, shape, STAGES, some, form):
    """The sum of a tile of c over the tiles low .. high - 1 of k, in f32.

    `some` tiles (0: all) make a chain; the sums of chains are added with compensation.
    """
    acc = zeros(shape, f32)
    if some:
        lost = zeros(shape, f32)
        for first in range(low, high, some):
            for k in pipelined(first, minimum(first + some, high), stages=STAGES):
                lost = turn(A, B, m, n, k, lost, form)
            acc, lost = compensated(acc, lost)
    else:
        for k in pipelined(low, high, stages=STAGES):
            acc = turn(A, B, m, n, k, acc, form)
    return acc


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
def finish(acc, alpha, bias, old, beta, ACT, T):
    """ACT(alpha acc + bias) + beta old; what is None is left out."""
    if alpha is not None:
        acc = acc * alpha
    if bias is not None:
        acc = acc + bias
    acc = activated(acc, ACT, T)
    if old is not None:
        acc = acc + (old if beta is None else old * beta)
    return acc
