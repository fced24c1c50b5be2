"""A matvec whose threads keep their columns of x in registers and walk down the rows.

Every function is inlined into `qmv`. Thread t owns chunk t of every row, so that what it needs of
x is read, and prepared, once for many rows. Packed codes are multiplied four at a time as bytes
with x in fixed point: 22 bits and a sign, of the greatest |x| of the chunk, in three digits of a
byte each.
"""

from iron.lang import (
    absolute,
    barrier,
    bitcast,
    dot4,
    f32,
    fma,
    group_sum,
    i32,
    inline,
    maximum,
)
from iron.lang import minimum, shared, thread, u32, unrolled, where
from iron.quant.codec.words import offset, words_of
from iron.quant.format import Algebra, Elem

LEVELS = 2.0**22 - 2.0**16
"""Steps of the fixed point from 0 to the greatest |x|; the highest digit stays in its byte."""

LEAST = 2.0**-100
"""The greatest |x| of a chunk is taken to be at least this: what lies 2^23 below it counts as 0."""

ROUND = 1.5 * 2.0**23
"""What f32 numbers below 2^22 are added to, so that they stand rounded in its lowest bits."""

MIDDLE = 0x808080
TO_DIGITS = (MIDDLE - 0x4B400000) % 2**32
"""Takes away the bits of ROUND and adds half a byte to each digit."""

ONES = 0x01010101


def in_bytes(FMT):
    """Whether chunks of the format can be multiplied as bytes: whole codes in words, one group."""
    return words_of(FMT) is not None and FMT.share == FMT.vec


def layout(FMT):
    """Where the codes of such a format stand in its words."""
    found = words_of(FMT)
    assert found is not None
    return found


