"""Attention over blocks of keys, for kernels of the attention family: `attend` for CPUs.

Every function is inlined into its caller.
"""

from iron.kernels.primitives import LOG2E, biased, cut_score, finite_or_zero
from iron.lang import barrier, dot, exp2, f32, group_max, group_sum, inf, inline, maximum, minimum
from iron.lang import shared, thread, unrolled, where, zeros


@inline
def attend_blocks(query, cache, share, weights, shape):
    """What `primitives.attend` returns where a team is the whole group: TEAM keys at a time.

    Thread m holds the score of key m of a block, so that one exp2 serves TEAM keys. Chunks have one
    element (VEC is 1).
    """
    k, v, mask, bias = cache
    TEAM, HEADS = shape[0], len(query)
    WIDE = (v.shape[1] + TEAM - 1) // TEAM
    pile = shared((HEADS, TEAM), f32)
    total = [[zeros((1,), f32) for c in unrolled(WIDE)] for r in unrolled(HEADS)]
    top = [f32(-inf) for r in unrolled(HEADS)]
    norm = [f32(0) for r in unrolled(HEADS)]
    for base in range(share[0], share[1], TEAM):
        count = minimum(TEAM, share[1] - base)
        seen = is_seen(mask, base + thread, thread < count, share)
        product = block_products(query, (k, mask), base, share, (count, TEAM))
        for r in unrolled(HEADS):
            score = cut_score(product[r] * weights[0], weights[1])
            score = biased(score, bias, key_place(base + thread, share), seen)
            score = where(seen, score * LOG2E, -inf)
            peak = maximum(top[r], group_max(score))
            safe = finite_or_zero(peak)
            decay, weight = exp2(top[r] - safe), exp2(score - safe)
            norm[r] = norm[r] * decay + group_sum(weight)
            for c in unrolled(WIDE):
                total[r][c] = total[r][c] * decay
            top[r] = peak
            pile[r, thread] = weight
        barrier()
        for c in unrolled(WIDE):
            for j in range(count):
                value = block_part((v, mask), base + j, thread + c * TEAM, share)
                for r in unrolled(HEADS):
                    total[r][c] = total[r][c] + value * pile[r, j]
        barrier()
    return total, top, norm


@inline
def block_products(query, cache, base, share, sizes):
    """q[r] . k[base + m] in thread m, for each query head r and m below the count."""
    count, TEAM = sizes
    product = [f32(0) for r in unrolled(len(query))]
    for j in range(count):
        chunks = unrolled(len(query[0]))
        key = [block_part(cache, base + j, thread + c * TEAM, share) for c in chunks]
        part = [f32(0) for r in unrolled(len(query))]
        for r in unrolled(len(query)):
            for c in unrolled(len(query[0])):
                part[r] += dot(query[r][c], key[c])
        whole = [group_sum(part[r]) for r in unrolled(len(query))]  # side by side, they share steps
        for r in unrolled(len(query)):
            product[r] = where(thread == j, whole[r], product[r])
    return product


@inline
def block_part(cache, j, at, share):
    """Element `at` of visible key (or value) j in f32; 0, unread, past its end or where masked."""
    x, mask = cache
    use = is_seen(mask, j, True, share)
    inside = (at < x.shape[1]) & use
    return x[key_place(j, share), at : at + 1].to(f32) if inside else zeros((1,), f32)


@inline
def is_seen(mask, j, inside, share):
    """Whether visible key j, which exists where `inside`, is not masked."""
    if mask is None:
        return inside
    return (mask[key_place(j, share)] != 0) if inside else False


@inline
def key_place(j, share):
    """The row of the cache of visible key j."""
    return where(j < share[2], j, j + share[3])
