"""A matvec whose teams of threads take whole rows: their sums, and how a GPU's threads are shared.

Sums are inlined into `qmv`.
"""

from iron.kernels.attention import together
from iron.kernels.matvec_columns import added, column_threads, in_bytes
from iron.kernels.matvec_matrix import matrix_threads
from iron.lang import barrier, f32, inline, minimum, shared, strided, thread, unrolled
from iron.quant.format import Algebra


MOST_ROWS = 32
"""Rows of a team that walks in columns, at most."""


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
def chunk_sums(x, w, row, first, STEP, FMT):
    """The same of the chunks first, first + STEP, ..., each of `FMT.vec` weights."""
    acc = [[f32(0) for _ in unrolled(x.shape[0])] for _ in unrolled(len(row))]
    for c in range(first, x.shape[1] // FMT.vec, STEP):
        at = [FMT.at(c) + s + e for s, size in FMT.runs for e in unrolled(size)]
        for m in unrolled(x.shape[0]):
            xs = [x[m, i].to(f32) for i in at]
            for r in unrolled(len(row)):
                acc[r][m] = acc[r][m] + w.dot(row[r], c, xs)
    return acc


@inline
def by_teams(x, w, bias, residual, y, group, shape, held, PARTS, FMT):
    """y = x W^T with what is added, in the rows of a group's teams.

    `shape` is (rows of a team, threads of a team, threads of the group); with PARTS a thread takes
    parts of chunks, `held` of them if that is all there are.
    """
    rows, team, THREADS = shape
    M, N, teams = x.shape[0], w.shape[0], max(1, THREADS // team)
    n = [(group * rows + r) * teams + thread // team for r in unrolled(rows)]
    tile = FMT.body == "tiles" and teams == 32  # it has a row for each of its 32 threads
    row = n if tile else [minimum(n[r], N - 1) for r in unrolled(rows)]
    if PARTS:
        acc = part_sums(x, w, row, team, held, FMT)
    elif FMT.algebra is Algebra.DENSE and team == THREADS:
        acc = dense_sums(x, w, row, team)
    else:
        acc = chunk_sums(x, w, row, thread % team, team, FMT)
    totals = together([acc[r][m] for r in unrolled(rows) for m in unrolled(M)], team)
    for r in unrolled(rows):
        for m in unrolled(M):
            if (thread % team == 0) & (n[r] < N):
                total = added(totals[r * M + m], bias, residual, m, n[r])
                y[m, n[r]] = total.to(y.dtype)


@inline
def by_tiles(x, w, bias, residual, y, tile, THREADS, FMT):
    """y = x W^T with what is added, in the 32 rows of a tile: every 32 threads take those rows.

    The runs of 32 threads share the chunks of a row.
    """
    M, runs, run, n = x.shape[0], THREADS // 32, thread // 32, tile * 32 + thread % 32
    acc = chunk_sums(x, w, [n], run, runs, FMT)
    pile = shared((runs, M, 32), f32)
    for m in unrolled(M):
        pile[run, m, thread % 32] = acc[0][m]
    barrier()
    for i in strided(M * 32):
        m, at = i // 32, i % 32
        total, n = pile[0, m, at], tile * 32 + at
        for j in unrolled(1, runs):
            total += pile[j, m, at]
        if n < w.shape[0]:
            y[m, n] = added(total, bias, residual, m, n).to(y.dtype)


@inline
def part_sums(x, w, row, TEAM, HELD, FMT):
    """The same of a thread's parts of chunks, each a few words; HELD of them are all there are."""
    acc = [[f32(0) for _ in unrolled(x.shape[0])] for _ in unrolled(len(row))]
    for i in unrolled(HELD):
        acc = with_part(acc, x, w, row, thread % TEAM + i * TEAM, FMT)
    for p in range(thread % TEAM, 0 if HELD else x.shape[1] // FMT.vec * FMT.parts, TEAM):
        acc = with_part(acc, x, w, row, p, FMT)
    return acc


@inline
def with_part(acc, x, w, row, p, FMT):
    """The sums after part p of each row."""
    at = [FMT.part_at(p) + s + e for s, size in FMT.part_runs for e in unrolled(size)]
    every = unrolled(x.shape[0])
    xs = [[x[m, i].to(f32) for i in at] for m in every]
    return [
        [acc[r][m] + FMT.part_dot(w, row[r], p, xs[m]) for m in every] for r in unrolled(len(row))
    ]


def way_of(M, N, K, FMT, DOT4, MATRIX):
    """How a GPU multiplies: `tiles`, `matrix`, `columns`, `whole` rows of plain floats, `teams`."""
    if FMT.body == "tiles":
        return "tiles"
    if FMT.body == "dense" and whole_threads(K, FMT):
        return "whole"
    if MATRIX and M == 1 and N >= 4096 and matrix_threads(K, FMT):
        return "matrix"
    packed = DOT4 and M == 1 and N >= 4096 and in_bytes(FMT)
    return "columns" if packed and column_threads(K, FMT) <= 1024 else "teams"


def whole_threads(K, FMT):
    """Threads that hold at most 8 parts each of a row; 0 where no such number makes a row."""
    parts = K // FMT.vec * FMT.parts
    return next((n for n in (256, 128, 64) if parts % n == 0 and 0 < parts // n <= 8), 0)


def teams_of(WAY, K, FMT, shared_bytes):
    """Teams of a group that walks in columns: up to 512 threads, whose products find room."""
    if WAY != "columns":
        return 1
    columns = column_threads(K, FMT)
    room = shared_bytes // (4 * columns * MOST_ROWS) - 1  # the digits of x take as much as a team
    return 1 << max(0, min(512 // columns, room).bit_length() - 1)


def threads_of(WAY, TEAMS, N, K, FMT):
    """Threads of a group on a GPU: one for each chunk or a few parts of a row, or a few teams."""
    if WAY == "tiles":
        return 1024
    if WAY == "columns":
        return TEAMS * column_threads(K, FMT)
    if WAY == "matrix":
        return matrix_threads(K, FMT)
    if WAY == "whole":
        return whole_threads(K, FMT) or 64
    return 64 if N >= 8192 else 128


def rows_of(WAY, TEAMS, N, UNROLL):
    """Rows of a team on a GPU: many groups come before what rows share."""
    if WAY == "columns":
        return UNROLL * max(1, min(MOST_ROWS // UNROLL, -(-N // (128 * TEAMS * UNROLL))))
    if WAY == "matrix":
        return 16 * max(1, min(7, N // 2048))
    return 1 if WAY == "whole" else max(1, min(4, N // 2048))
