"""A matvec by products of simdgroups: 16 rows of codes times the digits of x, in one instruction.

Every function is inlined into `qmv`. The digits of `matvec_columns` are columns of a matrix of
bytes: three for the first half of 128 columns of W, three for the second, zeros elsewhere, so that
the sums of each half stay apart and take their own factors. A simdgroup keeps its share of that
matrix in registers and walks down the rows, 16 at a time.
"""

from iron.kernels.matvec_columns import added, chunk_product, in_bytes, layout, leave_digits
from iron.kernels.matvec_columns import unit_columns
from iron.lang import barrier, bitcast, f16, f32, group_sum, i32, inline, minimum, shared, simd_mma
from iron.lang import strided, thread, u32, unrolled, where
from iron.quant.codec.words import offset
from iron.quant.format import Algebra, Elem

BLOCK = 128
"""Columns of W that a product of simdgroups takes: four neighbours of 32, one a lane."""

LINES = 1024
"""Columns that a simdgroup reads word by word, so that every lane has as many."""

LOW = 0x0F0F0F0F


def in_blocks(FMT):
    """Whether chunks are 32 codes of 4 bits, and 64, 128 or all columns of a row share factors."""
    in_line = in_bytes(FMT) and FMT.body == "stream" and FMT.bits == 4
    return in_line and FMT.vec == 32 and FMT.group in (0, 64, 128)


def in_lines(FMT):
    """Whether a format's chunks are five words: two f16 factors, then 32 codes of 4 bits."""
    return in_bytes(FMT) and FMT.body == "gguf_q4_1"


