"""Functions that kernels of several families share; none has a launch of its own.

Every function is inlined into its caller and works on scalars and on vectors alike.
"""

from iron.lang import barrier, dot, exp2, f32, group_max, group_sum, inf, inline, maximum, minimum
from iron.lang import tanh, thread, u32, unrolled, where, zeros

LOG2E = 1.4426950408889634
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


@inline
def place_of(i, x):
    """Where element number i of the view `x` stands, counted in row-major order."""
    at = []
    for d in unrolled(x.rank - 1, -1, -1):
        at, i = [i % x.shape[d], *at], i // x.shape[d]
    return tuple(at)


@inline
def threefry(key, counter):
    """Two random u32 from a key and a counter of two u32 each, 20 rounds.

    Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011, Threefry-2x32.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ u32(0x1BD11BDA))
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for i in unrolled(5):
        for j in unrolled(4):
            turn = ROTATIONS[4 * (i % 2) + j]
            a = a + b
            b = ((b << turn) | (b >> (32 - turn))) ^ a
        a, b = a + keys[(i + 1) % 3], b + keys[(i + 2) % 3] + u32(i + 1)
    return a, b


@inline
def unit_interval(bits):
    """A float in [0, 1) from the high 24 bits of a random u32; never 1."""
    return f32(bits >> 8) * 2.0**-24


@inline
def finite_or_zero(x):
    """x, with 0 in place of -inf: the shift of an online softmax that has seen nothing yet."""
    return where(x == -inf, 0.0, x)


@inline
def widened(x, at, inside, VEC):
    """VEC neighbours of the 1-D view `x` from `at` as f32; zeros, and no read, unless `inside`."""
    return x[at : at + VEC].to(f32) if inside else zeros((VEC,), f32)


@inline
def cut_score(score, softcap):
    """c * tanh(score / c) for a positive cap c, else the score."""
    return softcap * tanh(score / softcap) if softcap > 0.0 else score


@inline
def biased(score, bias, t, seen):
    """The score plus bias[t], if there is a bias; nothing is read unless the key is seen."""
    return score if bias is None else score + (bias[t] if seen else f32(0))


@inline
def visible(n, window, first):
    """(head, start): of n keys, those below head and those from start on are seen.

    With a positive window these are the `first` keys and the last `window`; else all.
    """
    head = minimum(first, n) if window > 0 else 0
    start = maximum(head, n - window) if window > 0 else 0
    return head, start


@inline
def chunks_of(x, D, at, inside, VEC):
    """The chunks of the 1-D view `x` of D elements that stand at the places `at`, as f32."""
    return [widened(x, at[c], (at[c] < D) & inside, VEC) for c in unrolled(len(at))]


@inline
def attend(query, cache, share, weights, shape):
    """Online softmax over visible keys: (weighted values, top score, weight sum).

    `query[r][c]` holds chunk c of query head r, `cache` is (keys, values, mask or None, bias or
    None), `share` (lo, hi, head, skip) the visible keys lo to hi, of which j stands at row j of the
    cache when j < head, else at row j + skip; `weights` is (scale, softcap) and `shape` (TEAM, VEC,
    THREADS): a team of TEAM threads owns one key at a time, its thread m the chunks m, m + TEAM,
    ... of VEC elements. Scores are in base 2. Each result is a list over r and belongs to this
    thread's team; `join_teams` merges them.
    """
    k, v, mask, bias = cache
    lo, hi, head, skip = share
    scale, softcap = weights
    TEAM, VEC, THREADS = shape
    HEADS, CHUNKS = len(query), len(query[0])
    D, E = k.shape[1], v.shape[1]
    WIDE = (E + TEAM * VEC - 1) // (TEAM * VEC)
    teams = max(1, THREADS // TEAM)
    team, m = thread // TEAM, thread % TEAM
    total = [[zeros((VEC,), f32) for c in unrolled(WIDE)] for r in unrolled(HEADS)]
    top = [f32(-inf) for r in unrolled(HEADS)]
    norm = [f32(0) for r in unrolled(HEADS)]
    for base in range(lo, hi, teams):
        j = base + team
        t = where(j < head, j, j + skip)
        seen = j < hi
        if mask is not None:
            seen = (mask[t] != 0) if j < hi else False
        key = [
            widened(k[t], VEC * (m + c * TEAM), seen & (VEC * (m + c * TEAM) < D), VEC)
            for c in unrolled(CHUNKS)
        ]
        value = [
            widened(v[t], VEC * (m + c * TEAM), seen & (VEC * (m + c * TEAM) < E), VEC)
            for c in unrolled(WIDE)
        ]
        for r in unrolled(HEADS):
            product = f32(0)
            for c in unrolled(CHUNKS):
                product += dot(query[r][c], key[c])
            score = cut_score(group_sum(product, width=TEAM) * scale, softcap)
            score = where(seen, biased(score, bias, t, seen) * LOG2E, -inf)
            peak = maximum(top[r], score)
            safe = finite_or_zero(peak)
            decay, weight = exp2(top[r] - safe), exp2(score - safe)
            norm[r] = norm[r] * decay + weight
            for c in unrolled(WIDE):
                total[r][c] = total[r][c] * decay + value[c] * weight
            top[r] = peak
    return total, top, norm


@inline
def join_teams(total, top, norm, pile, shape):
    """One query head's `attend` results of all teams merged, in team order, for every thread.

    `pile` is group memory of one row a team; it may be reused after the call. With one team
    nothing moves.
    """
    TEAM, VEC, THREADS = shape
    if THREADS == TEAM:
        return total, top, norm
    E = pile.shape[1]
    team, m = thread // TEAM, thread % TEAM
    peak = group_max(top)
    mine = exp2(top - finite_or_zero(peak))
    whole = group_sum(where(m == 0, norm * mine, 0.0))
    out = []
    for c in unrolled(len(total)):
        at = VEC * (m + c * TEAM)
        if at < E:
            pile[team, at : at + VEC] = total[c] * mine
    barrier()
    for c in unrolled(len(total)):
        at = VEC * (m + c * TEAM)
        acc = zeros((VEC,), f32)
        if at < E:
            for j in range(THREADS // TEAM):
                acc += pile[j, at : at + VEC]
        out = [*out, acc]
    barrier()
    return out, peak, whole
