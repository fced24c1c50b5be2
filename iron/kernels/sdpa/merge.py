"""The second pass of attention with divided keys: from the sums of each share to the attention,

o = sum_s o_s 2^(m_s - m) / sum_s l_s 2^(m_s - m),  m = max_s m_s,

where share s of the keys left an unnormalised sum o_s with its greatest score m_s in base 2 and its
weight sum l_s. A sink adds one more weight, without a value.

Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
"""

import numpy as np

from iron.kernels.attention import greatest, part_of
from iron.kernels.primitives import LOG2E
from iron.lang import ATTN, RED, Const, In, Out, barrier, bf16, cdiv, dims, dtypes, f16, f32
from iron.lang import fast_exp2, group_max, group_sum, groups, inf, inline, kernel, log2, maximum
from iron.lang import minimum, next_pow2, require, shared, strided, thread, unrolled, where

B, H, E, P = dims("B H E P")
T = dtypes("T", f32, f16, bf16)


@kernel(schedule={"cpu": {"VEC": 1}}, tune={"THREADS": [64, 128, 256, 512]})
def sdpa_merge(
    part: In[f32, B, H, P, E],
    stat: In[f32, B, H, P, 2],
    sink: In[f32, H] | None,
    o: Out[T, B, H, E],
    lse: Out[f32, B, H],
    *,
    VEC: Const = 4,
    THREADS: Const = lambda E, P: min(128, max(64, next_pow2(cdiv(E, 4) * P))),
):
    """One group per head, whose threads share the splits; a sink counts once. P is compiled in."""
    h, b = groups(H, B, threads=THREADS)
    require(E % 8 == 0, "the head size must be a multiple of 8")
    require(THREADS % 32 == 0, "every 32 threads find the weights of all splits")
    own = [thread % 32 + 32 * i for i in unrolled(cdiv(P, 32))]
    top = [stat[b, h, s, 0] if s < P else f32(-inf) for s in own]
    size = [stat[b, h, s, 1] if s < P else f32(0) for s in own]
    lanes = min(E // VEC, THREADS)
    rows = min(THREADS // lanes, P)
    row, m = thread // lanes, thread % lanes
    at = [VEC * (m + c * lanes) for c in unrolled(cdiv(E, VEC * lanes))]
    mine = [row + i * rows for i in unrolled(cdiv(P, rows))]
    value = [[part_of(part[b, h, s], x, (row < rows) & (s < P), VEC) for x in at] for s in mine]

    extra = sink[h] * LOG2E if sink is not None else f32(-inf)
    peak = maximum(group_max(greatest(top), width=32), extra)
    by = [fast_exp2(x - peak) for x in top]
    norm = group_sum(weighted(size, by), width=32) + fast_exp2(extra - peak)
    share, pile = shared((P,), f32), shared((rows, E), f32)
    for i in unrolled(len(own)):
        if (thread < 32) & (own[i] < P):
            share[own[i]] = by[i] * where(norm > 0.0, 1.0 / norm, 0.0)
    barrier()
    for c in unrolled(len(at)):
        if (row < rows) & (at[c] < E):
            given = [share[minimum(s, P - 1)] for s in mine]
            pile[row, at[c] : at[c] + VEC] = weighted([x[c] for x in value], given)
    barrier()
    for i in strided(E, VEC):
        out = pile[0, i : i + VEC].to(f32)
        for j in unrolled(1, rows):
            out += pile[j, i : i + VEC]
        o[b, h, i : i + VEC] = out.to(T)
    if thread == 0:
        lse[b, h] = where(norm > 0.0, (peak + log2(norm)) / LOG2E, -inf)


@inline
def weighted(xs, by):
    """The sum of the products, from first to last."""
    total = xs[0] * by[0]
    for i in unrolled(1, len(by)):
        total += xs[i] * by[i]
    return total


@sdpa_merge.oracle
def _(part, stat, sink):
    top = stat[..., 0].max(-1, keepdims=True)
    share = np.exp2(stat[..., 0] - top)
    extra = 0 if sink is None else np.exp(sink - top[..., 0] * np.log(2))
    total = (share * stat[..., 1]).sum(-1) + extra
    o = np.einsum("bhp,bhpe->bhe", share, part) / total[..., None]
    root = np.sqrt(np.einsum("bhp,bhpe->bhe", share**2, part**2)) / total[..., None]
    size = np.einsum("bhp,bhpe->bhe", share, np.abs(part)) / total[..., None]
    lse = np.log(total) + top[..., 0] * np.log(2)
    return {"o": o, "lse": lse}, {"o": (root, size), "lse": 1 + np.abs(lse)}


@sdpa_merge.case(B=[3], H=[5], P=[1, 5], E=[8, 136], SINK=[False, True],
                 tol={"o": ATTN, "lse": RED("P")})  # fmt: skip
def _(rng, B, H, P, E, SINK):
    stat = np.stack([300 + rng.normal(B, H, P) * 3, 1 + rng.uniform(B, H, P)], -1)
    stat[0, 0, :, 1] = 1.0  # splits of one key
    sink = 208 + rng.normal(H) * 2 if SINK else None
    return {"part": rng.normal(B, H, P, E), "stat": stat, "sink": sink}


sdpa_merge.bench(
    B=[1, 8], H=32, P=32, E=128, T=f16,
    make=lambda rng, B, H, P, E: {
        "part": rng.normal(B, H, P, E), "stat": 1 + rng.uniform(B, H, P, 2), "sink": None,
    },
)  # fmt: skip