def matrix_threads(K, FMT):
    """Threads of a group whose simdgroups take at most two blocks of a row; 0 where none fit."""
    unit = BLOCK if in_blocks(FMT) else LINES if in_lines(FMT) else 0
    blocks = K // BLOCK if unit and K % unit == 0 else 0
    runs = [blocks // n for n in (2, 1) if blocks % n == 0]
    return next((32 * n for n in runs if 0 < n <= 32 and (in_blocks(FMT) or 16 % n == 0)), 0)


@inline
def by_matrix(x, w, bias, residual, y, first, shape, FMT):
    """y = x W^T with what is added, in the ROWS rows of a group from `first` on.

    `shape` is (rows, threads, blocks of a simdgroup, tiles of 16 rows that are asked for early).
    """
    ROWS, THREADS = shape[:2]
    pile = shared((ROWS, THREADS // 32 + 1), f32)
    if FMT.body == "stream":
        blocks_along(x, w, pile, first, shape, FMT)
    else:
        lines_along(x, w, pile, first, shape, FMT)
    barrier()
    for i in strided(ROWS):
        total, n = pile[i, 0], first + i
        for s in unrolled(1, THREADS // 32):
            total += pile[i, s]
        if n < w.shape[0]:
            y[0, n] = added(total, bias, residual, 0, n).to(y.dtype)


@inline
def own_columns(x, facts, HELD, TOGETHER, FMT):
    """What `unit_columns` gives of the word that a thread makes digits of, if it has one at most.

    All products wait for x, so no weight is asked for before x has come.
    """
    alone = HELD * BLOCK * FMT.bits <= 32 * 32  # words of a simdgroup's blocks, and its threads
    together = FMT.vec * FMT.bits // 32 * TOGETHER
    return unit_columns(x, facts, thread, together, FMT) if alone else None


@inline
def lines_along(x, w, pile, first, shape, FMT):
    """As `blocks_along`, for words that no lane can read 16 bytes of: rows pass group memory."""
    ROWS, THREADS, HELD, AHEAD = shape
    run, lane = thread // 32, thread % 32
    RUNS, LINE = THREADS // 32, THREADS // 32 * HELD * 20
    stage = shared((32, LINE + 4), u32)
    n = first + run
    digits, facts = shared((RUNS * HELD * 4, 25), i32), shared((RUNS * HELD * 4, 2), f32)
    asked = own_columns(x, facts, HELD, 1, FMT)
    tiles = [fetched_lines(w, n + 16 * i, RUNS, LINE) for i in unrolled(AHEAD)]
    leave_digits(x, digits, facts, (THREADS, 1), FMT, asked)
    chunks = [
        line_digits(digits, facts, run * HELD * 4 + c, c % 2, lane) for c in unrolled(HELD * 4)
    ]
    for r in range(0, ROWS - 16 * AHEAD, 16):
        leave_lines(stage, r % 32 + run, RUNS, tiles[0])
        tiles = [*tiles[1:], fetched_lines(w, n + r + 16 * AHEAD, RUNS, LINE)]
        barrier()
        leave_line_products(pile, stage, r, run * HELD * 4, chunks, FMT)
    for i in unrolled(AHEAD):
        r = ROWS - 16 * (AHEAD - i)
        leave_lines(stage, r % 32 + run, RUNS, tiles[i])
        barrier()
        leave_line_products(pile, stage, r, run * HELD * 4, chunks, FMT)


@inline
def fetched_lines(w, n, RUNS, LINE):
    """The words of row n, and of each RUNS-th row after it of 16, that this lane reads."""
    rows = [minimum(n + i, w.shape[0] - 1) for i in unrolled(0, 16, RUNS)]
    by = 4 if LINE % 128 == 0 else 1  # neighbours, where that leaves no lane without
    at = [thread % 32 * by + i for i in unrolled(0, LINE, 32 * by)]
    return [[bitcast(w.blocks[row, i * 4 : (i + by) * 4], u32) for i in at] for row in rows]


@inline
def leave_lines(stage, r, RUNS, lines):
    """Puts the words into the rows of `stage` from r on."""
    for k in unrolled(len(lines)):
        by = len(lines[k][0])
        for i in unrolled(len(lines[k])):
            at = (thread % 32 + i * 32) * by
            stage[r + k * RUNS, at : at + by] = lines[k][i]


@inline
def line_digits(digits, facts, c, half, lane):
    """(2 words of a column of the digits of chunk c, value of the lowest digit, sum of x)."""
    column, t = lane // 4, lane % 4
    mine = (column % 4 < 3) & (column // 4 == half)
    at = minimum(column % 4, 2) * 8 + 2 * t
    words = [where(mine, bitcast(digits[c, at + i], u32), u32(0)) for i in unrolled(2)]
    even = t % 2 == 0
    scale = facts[c, 0] * where(even, 1.0, 65536.0)
    return words, scale, where(even, facts[c, 1], 0.0)


@inline
def leave_line_products(pile, stage, r, first, chunks, FMT):
    """pile[r + i, simdgroup] = the product of its chunks and row i of 16 in `stage`."""
    g, t, totals = thread % 32 // 4, thread % 4, [f32(0), f32(0)]
    rows = [r % 32 + g, r % 32 + g + 8]
    for v in unrolled(0, len(chunks), 2):
        sums = [i32(0), i32(0), i32(0), i32(0)]
        for s in unrolled(2):
            p, q = [stage[row, (first + v + s) * 5 + 1 + t] for row in rows]
            words = [p & LOW, q & LOW, (p >> 4) & LOW, (q >> 4) & LOW]
            sums = simd_mma(words, chunks[v + s][0], sums)
        scale = where(t < 2, chunks[v][1], chunks[v + 1][1])
        plain = where(t < 2, chunks[v][2], chunks[v + 1][2])
        for h in unrolled(2):
            both = bitcast(stage[rows[h], (first + v + t // 2) * 5], f16)
            sum = f32(sums[2 * h + 1] * 256 + sums[2 * h]) * scale
            part = both[0].to(f32) * sum + both[1].to(f32) * plain
            totals = [totals[k] + part if k == h else totals[k] for k in unrolled(2)]
    whole = group_sum(totals[0], totals[1], width=4)
    for h in unrolled(2):
        if t == 0:
            pile[r + g + 8 * h, thread // 32] = whole[h]


@inline
def blocks_along(x, w, pile, first, shape, FMT):
    """pile[r, simdgroup] = the product of row first + r and the columns of the simdgroup."""
    ROWS, THREADS, HELD, AHEAD = shape
    run, lane = thread // 32, thread % 32
    n = first + lane // 4
    chunks = THREADS // 32 * HELD * 4
    digits, facts = shared((chunks, 25), i32), shared((chunks, 2), f32)
    asked = own_columns(x, facts, HELD, 2, FMT)
    tiles = [fetched_tile(w, n + 16 * i, run * HELD, HELD, FMT) for i in unrolled(AHEAD)]
    leave_digits(x, digits, facts, (THREADS, 2), FMT, asked)
    blocks = [block_digits(digits, facts, run * HELD + b, lane) for b in unrolled(HELD)]
    for r in range(0, ROWS - 16 * AHEAD, 16):
        then = fetched_tile(w, n + r + 16 * AHEAD, run * HELD, HELD, FMT)
        leave_tile(pile, r, tiles[0], blocks, FMT)
        tiles = [*tiles[1:], then]
    for i in unrolled(AHEAD):
        leave_tile(pile, ROWS - 16 * (AHEAD - i), tiles[i], blocks, FMT)


@inline
def block_digits(digits, facts, block, lane):
    """(8 words of a column of digits, value of the lowest digit a lane sums, sum of x).

    Lane 4 c + t gives column c of the chunk t of the block: digit c % 4 of half c // 4.
    """
    column, t = lane // 4, lane % 4
    c = block * 4 + t
    mine = (column % 4 < 3) & (column // 4 == t // 2)
    at = minimum(column % 4, 2) * 8
    words = [where(mine, bitcast(digits[c, at + i], u32), u32(0)) for i in unrolled(8)]
    lead, even = block * 4 + t // 2 * 2, t % 2 == 0
    scale = facts[lead, 0] * where(even, 1.0, 65536.0)
    return words, scale, where(even, facts[lead, 1], 0.0)


@inline
def fetched_tile(w, n, first, HELD, FMT):
    """This lane's chunks of rows n and n + 8: their words and factors, in blocks from `first` on.

    All are asked for before any is used.
    """
    t, per, found = thread % 4, FMT.group // FMT.vec, []
    each = 4 // per if per else 1
    rows = [minimum(n + 8 * h, w.shape[0] - 1) for h in unrolled(2)]
    for h in unrolled(2):
        words = [
            [layout(FMT).word(FMT, w, rows[h], (first + b) * 4 + t, 0, i) for i in unrolled(4)]
            for b in unrolled(HELD)
        ]
        found = [*found, words]
    both = []
    for h in unrolled(2):
        groups = [first * each + g if per else 0 for g in unrolled(HELD * each)]
        both = [*both, [FMT.factors(w, rows[h], g) for g in groups]]
    tile = []
    for b in unrolled(HELD):
        pair = []
        for h in unrolled(2):
            low, high = both[h][b * each], both[h][b * each + each - 1]
            s = where(t < 2, low[0], high[0])
            u = s if FMT.algebra is Algebra.SCALED else where(t < 2, low[1], high[1])
            pair = [*pair, (found[h][b], s, u)]
        tile = [*tile, pair]
    return tile


@inline
def leave_tile(pile, r, tile, blocks, FMT):
    """pile[r + i, simdgroup] = the product of its columns and row i of a tile of 16."""
    flip = 0x88888888 if FMT.elem is Elem.INT else 0
    totals = [f32(0), f32(0)]
    for b in unrolled(len(blocks)):
        digits, scale, plain = blocks[b]
        sums = [i32(0), i32(0), i32(0), i32(0)]
        for i in unrolled(4):
            p, q = tile[b][0][0][i] ^ u32(flip), tile[b][1][0][i] ^ u32(flip)
            rows = [p & LOW, q & LOW, (p >> 4) & LOW, (q >> 4) & LOW]
            sums = simd_mma(rows, [digits[2 * i], digits[2 * i + 1]], sums)
        for h in unrolled(2):
            _, s, u = tile[b][h]
            sum = f32(sums[2 * h + 1] * 256 + sums[2 * h]) * scale - offset(FMT) * plain
            totals = [
                totals[k] + chunk_product(sum, 1.0, plain, s, u, FMT) if k == h else totals[k]
                for k in unrolled(2)
            ]
    whole = group_sum(totals[0], totals[1], width=4)
    for h in unrolled(2):
        if thread % 4 == 0:
            pile[r + thread % 32 // 4 + 8 * h, thread // 32] = whole[h]
