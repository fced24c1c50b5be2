"""Attention of one query per head, the keys divided among several groups and merged after.

Split s handles an equal share of the visible keys and leaves an unnormalised sum o_s with its
greatest score m_s and weight sum l_s; the merge is
o = sum_s o_s exp(m_s - m) / sum_s l_s exp(m_s - m),  m = max_s m_s.

Source: Dao et al., "Flash-Decoding for long-context inference", 2023; formulas and options as in
`sdpa.decode`.
"""

import numpy as np

from iron.kernels.primitives import LOG2E, attend, chunks_of, finite_or_zero, join_teams
from iron.kernels.primitives import visible
from iron.kernels.sdpa.decode import MODES, attention, full, inputs, scored
from iron.lang import ATTN, RED, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, exp2, f16, f32
from iron.lang import groups, i32, inf, kernel, log2, maximum, minimum, plan, require, scratch
from iron.lang import shared, strided, thread, u8, u32, unrolled, where

B, H, G, S, D, E, P = dims("B H G S D E P")
T = dtypes("T", f32, f16, bf16)
C = dtypes("C", f32, f16, bf16)


@kernel(
    schedule={"cpu": {"TEAM": 32, "VEC": 1}},
    tune={"TEAM": [8, 16, 32], "THREADS": [64, 128, 256], "HEADS": [1, 2, 4]},
)
def sdpa_decode_split(
    q: In[T, B, H, D],
    k: In[C, B, G, S, D],
    v: In[C, B, G, S, E],
    used: In[u32, B],
    mask: In[u8, B, S] | None,
    bias: In[f32, B, S] | None,
    part: Out[f32, B, H, P, E],
    stat: Out[f32, B, H, P, 2],
    scale: Scalar[f32],
    softcap: Scalar[f32],
    window: Scalar[i32],
    first: Scalar[i32],
    *,
    HEADS: Const = 1,
    TEAM: Const = 8,
    VEC: Const = 8,
    THREADS: Const = 128,
):
    """One group per split and HEADS query heads of one key head.

    `part` holds the unnormalised sums, `stat` the greatest score in base 2 and the weight sum of
    each split; a split without keys leaves zeros, -inf and 0.
    """
    packs = cdiv(H // G, HEADS)
    s, slot, b = groups(P, G * packs, B, threads=THREADS)
    require(H % G == 0, "the query heads H must be a multiple of the key heads G")
    require(TEAM <= THREADS, "a team of threads is part of a group")
    require((D % 8 == 0) & (E % 8 == 0), "head sizes must be multiples of 8")
    g, h0 = slot // packs, slot // packs * (H // G) + slot % packs * HEADS
    end = (g + 1) * (H // G)
    shape, team, m = (TEAM, VEC, THREADS), thread // TEAM, thread % TEAM
    at = [VEC * (m + c * TEAM) for c in unrolled(cdiv(D, TEAM * VEC))]

    n = minimum(used[b].to(i32), S)
    head, start = visible(n, window, first)
    seen = head + n - start
    share = cdiv(seen, P)
    query = [chunks_of(q[b, h0 + r], D, at, h0 + r < end, VEC) for r in unrolled(HEADS)]
    allowed = mask[b] if mask is not None else None
    cache = (k[b, g], v[b, g], allowed, bias[b] if bias is not None else None)
    low = minimum(s * share, seen)
    keys = (low, minimum(low + share, seen), head, start - head)
    total, top, norm = attend(query, cache, keys, (scale, softcap), shape)

    pile = shared((THREADS // TEAM, E), f32) if THREADS > TEAM else None
    for r in unrolled(HEADS):
        out, peak, weight = join_teams(total[r], top[r], norm[r], pile, shape)
        if (team == 0) & (h0 + r < end):
            for c in unrolled(len(out)):
                i = VEC * (m + c * TEAM)
                if i < E:
                    part[b, h0 + r, s, i : i + VEC] = out[c]
            if m == 0:
                stat[b, h0 + r, s, 0] = peak
                stat[b, h0 + r, s, 1] = weight


@kernel(tune={"THREADS": [64, 128]})
def sdpa_merge(
    part: In[f32, B, H, P, E],
    stat: In[f32, B, H, P, 2],
    sink: In[f32, H] | None,
    o: Out[T, B, H, E],
    lse: Out[f32, B, H],
    *,
    THREADS: Const = 64,
):
    """One group per head; the splits are summed from first to last, and a sink once."""
    h, b = groups(H, B, threads=THREADS)
    peak = sink[h] * LOG2E if sink is not None else f32(-inf)
    for s in range(P):
        peak = maximum(peak, stat[b, h, s, 0])
    safe = finite_or_zero(peak)
    weight = exp2(sink[h] * LOG2E - safe) if sink is not None else f32(0)
    for s in range(P):
        weight += stat[b, h, s, 1] * exp2(stat[b, h, s, 0] - safe)
    inverse = where(weight > 0.0, 1.0 / weight, 0.0)
    for i in strided(E):
        acc = f32(0)
        for s in range(P):
            acc += part[b, h, s, i] * exp2(stat[b, h, s, 0] - safe)
        o[b, h, i] = (acc * inverse).to(T)
    if thread == 0:
        lse[b, h] = where(weight > 0.0, (peak + log2(weight)) / LOG2E, -inf)


@plan
def sdpa_decode_two_pass(
    q: In[T, B, H, D],
    k: In[C, B, G, S, D],
    v: In[C, B, G, S, E],
    used: In[u32, B],
    mask: In[u8, B, S] | None,
    bias: In[f32, B, S] | None,
    sink: In[f32, H] | None,
    o: Out[T, B, H, E],
    lse: Out[f32, B, H],
    scale: Scalar[f32],
    softcap: Scalar[f32],
    window: Scalar[i32],
    first: Scalar[i32],
    *,
    SPLITS: Const = 8,
):
    """`sdpa_decode` with the keys of each head divided into SPLITS shares."""
    part = scratch(f32, B, H, SPLITS, E)
    stat = scratch(f32, B, H, SPLITS, 2)
    sdpa_decode_split(q, k, v, used, mask, bias, part, stat, scale, softcap, window, first)
    sdpa_merge(part, stat, sink, o, lse)


@sdpa_decode_split.oracle
def _(q, k, v, used, mask, bias, scale, softcap, window, first, P):
    part, root, size = np.zeros((3, *q.shape[:2], P, v.shape[-1]))
    stat = np.stack([np.full(part.shape[:3], -np.inf), np.zeros(part.shape[:3])], -1)
    for b, h in np.ndindex(q.shape[:2]):
        t, s = scored(b, h, q, k, used, mask, bias, scale, softcap, window, first)
        share = -(-len(t) // P)
        for i in range(P):
            mine = np.arange(len(t))[i * share : (i + 1) * share]
            mine = mine[s[mine] > -np.inf]
            if mine.size:
                top, values = s[mine].max(), v[b, h * k.shape[1] // q.shape[1], t[mine]]
                w = np.exp(s[mine] - top)
                part[b, h, i], stat[b, h, i] = w @ values, (top * LOG2E, w.sum())
                root[b, h, i], size[b, h, i] = np.sqrt((w * w) @ values**2), w @ np.abs(values)
    top = np.where(stat[..., :1] > -np.inf, 1 + np.abs(stat[..., :1]), 0)
    terms = {"part": (root, size), "stat": np.concatenate([top, top * stat[..., 1:]], -1)}
    return {"part": part, "stat": stat}, terms


@sdpa_decode_split.case(
    B=[3], H=[15], G=[3], S=[10, 37], D=[8, 72], E=[8, 40], P=[5], T=[f32], C=[f32, f16], HEADS=[2],
    MODE=["plain", "mask", "bias", "window", "one", "first", "softcap"],
    tol={"part": ATTN, "stat": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    given = inputs(rng, B, H, G, S, D, E, MODE)
    del given["sink"]
    return given


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


@sdpa_merge.case(B=[3], H=[5], P=[1, 5], E=[8, 40], SINK=[False, True],
                 tol={"o": ATTN, "lse": RED("P")})  # fmt: skip
def _(rng, B, H, P, E, SINK):
    stat = np.stack([300 + rng.normal(B, H, P) * 3, 1 + rng.uniform(B, H, P)], -1)
    stat[0, 0, :, 1] = 1.0  # splits of one key
    sink = 208 + rng.normal(H) * 2 if SINK else None
    return {"part": rng.normal(B, H, P, E), "stat": stat, "sink": sink}


@sdpa_decode_two_pass.oracle
def _(q, k, v, used, mask, bias, sink, scale, softcap, window, first):
    return attention(q, k, v, used, mask, bias, sink, scale, softcap, window, first)


@sdpa_decode_two_pass.case(
    B=[3], H=[15], G=[3], S=[9], D=[72], E=[40], MODE=MODES, SPLITS=[3],
    T=[f32, bf16], C=[f32, f16],
    tol={"o": ATTN, "lse": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    return inputs(rng, B, H, G, S, D, E, MODE)


@sdpa_decode_two_pass.case(
    B=[3], H=[4], G=[1], S=[9], D=[8], E=[8, 64], MODE=["plain", "sink"], SPLITS=[1, 40],
    T=[f32], C=[f32], tol={"o": ATTN, "lse": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    return inputs(rng, B, H, G, S, D, E, MODE)


def unsplit(rng, B, H, G, S, D, E):
    """As `full`, without the sink that only the merge knows."""
    given = full(rng, B, H, G, S, D, E)
    del given["sink"]
    return given


sdpa_decode_split.bench(
    B=1, H=32, G=8, S=32768, D=128, E=128, P=8, T=f16, C=f16, make=unsplit,
    flops=lambda B, H, S, D, E: 2 * B * H * S * (D + E),
)  # fmt: skip
sdpa_merge.bench(
    B=[1, 8], H=32, P=8, E=128, T=f16,
    make=lambda rng, B, H, P, E: {
        "part": rng.normal(B, H, P, E), "stat": 1 + rng.uniform(B, H, P, 2), "sink": None,
    },
)  # fmt: skip
sdpa_decode_two_pass.bench(
    B=1, H=32, G=8, S=[4096, 8192, 32768], D=128, E=128, T=f16, C=f16, make=full,
    flops=lambda B, H, S, D, E: 2 * B * H * S * (D + E),
)  # fmt: skip
sdpa_decode_two_pass.bench(
    B=[1, 8], H=32, G=8, S=8192, D=128, E=128, T=bf16, C=bf16, make=full,
    flops=lambda B, H, S, D, E: 2 * B * H * S * (D + E),
)  # fmt: skip