def column_threads(K, FMT):
    """Threads of a group that has one for each chunk of a row."""
    return -(-K // FMT.vec // 32) * 32


def byte_places(FMT):
    """The four elements of a chunk in each of its words of bytes: 8 / bits for each word of codes,
    in order of the bits they come from."""
    words, count, parts = layout(FMT), FMT.vec * FMT.bits // 32, 8 // FMT.bits
    runs = words.runs(FMT, count)
    found = {
        words.place(FMT, r, e): first + e
        for r, (first, size) in enumerate(runs)
        for e in range(size)
    }
    spots = [(i, j) for i in range(count) for j in range(parts)]
    return [[found[i, 8 * b + j * FMT.bits] for b in range(4)] for i, j in spots]


@inline
def digits(xs, places):
    """(three words of signed bytes for each list of four places, the value of the lowest digit)."""
    top = f32(LEAST)
    for x in xs:
        top = maximum(top, absolute(x))
    inverse = LEVELS / top
    whole = [bitcast(fma(x, inverse, ROUND), u32) + TO_DIGITS ^ MIDDLE for x in xs]
    found = []
    for four in places:
        part = [[(whole[at] >> (8 * d)) & 255 for at in four] for d in unrolled(3)]
        found = [
            *found,
            [bitcast(p[0] | (p[1] << 8) | (p[2] << 16) | (p[3] << 24), i32) for p in part],
        ]
    return found, top * (1.0 / LEVELS)


@inline
def byte_sums(held, planes, start, FMT):
    """The sum of the products of a chunk's elements and the digits, in units of the lowest."""
    parts, mask = 8 // FMT.bits, ((1 << FMT.bits) - 1) * ONES
    sums = start
    for n in unrolled(len(planes)):
        codes = (held[n // parts] >> (n % parts * FMT.bits)) & mask
        sums = [dot4(codes, planes[n][d], sums[d]) for d in unrolled(3)]
    return f32(sums[2] * 256 + sums[1]) * 256.0 + f32(sums[0])


@inline
def chunk_product(sum, scale, plain, s, t, FMT):
    """The product of a chunk from the sum of its elements and digits, and the sum of x."""
    if FMT.algebra is Algebra.SCALED:
        return s * scale * sum
    if FMT.algebra is Algebra.AFFINE:
        return s * scale * sum + t * plain
    return s * (scale * sum - t * plain)


@inline
def column_shares(x, w, first, pile, UNROLL, FMT):
    """pile[r, t] = the product of x and row first + r in the columns of thread t."""
    ROWS, chunks = pile.shape[0], x.shape[1] // FMT.vec
    c = minimum(thread, chunks - 1)
    inside = thread < chunks
    xs = [where(inside, x[0, c * FMT.vec + e].to(f32), 0.0) for e in unrolled(FMT.vec)]
    planes, scale = digits(xs, byte_places(FMT))
    plain = xs[0]
    for e in unrolled(1, len(xs)):
        plain += xs[e]
    start = [i32(0), i32(0), i32(0)]
    if offset(FMT):
        for n in unrolled(len(planes)):
            start = [dot4(i32(ONES), planes[n][d], start[d]) for d in unrolled(3)]
        start = [total * -offset(FMT) for total in start]
    flip = 0xFFFFFFFF // ((1 << FMT.bits) - 1) << (FMT.bits - 1) if FMT.elem is Elem.INT else 0
    terms = (planes, scale, plain, start, flip)
    now = fetched_rows(w, first, c, UNROLL, FMT)
    for r in range(0, ROWS - UNROLL, UNROLL):
        leave_products(pile, r, now, terms, FMT)
        now = fetched_rows(w, first + r + UNROLL, c, UNROLL, FMT)
    leave_products(pile, ROWS - UNROLL, now, terms, FMT)


@inline
def fetched_rows(w, first, c, UNROLL, FMT):
    """Chunk c of UNROLL rows: its words and its factors; asked for before any is used."""
    count, found = FMT.vec * FMT.bits // 32, []
    group = c // (FMT.group // FMT.vec) if FMT.group else 0
    rows = [minimum(first + i, w.shape[0] - 1) for i in unrolled(UNROLL)]
    words = [[layout(FMT).word(FMT, w, n, c, 0, i) for i in unrolled(count)] for n in rows]
    for i in unrolled(UNROLL):
        s, t = FMT.factors(w, rows[i], group)
        found = [*found, (words[i], s, s if FMT.algebra is Algebra.SCALED else t)]
    return found


@inline
def leave_products(pile, r, rows, terms, FMT):
    """pile[r + i, thread] = the product of the thread's columns and the i-th of `rows`."""
    planes, scale, plain, start, flip = terms
    for i in unrolled(len(rows)):
        words, s, t = rows[i]
        codes = [word ^ u32(flip) for word in words] if flip else words
        sum = byte_sums(codes, planes, start, FMT)
        pile[r + i, thread] = chunk_product(sum, scale, plain, s, t, FMT)


@inline
def row_total(pile, r):
    """The sum of row r of `pile` in every thread of a run of 32."""
    total = pile[r, thread % 32]
    for at in unrolled(32, pile.shape[1], 32):
        total += pile[r, at + thread % 32]
    return group_sum(total, width=32)


@inline
def added(total, bias, residual, m, n):
    """total + bias[n] + residual[m, n], of what there is."""
    if bias is not None:
        total = total + bias[n].to(f32)
    return total if residual is None else total + residual[m, n].to(f32)


@inline
def by_columns(x, w, bias, residual, y, first, shape, FMT):
    """y = x W^T with what is added, in the rows that a group walks down from `first` on.

    `shape` is (rows, threads of the group, rows at a time).
    """
    ROWS, THREADS, UNROLL = shape
    pile = shared((ROWS, THREADS), f32)
    column_shares(x, w, first, pile, UNROLL, FMT)
    barrier()
    for i in range(0, ROWS, THREADS // 32):
        r = minimum(i + thread // 32, ROWS - 1)
        total, n = row_total(pile, r), first + i + thread // 32
        if (thread % 32 == 0) & (i + thread // 32 < ROWS) & (n < w.shape[0]):
            y[0, n] = added(total, bias, residual, 0, n).to(y.dtype)
