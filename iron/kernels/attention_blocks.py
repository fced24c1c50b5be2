"""Attention over blocks of keys, as many as a group has threads: what serves CPUs.

Every function is inlined into its caller.
"""

from iron.kernels.attention import LOWEST, biased, is_seen, key_place, part_of, product
from iron.kernels.primitives import LOG2E
from iron.lang import barrier, exp2, f32, group_max, group_sum, inf, inline, maximum, minimum
from iron.lang import shared, tanh, thread, unrolled, where, zeros


@inline
def attend_blocks(query, cache, share, softcap, shape):
    """What `attend` returns where a team is the whole group: TEAM keys at a time.

    Thread m holds the score of key m of a block, so that one exp2 serves TEAM keys. Chunks have one
    element (VEC is 1).
    """
    k, v, mask, bias = cache
    TEAM, HEADS = shape[0], len(query)
    WIDE = (v.shape[1] + TEAM - 1) // TEAM
    pile = shared((HEADS, TEAM), f32)
    total = [[zeros((1,), f32) for c in unrolled(WIDE)] for r in unrolled(HEADS)]
    top = [f32(LOWEST) for r in unrolled(HEADS)]
    norm = [f32(0) for r in unrolled(HEADS)]
    for base in range(share[0], share[1], TEAM):
        count = minimum(TEAM, share[1] - base)
        seen = is_seen(mask, key_place(base + thread, share), thread < count)
        scores = block_products(query, (k, mask), base, share, (count, TEAM))
        for r in unrolled(HEADS):
            score = scores[r]
            if softcap is not None and softcap > 0.0:
                score = softcap * LOG2E * tanh(score / (softcap * LOG2E))
            score = biased(score, bias, key_place(base + thread, share), seen)
            score = where(seen, score, -inf)
            peak = maximum(top[r], group_max(score))
            decay, weight = exp2(top[r] - peak), exp2(score - peak)
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
    scores = [f32(0) for r in unrolled(len(query))]
    for j in range(count):
        chunks = unrolled(len(query[0]))
        key = [block_part(cache, base + j, thread + c * TEAM, share) for c in chunks]
        part = [product(query[r], key) for r in unrolled(len(query))]
        whole = [group_sum(x) for x in part]  # side by side, they share steps
        for r in unrolled(len(query)):
            scores[r] = where(thread == j, whole[r], scores[r])
    return scores


@inline
def block_part(cache, j, at, share):
    """Element `at` of visible key (or value) j in f32; 0, unread, past its end or where masked."""
    x, mask = cache
    t = key_place(j, share)
    return part_of(x[t], at, is_seen(mask, t, True), 1)
