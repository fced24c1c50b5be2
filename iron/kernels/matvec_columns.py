"""A matvec whose threads keep their columns of x in registers and walk down the rows.

Every function is inlined into `qmv`. Thread t of a team owns chunk t of the team's rows, so that
what it needs of x is read once for many rows. Packed codes are multiplied four at a time as bytes
with x in fixed point: 22 bits and a sign, of the greatest |x| of the chunk, in three digits of a
byte each. The digits are made once for a group, after the first weights have been asked for.
"""

from iron.lang import (
    absolute,
    barrier,
    bitcast,
    dot4,
    f32,
    fma,
    group_max,
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
    """The four elements of a word of codes in each of its 8 / bits words of bytes, in order of the
    bits they come from; elements in the order of `word_columns`."""
    words = layout(FMT)
    spots = [(r, e) for r, (_, size) in enumerate(words.runs(FMT, 1)) for e in range(size)]
    found = {words.place(FMT, r, e)[1]: n for n, (r, e) in enumerate(spots)}
    return [[found[8 * b + j * FMT.bits] for b in range(4)] for j in range(8 // FMT.bits)]


@inline
def word_columns(c, i, FMT):
    """The columns of the codes in word i of chunk c."""
    first = c * FMT.vec + layout(FMT).first(FMT, i)
    return [first + s + e for s, size in layout(FMT).runs(FMT, 1) for e in unrolled(size)]


@inline
def unit_columns(x, facts, number, together, FMT):
    """(x in the columns of a word of codes, the greatest |x|): word `number` of all chunks.

    `together` neighbouring threads have the greatest in common, and leave the value of the lowest
    digit and the sum of x in `facts`.
    """
    count, words = FMT.vec * FMT.bits // 32, x.shape[1] * FMT.bits // 32
    unit = minimum(number, words - 1)
    c, i = unit // count, unit % count
    xs = [x[0, k].to(f32) for k in word_columns(c, i, FMT)]
    top, plain = maximum(LEAST, absolute(xs[0])), xs[0]
    for e in unrolled(1, len(xs)):
        top, plain = maximum(top, absolute(xs[e])), plain + xs[e]
    if together > 1:
        top, plain = group_max(top, width=together), group_sum(plain, width=together)
    if (number < words) & (i == 0):
        facts[c, 0], facts[c, 1] = top * (1.0 / LEVELS), plain
    return xs, top


@inline
def leave_digits(x, digits, facts, shape, FMT, asked=None):
    """The digits of all chunks of x, made by the threads of a group; a barrier ends it.

    digits[c] gets the words of bytes of chunk c, first those of the lowest digit; facts[c] the
    value of that digit and a sum of x. `shape` is (threads, neighbouring chunks that share both);
    `asked` is what `unit_columns` gave of a thread's word, where there is a thread for each.
    """
    THREADS, TOGETHER = shape
    count, places = FMT.vec * FMT.bits // 32, byte_places(FMT)
    chunks, together = x.shape[1] // FMT.vec, count * TOGETHER
    for base in range(0, chunks * count, THREADS):
        number = base + thread
        mine = unit_columns(x, facts, number, together, FMT) if asked is None else asked
        xs, top = mine
        inverse = LEVELS / top
        whole = [bitcast(fma(v, inverse, ROUND), u32) + TO_DIGITS ^ MIDDLE for v in xs]
        if number < chunks * count:
            c, i = number // count, number % count
            for j in unrolled(len(places)):
                for d in unrolled(3):
                    p = [(whole[e] >> (8 * d)) & 255 for e in places[j]]
                    word = p[0] | (p[1] << 8) | (p[2] << 16) | (p[3] << 24)
                    at = d * (FMT.vec // 4) + i * len(places) + j
                    digits[c, at] = bitcast(word, i32)
    barrier()


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
def column_shares(x, w, first, pile, shape, FMT):
    """pile[r, t] = the product of x and row r of the group in the columns of thread t of a team.

    A team's rows begin at `first`; `shape` is (rows of a team, teams, threads of the group, rows at
    a time).
    """
    ROWS, TEAMS, THREADS, UNROLL = shape
    COLUMNS, chunks = THREADS // TEAMS, x.shape[1] // FMT.vec
    c, top = minimum(thread % COLUMNS, chunks - 1), thread // COLUMNS * ROWS
    now = fetched_rows(w, first, c, UNROLL, FMT)
    size = FMT.vec // 4
    digits, facts = shared((COLUMNS, size * 3 + 1), i32), shared((COLUMNS, 2), f32)
    leave_digits(x, digits, facts, (THREADS, 1), FMT)
    planes = [[digits[c, d * size + n] for d in unrolled(3)] for n in unrolled(size)]
    inside = thread % COLUMNS < chunks
    scale, plain = where(inside, facts[c, 0], 0.0), where(inside, facts[c, 1], 0.0)
    start = [i32(0), i32(0), i32(0)]
    if offset(FMT):
        for n in unrolled(len(planes)):
            start = [dot4(i32(ONES), planes[n][d], start[d]) for d in unrolled(3)]
        start = [total * -offset(FMT) for total in start]
    flip = 0xFFFFFFFF // ((1 << FMT.bits) - 1) << (FMT.bits - 1) if FMT.elem is Elem.INT else 0
    terms = (planes, scale, plain, start, flip)
    for r in range(0, ROWS - UNROLL, UNROLL):
        then = fetched_rows(w, first + r + UNROLL, c, UNROLL, FMT)
        leave_products(pile, top + r, thread % COLUMNS, now, terms, FMT)
        now = then
    leave_products(pile, top + ROWS - UNROLL, thread % COLUMNS, now, terms, FMT)


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
def leave_products(pile, r, at, rows, terms, FMT):
    """pile[r + i, at] = the product of the thread's columns and the i-th of `rows`."""
    planes, scale, plain, start, flip = terms
    for i in unrolled(len(rows)):
        words, s, t = rows[i]
        codes = [word ^ u32(flip) for word in words] if flip else words
        sum = byte_sums(codes, planes, start, FMT)
        pile[r + i, at] = chunk_product(sum, scale, plain, s, t, FMT)


@inline
def row_totals(pile, rows):
    """The sums of these rows of `pile` in every thread of a run of 32, side by side."""
    found = []
    for r in rows:
        total = pile[r, thread % 32]
        for at in unrolled(32, pile.shape[1], 32):
            total += pile[r, at + thread % 32]
        found = [*found, total]
    return group_sum(*found, width=32) if len(found) > 1 else [group_sum(found[0], width=32)]


@inline
def added(total, bias, residual, m, n):
    """total + bias[n] + residual[m, n], of what there is."""
    if bias is not None:
        total = total + bias[n].to(f32)
    return total if residual is None else total + residual[m, n].to(f32)


@inline
def by_columns(x, w, bias, residual, y, first, shape, FMT):
    """y = x W^T with what is added, in the rows of a group from `first` on: ROWS for each team.

    `shape` is (rows of a team, teams, threads of the group, rows at a time).
    """
    ROWS, TEAMS, THREADS, _ = shape
    pile = shared((TEAMS * ROWS, THREADS // TEAMS), f32)
    column_shares(x, w, first + thread // (THREADS // TEAMS) * ROWS, pile, shape, FMT)
    barrier()
    runs = THREADS // 32
    mine = [i + thread // 32 for i in unrolled(0, TEAMS * ROWS, runs)]
    totals = row_totals(pile, [minimum(r, TEAMS * ROWS - 1) for r in mine])
    for i in unrolled(len(mine)):
        n = first + mine[i]
        if (thread % 32 == 0) & (mine[i] < TEAMS * ROWS) & (n < w.shape[0]):
            y[0, n] = added(totals[i], bias, residual, 0, n).to(y.dtype)
