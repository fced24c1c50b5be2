"""Functions that kernels of several families share; none has a launch of its own.

Every function is inlined into its caller and works on scalars and on vectors alike.
"""

from iron.lang import barrier, dot, erf, exp, exp2, f32, group_max, group_sum, inf, inline, log1p
from iron.lang import absolute, maximum, minimum, sigmoid, tanh, thread, u32, unrolled, where, zeros

LOG2E = 1.4426950408889634
HALF_ROOT = 0.7071067811865476
ROOT_2_OVER_PI = 0.7978845608028654
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


@inline
def swish(x, steepness):
    """x * sigmoid(steepness * x); -0 at -inf. Ramachandran et al. 2017 (arXiv:1710.05941)."""
    return where(x == -inf, -0.0, x * sigmoid(steepness * x))


@inline
def silu(x):
    """x * sigmoid(x); -0 at -inf, since sigmoid is 0 from -104 down."""
    return maximum(x, -104.0) * sigmoid(x)


@inline
def gelu_erf(x):
    """x * (1 + erf(x / sqrt(2))) / 2; -0 at -inf. Hendrycks and Gimpel 2016 (arXiv:1606.08415)."""
    return where(x == -inf, -0.0, 0.5 * x * (1.0 + erf(x * HALF_ROOT)))


@inline
def gelu_tanh(x):
    """The tanh approximation of `gelu_erf`, same source; -0 at -inf."""
    inner = ROOT_2_OVER_PI * (x + 0.044715 * x * x * x)
    return where(x == -inf, -0.0, 0.5 * x * (1.0 + tanh(inner)))


@inline
def gelu_quick(x):
    """x * sigmoid(1.702 x); -0 at -inf."""
    return swish(x, 1.702)


@inline
def softplus(x):
    """log(1 + exp(x)) without overflow."""
    return maximum(x, 0.0) + log1p(exp(-absolute(x)))


@inline
def relu(x):
    """max(x, 0); NaN stays NaN."""
    return maximum(x, 0.0)


@inline
def relu2(x):
    """max(x, 0) squared."""
    return maximum(x, 0.0) * maximum(x, 0.0)


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


def held_chunks(N, VEC, THREADS):
    """Chunks of VEC a thread keeps of a row of N: for usual lengths that divide, up to 32 numbers.

    Other lengths share one form, which reads the row again.
    """
    chunks = N // (VEC * THREADS)
    usual = N in (2048, 4096, 8192) and N % (VEC * THREADS) == 0
    return chunks if VEC > 1 and usual and chunks * VEC <= 32 else 0


@inline
def owned(HELD, VEC, THREADS):
    """Where the chunks of a thread begin, as `strided` deals them out."""
    return [(thread + c * THREADS) * VEC for c in unrolled(HELD)]


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
