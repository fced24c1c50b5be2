"""Attention over a share of the keys, for kernels of the attention family.

`attend` walks a few keys of each team at a time; `leave` and `gathered` merge what the teams of a
group found. Every function is inlined into its caller.
"""

from iron.kernels.primitives import LOG2E, widened
from iron.lang import barrier, bitcast, dot, f32, fast_exp2, group_sum, inf, inline, maximum
from iron.lang import minimum, tanh, thread, u32, unrolled, where, zeros

LOWEST = -3.4028234663852886e38  # below every score but -inf, so that a shift is never -inf


@inline
def scaled_query(x, inside, scale, shape):
    """This thread's chunks of one query head, times scale * log2(e)."""
    by = scale * LOG2E
    return [part_of(x, at, inside, shape[1]) * by for at in chunks_at(x.shape[0], shape)]


@inline
def attend(query, cache, share, softcap, shape):
    """Online softmax over visible keys: (weighted values, top score, weight sum).

    `query[r][c]` holds chunk c of query head r as `scaled_query` gives it, `cache` is (keys,
    values, mask or None, bias or None), `share` (lo, hi, head, skip) the visible keys lo to hi, of
    which j stands at row j of the cache when j < head, else at row j + skip; `shape` is (TEAM, VEC,
    THREADS, KEYS, HELD): a team of TEAM threads owns KEYS keys at a time, its thread m the chunks
    m, m + TEAM, ... of VEC elements. With the caches' dtype as HELD the next keys are read before
    the work on these; with None nothing is read ahead. Scores are in base 2; with a positive
    `softcap` c, not None, each is replaced by c tanh(s / c). Each result is a list over r and
    belongs to this thread's team.
    """
    TEAM, VEC, THREADS, KEYS, HELD = shape
    lo, hi = share[:2]
    WIDE = (cache[1].shape[1] + TEAM * VEC - 1) // (TEAM * VEC)
    HEADS, teams, team = len(query), max(1, THREADS // TEAM), thread // TEAM
    total = [[zeros((VEC,), f32) for c in unrolled(WIDE)] for r in unrolled(HEADS)]
    top = [f32(LOWEST) for r in unrolled(HEADS)]
    norm = [f32(0) for r in unrolled(HEADS)]
    state, STEP = (total, top, norm), teams * KEYS
    whole = hi - (hi - lo) % STEP
    first = places_of(lo, share, shape)
    ahead = None if HELD is None else fetched(cache, first, lo < whole, shape)
    for base in range(lo, whole, STEP):
        places = places_of(base, share, shape)
        if HELD is None:
            now = fetched(cache, places, True, shape)
        else:
            now, then = ahead, minimum(base + STEP, whole - STEP)
            ahead = fetched(cache, places_of(then, share, shape), True, shape)
        state = weighed(query, now, cache, places, True, softcap, state, shape)
    if STEP > 1:
        for base in range(whole, hi, teams):
            places, inside = [key_place(base + team, share)], base + team < hi
            now = fetched(cache, places, inside, shape)
            state = weighed(query, now, cache, places, inside, softcap, state, shape)
    return state


@inline
def places_of(base, share, shape):
    """The rows of this team's KEYS keys from visible key `base` on."""
    teams, team = max(1, shape[2] // shape[0]), thread // shape[0]
    return [key_place(base + u * teams + team, share) for u in unrolled(shape[3])]


@inline
def fetched(cache, places, inside, shape):
    """This thread's chunks of the keys and of the values in the rows `places`, as they are held."""
    k, v, mask, _ = cache
    seen = [is_seen(mask, t, inside) for t in places]
    return [
        [
            [held_part(x[places[u]], at, seen[u], shape) for at in chunks_at(x.shape[1], shape)]
            for u in unrolled(len(places))
        ]
        for x in (k, v)
    ]


@inline
def chunks_at(D, shape):
    """Where this thread's chunks of a row of D elements begin."""
    TEAM, VEC = shape[0], shape[1]
    m, count = thread % TEAM, (D + TEAM * VEC - 1) // (TEAM * VEC)
    return [VEC * (m + c * TEAM) for c in unrolled(count)]


@inline
def held_part(row, at, seen, shape):
    """A chunk as f32, or its bits as u32; zeros, unread, past its end or unseen."""
    VEC, HELD = shape[1], shape[4]
    if HELD is None:
        return part_of(row, at, seen, VEC)
    inside = seen & (at < row.shape[0])
    return bitcast(row[at : at + VEC], u32) if inside else zeros((VEC * HELD.bits // 32,), u32)


@inline
def opened(parts, HELD):
    """Chunks as f32."""
    return parts if HELD is None else [bitcast(x, HELD).to(f32) for x in parts]


@inline
def weighed(query, held, cache, places, inside, softcap, state, shape):
    """The state after the keys in the rows `places`, which exist where `inside`."""
    _, _, mask, bias = cache
    total, top, norm = state
    TEAM, HELD = shape[0], shape[4]
    HEADS, KEYS, WIDE = len(query), len(places), len(total[0])
    seen = [is_seen(mask, t, inside) for t in places]
    key = [opened(x, HELD) for x in held[0]]
    flat = [product(query[r], key[u]) for r in unrolled(HEADS) for u in unrolled(KEYS)]
    whole = together(flat, TEAM)
    score = [[whole[r * KEYS + u] for u in unrolled(KEYS)] for r in unrolled(HEADS)]
    if softcap is not None and softcap > 0.0:
        score = [[softcap * LOG2E * tanh(x / (softcap * LOG2E)) for x in row] for row in score]
    sums, tops, norms, value = [], [], [], [opened(x, HELD) for x in held[1]]
    for r in unrolled(HEADS):
        row = [biased(score[r][u], bias, places[u], seen[u]) for u in unrolled(KEYS)]
        row = [where(seen[u], row[u], -inf) for u in unrolled(KEYS)]
        peak = maximum(top[r], greatest(row))
        decay = fast_exp2(top[r] - peak)
        weight = [fast_exp2(x - peak) for x in row]
        size, part = norm[r] * decay, [x * decay for x in total[r]]
        for u in unrolled(KEYS):
            size = size + weight[u]
            part = [part[c] + value[u][c] * weight[u] for c in unrolled(WIDE)]
        sums, tops, norms = [*sums, part], [*tops, peak], [*norms, size]
    return sums, tops, norms


@inline
def together(xs, width):
    """The sums over runs of `width` threads, whose steps are taken side by side."""
    return group_sum(*xs, width=width) if len(xs) > 1 else [group_sum(xs[0], width=width)]


@inline
def product(query, key):
    """The product of this thread's chunks."""
    total = dot(query[0], key[0])
    for c in unrolled(1, len(key)):
        total += dot(query[c], key[c])
    return total


@inline
def part_of(row, at, seen, VEC):
    """The chunk of a row that begins at `at`, as f32; zeros, unread, past its end or unseen."""
    return widened(row, at, seen & (at < row.shape[0]), VEC)


@inline
def leave(state, pile, mark, shape):
    """Writes the state of every team into group memory; a barrier ends it.

    `pile[team, r]` gets the weighted values of head r, `mark[team, r]` its top score and norm.
    """
    total, top, norm = state
    TEAM, VEC = shape[0], shape[1]
    team, m = thread // TEAM, thread % TEAM
    for r in unrolled(len(top)):
        for c in unrolled(len(total[r])):
            at = VEC * (m + c * TEAM)
            if at < pile.shape[2]:
                pile[team, r, at : at + VEC] = total[r][c]
        if m == 0:
            mark[team, r, 0] = top[r]
            mark[team, r, 1] = norm[r]
    barrier()


@inline
def gathered(pile, mark, r, at, VEC):
    """(VEC values of head r from `at` on, top score, norm) of all teams, in team order."""
    teams = unrolled(pile.shape[0])
    peak = greatest([mark[j, r, 0] for j in teams])
    out, norm = zeros((VEC,), f32), f32(0)
    for j in teams:
        by = fast_exp2(mark[j, r, 0] - peak)
        norm += mark[j, r, 1] * by
        out += pile[j, r, at : at + VEC] * by
    return out, peak, norm


@inline
def greatest(xs):
    """The greatest of a list and LOWEST."""
    peak = f32(LOWEST)
    for x in xs:
        peak = maximum(peak, x)
    return peak


@inline
def is_seen(mask, t, inside):
    """Whether the key of row t, which exists where `inside`, is not masked."""
    if mask is None:
        return inside
    return (mask[t] != 0) if inside else False


@inline
def key_place(j, share):
    """The row of the cache of visible key j."""
    return where(j < share[2], j, j + share[3])


@inline
def biased(score, bias, t, seen):
    """The score in base 2 plus bias[t], if there is one, which is read where the key is seen."""
    return score if bias is None else score + (bias[t] if seen else f32(0)) * LOG2E


@inline
def visible(n, window, first):
    """(head, start): of n keys, those below head and those from start on are seen.

    With a positive window these are the `first` keys and the last `window`; else all.
    """
    head = minimum(first, n) if window > 0 else 0
    start = maximum(head, n - window) if window > 0 else 0
    return head, start
