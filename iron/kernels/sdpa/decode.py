"""Attention of one query per head over a key and value cache:

o[b, h] = sum_t softmax_t(s[t]) * v[b, g, t],  s[t] = scale * q[b, h] . k[b, g, t],  g = h * G / H.

Source: Vaswani et al. 2017 (arXiv:1706.03762), eq. 1; grouped heads, Ainslie et al. 2023
(arXiv:2305.13245); the online sum, Milakov and Gimelshein 2018 (arXiv:1805.02867); attention sinks
as positions, Xiao et al. 2023 (arXiv:2309.17453).
"""

import numpy as np

from iron.kernels.attention import LOWEST, attend, gathered, leave, scaled_query, visible
from iron.kernels.attention_blocks import attend_blocks
from iron.kernels.attention_teams import MANY, heads_of, keys_of, team_of, threads_of
from iron.kernels.primitives import LOG2E
from iron.lang import ATTN, RED, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, f16, f32
from iron.lang import fast_exp2, groups, i32, inf, kernel, log2, maximum, minimum
from iron.lang import require, shared, strided, u8, u32, unrolled, where

B, H, G, S, D, E = dims("B H G S D E")
T = dtypes("T", f32, f16, bf16)
C = dtypes("C", f32, f16, bf16)


@kernel(
    choose={"CAPPED": [False, True]},
    schedule={
        "cpu": {"TEAM": 32, "VEC": 1, "THREADS": 32, "KEYS": 1, "AHEAD": False, "BLOCKS": True}
    },
    tune={
        "TEAM": [8, 16, 32],
        "THREADS": [64, 128, 256],
        "HEADS": [1, 2, 4],
        "KEYS": [1, 2, 4],
        "AHEAD": [False, True],
    },
)
def sdpa_decode(
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
    BLOCKS: Const = False,
    TEAM: Const = team_of,
    HEADS: Const = lambda B, H, G, D, E, TEAM, BLOCKS: min(
        4 if BLOCKS else 8 if B * G >= MANY else 1, heads_of(H, G, D, E, TEAM)
    ),
    KEYS: Const = keys_of,
    AHEAD: Const = True,
    CAPPED: Const = True,
    VEC: Const = 8,
    THREADS: Const = threads_of,
):
    """One group per HEADS query heads of one key head; lse = log of the sum of exp(s).

    A team of TEAM threads takes KEYS keys at a time; with AHEAD it reads the next ones before the
    work on these. With BLOCKS the team is the group and takes TEAM keys.

    Keys 0 to used[b] - 1 are visible, of these only the last `window` and the first `first` when
    window > 0, and only those whose `mask` is not 0. A positive `softcap` c replaces a score by
    c tanh(s / c); `bias[b, t]` is added after that. `sink[h]` joins the softmax with a value of
    zero. A head that sees nothing gives zeros and lse -inf. Cache rows that are not visible are
    never read. Sums are f32.
    """
    packs = cdiv(H // G, HEADS)
    slot, b = groups(G * packs, B, threads=THREADS)
    require(H % G == 0, "the query heads H must be a multiple of the key heads G")
    require(CAPPED or softcap <= 0.0, "a form without a soft cap is for a softcap of 0")
    require(TEAM <= THREADS, "a team of threads is part of a group")
    require((D % 8 == 0) & (E % 8 == 0), "head sizes must be multiples of 8")
    g, h0 = slot // packs, slot // packs * (H // G) + slot % packs * HEADS
    end = (g + 1) * (H // G)
    shape = (TEAM, VEC, THREADS, KEYS, C if AHEAD else None)

    n = minimum(used[b].to(i32), S)
    head, start = visible(n, window, first)
    query = [scaled_query(q[b, h0 + r], h0 + r < end, scale, shape) for r in unrolled(HEADS)]
    allowed = mask[b] if mask is not None else None
    cache = (k[b, g], v[b, g], allowed, bias[b] if bias is not None else None)
    keys = (0, head + n - start, head, start - head)
    walk = attend_blocks if BLOCKS and (THREADS, VEC) == (TEAM, 1) else attend
    state = walk(query, cache, keys, softcap if CAPPED else None, shape)

    pile, mark = shared((THREADS // TEAM, HEADS, E), f32), shared((THREADS // TEAM, HEADS, 2), f32)
    leave(state, pile, mark, shape)
    STEP = min(4, VEC)
    for i in strided(HEADS * E, STEP):
        r, c = i // E, i % E
        out, peak, weight = gathered(pile, mark, r, c, STEP)
        h = h0 + r
        if sink is not None:
            extra = sink[minimum(h, H - 1)] * LOG2E
            summit = maximum(maximum(peak, extra), LOWEST)
            weight = weight * fast_exp2(peak - summit) + fast_exp2(extra - summit)
            out = out * fast_exp2(peak - summit)
            peak = summit
        if h < end:
            o[b, h, c : c + STEP] = (out * where(weight > 0.0, 1.0 / weight, 0.0)).to(T)
            if c == 0:
                lse[b, h] = where(weight > 0.0, (peak + log2(weight)) / LOG2E, -inf)


def scored(b, h, q, k, used, mask, bias, scale, softcap, window, first):
    """The cache rows head h of batch b may see, in order, and their scores; -inf where masked."""
    n = min(int(used[b]), k.shape[2])
    t = np.arange(n)
    t = t[(t >= n - window) | (t < first)] if window > 0 else t
    s = scale * (k[b, h * k.shape[1] // q.shape[1], t] @ q[b, h])
    s = softcap * np.tanh(s / softcap) if softcap > 0 else s
    s = s if bias is None else s + bias[b, t]
    return t, s if mask is None else np.where(mask[b, t] != 0, s, -np.inf)


def attention(q, k, v, used, mask, bias, sink, scale, softcap, window, first):
    """The formula in f64: outputs, log sums and the condition terms of both."""
    o, root, size, far = np.zeros((4, *q.shape[:2], v.shape[-1]))
    lse, near = np.full(q.shape[:2], -np.inf), np.zeros(q.shape[:2])
    for b, h in np.ndindex(q.shape[:2]):
        t, s = scored(b, h, q, k, used, mask, bias, scale, softcap, window, first)
        every = s if sink is None else np.append(s, sink[h])
        top = every.max(initial=-np.inf)
        if top == -np.inf:
            continue
        total = np.exp(every - top).sum()
        seen = s > -np.inf
        g = h * k.shape[1] // q.shape[1]
        p, keys, values = np.exp(s - top)[seen] / total, k[b, g, t[seen]], v[b, g, t[seen]]
        lse[b, h] = top + np.log(total)
        o[b, h], root[b, h] = p @ values, np.sqrt((p * p) @ values**2)
        size[b, h], far[b, h] = p @ np.abs(values), np.abs(s[seen]).max(initial=0)
        terms = scale * (np.abs(keys) @ np.abs(q[b, h])).max(initial=0)  # a score may cancel
        near[b, h] = 1 + np.abs(lse[b, h]) + terms
    return {"o": o, "lse": lse}, {"o": (root, size, far), "lse": near}


def inputs(rng, B, H, G, S, D, E, MODE):
    """Queries and caches with peaked scores; the rows beyond `used` are poisoned."""
    used = np.array([S, 0, max(S - 2, 0), 1])[:B]
    key, value = rng.normal(B, G, S, D), rng.normal(B, G, S, E) + rng.normal(B, G, 1, E)
    for b in range(B):
        key[b, :, used[b] :] = value[b, :, used[b] :] = np.nan
    mask = (rng.uniform(B, S) < 0.7).astype(np.uint8) if MODE == "mask" else None
    bias = np.where(rng.uniform(B, S) < 0.3, -np.inf, rng.normal(B, S)) if MODE == "bias" else None
    return {
        "q": rng.normal(B, H, D), "k": key, "v": value, "used": used, "mask": mask,
        "bias": bias,
        "sink": rng.normal(H) * 3 if MODE == "sink" else None,
        "scale": (60 if MODE == "peaked" else 2) / np.sqrt(D),  # exp overflows without its shift
        "softcap": 0.75 if MODE == "softcap" else 0.0,
        "window": {"one": 1, "window": 4, "first": 4}.get(MODE, 0),
        "first": 2 if MODE == "first" else 0,
    }  # fmt: skip


def full(rng, B, H, G, S, D, E):
    """Caches whose every row is used, and no option: what decoding mostly is."""
    return {
        "q": rng.normal(B, H, D), "k": rng.normal(B, G, S, D), "v": rng.normal(B, G, S, E),
        "used": np.full(B, S), "mask": None, "bias": None, "sink": None, "scale": 1 / np.sqrt(D),
        "softcap": 0.0, "window": 0, "first": 0,
    }  # fmt: skip


MODES = ["plain", "mask", "bias", "sink", "softcap", "window", "one", "first", "peaked"]


@sdpa_decode.oracle
def _(q, k, v, used, mask, bias, sink, scale, softcap, window, first):
    return attention(q, k, v, used, mask, bias, sink, scale, softcap, window, first)


@sdpa_decode.case(
    B=[4], H=[6], G=[3], S=[37], D=[72], E=[40], MODE=MODES, T=[f32], C=[f32, f16], HEADS=[2],
    tol={"o": ATTN, "lse": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    return inputs(rng, B, H, G, S, D, E, MODE)


@sdpa_decode.case(
    B=[3], H=[6], G=[1, 3, 6], S=[37], D=[8], E=[64], MODE=["plain", "first"],
    tol={"o": ATTN, "lse": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    return inputs(rng, B, H, G, S, D, E, MODE)


@sdpa_decode.case(
    B=[1], H=[9], G=[3], S=[5, 61], D=[24], E=[72], HEADS=[2], TEAM=[8], KEYS=[2],
    AHEAD=[True], VEC=[4], THREADS=[32], BLOCKS=[False], T=[f32], C=[f32],
    MODE=["plain", "first", "one", "softcap", "mask", "sink"],
    tol={"o": ATTN, "lse": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    return inputs(rng, B, H, G, S, D, E, MODE)


sdpa_decode.bench(
    B=1, H=32, G=8, S=[4096, 8192, 32768], D=128, E=128, T=f16, C=f16, make=full,
    flops=lambda B, H, S, D, E: 2 * B * H * S * (D + E),
)  # fmt: skip
sdpa_decode.bench(
    B=[1, 8], H=32, G=8, S=8192, D=128, E=128, T=bf16, C=bf16, make=full,
    flops=lambda B, H, S, D, E: 2 * B * H * S * (D + E),
)  # fmt: skip
