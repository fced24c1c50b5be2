"""Attention of one query per head, the keys divided among several groups and merged after.

Split s handles an equal share of the visible keys and leaves an unnormalised sum with its greatest
score and its weight sum, which `sdpa.merge` puts together.

Source: Dao et al., "Flash-Decoding for long-context inference", 2023; formulas and options as in
`sdpa.decode`.
"""

import numpy as np

from iron.kernels.attention import attend, gathered, leave, scaled_query, visible
from iron.kernels.attention_teams import heads_of, keys_of, team_of, threads_of
from iron.kernels.primitives import LOG2E
from iron.kernels.sdpa.decode import MODES, attention, full, inputs, scored
from iron.kernels.sdpa.merge import sdpa_merge
from iron.lang import ATTN, RED, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, f16, f32
from iron.lang import groups, i32, inf, kernel, minimum, plan, require, scratch, shared, strided
from iron.lang import u8, u32, unrolled, where

B, H, G, S, D, E, P = dims("B H G S D E P")
T = dtypes("T", f32, f16, bf16)
C = dtypes("C", f32, f16, bf16)


@kernel(
    choose={"CAPPED": [False, True]},
    schedule={"cpu": {"TEAM": 32, "VEC": 1, "HEADS": 1, "KEYS": 1, "AHEAD": False}},
    tune={
        "TEAM": [8, 16, 32],
        "THREADS": [64, 128, 256],
        "HEADS": [1, 2, 4],
        "KEYS": [1, 2, 4],
        "AHEAD": [False, True],
    },
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
    TEAM: Const = team_of,
    HEADS: Const = heads_of,
    KEYS: Const = keys_of,
    AHEAD: Const = True,
    CAPPED: Const = True,
    VEC: Const = 8,
    THREADS: Const = threads_of,
):
    """One group per split and HEADS query heads of one key head; teams as in `sdpa_decode`.

    `part` holds the unnormalised sums, `stat` the greatest score in base 2 and the weight sum of
    each split; a split without keys leaves zeros, -inf and 0.
    """
    packs = cdiv(H // G, HEADS)
    s, slot, b = groups(P, G * packs, B, threads=THREADS)
    require(H % G == 0, "the query heads H must be a multiple of the key heads G")
    require(CAPPED or softcap <= 0.0, "a form without a soft cap is for a softcap of 0")
    require(TEAM <= THREADS, "a team of threads is part of a group")
    require((D % 8 == 0) & (E % 8 == 0), "head sizes must be multiples of 8")
    g, h0 = slot // packs, slot // packs * (H // G) + slot % packs * HEADS
    end = (g + 1) * (H // G)
    shape = (TEAM, VEC, THREADS, KEYS, C if AHEAD else None)

    n = minimum(used[b].to(i32), S)
    head, start = visible(n, window, first)
    seen = head + n - start
    share = cdiv(seen, P)
    query = [scaled_query(q[b, h0 + r], h0 + r < end, scale, shape) for r in unrolled(HEADS)]
    allowed = mask[b] if mask is not None else None
    cache = (k[b, g], v[b, g], allowed, bias[b] if bias is not None else None)
    low = minimum(s * share, seen)
    keys = (low, minimum(low + share, seen), head, start - head)
    state = attend(query, cache, keys, softcap if CAPPED else None, shape)

    pile, mark = shared((THREADS // TEAM, HEADS, E), f32), shared((THREADS // TEAM, HEADS, 2), f32)
    leave(state, pile, mark, shape)
    STEP = min(4, VEC)
    for i in strided(HEADS * E, STEP):
        r, c = i // E, i % E
        out, peak, weight = gathered(pile, mark, r, c, STEP)
        if h0 + r < end:
            part[b, h0 + r, s, c : c + STEP] = out
            if c == 0:
                stat[b, h0 + r, s, 0] = where(weight > 0.0, peak, -inf)
                stat[b, h0 + r, s, 1] = weight


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
    SPLITS: Const = lambda B, G, S: max(1, min(256 // (B * G), cdiv(S, 64), 64)),
):
    """`sdpa_decode` with the keys of each head divided into SPLITS shares.

    By default so many that 256 groups are at work, as a large GPU holds at once.
    """
    part = scratch(f32, B, H, SPLITS, E)
    stat = scratch(f32, B, H, SPLITS, 2)
    sdpa_decode_split(q, k, v, used, mask, bias, part, stat, scale, softcap, window, first)
    sdpa_merge(part, stat, sink, o, lse)


@sdpa_decode_split.oracle
def _(q, k, v, used, mask, bias, scale, softcap, window, first, P):
    part, root, size = np.zeros((3, *q.shape[:2], P, v.shape[-1]))
    near = np.zeros((*q.shape[:2], P, 1))
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
                keys = k[b, h * k.shape[1] // q.shape[1], t[mine]]
                near[b, h, i] = scale * (np.abs(keys) @ np.abs(q[b, h])).max()  # scores may cancel
    top = np.where(stat[..., :1] > -np.inf, 1 + np.abs(stat[..., :1]) + near * LOG2E, 0)
    terms = {"part": (root, size), "stat": np.concatenate([top, top * stat[..., 1:]], -1)}
    return {"part": part, "stat": stat}, terms


@sdpa_decode_split.case(
    B=[3], H=[15], G=[3], S=[37], D=[8, 72], E=[40], P=[5], T=[f32], C=[f32, f16], HEADS=[2],
    MODE=["plain", "mask", "bias", "window", "one", "first", "softcap"],
    tol={"part": ATTN, "stat": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    given = inputs(rng, B, H, G, S, D, E, MODE)
    del given["sink"]
    return given


@sdpa_decode_split.case(
    B=[1], H=[9], G=[3], S=[61], D=[24], E=[72], P=[2], T=[f32], C=[f32], HEADS=[2], TEAM=[8],
    KEYS=[2], AHEAD=[True], VEC=[8], THREADS=[32],
    MODE=["mask", "first", "one", "softcap", "bias"],
    tol={"part": ATTN, "stat": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    given = inputs(rng, B, H, G, S, D, E, MODE)
    del given["sink"]
    return given


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
    B=1, H=32, G=8, S=32768, D=128, E=128, P=32, T=f16, C=f16, make=unsplit,
    flops=lambda B, H, S, D, E: 2 * B * H * S * (D + E),
)  # fmt: skip
sdpa_decode_two_pass.bench(
    B=1, H=32, G=8, S=[4096, 8192, 32768], D=128, E=128, T=f16, C=f16, make=full,
    flops=lambda B, H, S, D, E: 2 * B * H * S * (D + E),
)  # fmt: skip
sdpa_decode_two_pass.bench(
    B=1, H=32, G=8, S=32768, D=128, E=128, T=bf16, C=bf16, make=full,
    flops=lambda B, H, S, D, E: 2 * B * H * S * (D + E),
)  # fmt: skip
sdpa_decode_two_pass.bench(
    B=[1, 8], H=32, G=8, S=8192, D=128, E=128, T=bf16, C=bf16, make=full,
    flops=lambda B, H, S, D, E: 2 * B * H * S * (D + E),
)  # fmt: skip
