"""Attention of the last few tokens of sequences over their whole caches:

o[b, h, i] = sum_t softmax_t(s[i, t]) * v[b, g, t],  s[i, t] = scale * q[b, h, i] . k[b, g, t],

for the keys t <= n - S + i of n = used[b], as when a draft of S tokens is verified. The queries of
all heads that share keys are the rows of one tile, so that a cache is read once.

Source: Leviathan et al. 2023 (arXiv:2211.17192); divided keys, Dao et al., "Flash-Decoding for
long-context inference", 2023; formulas as in `sdpa.prefill`.
"""

import numpy as np

from iron.kernels.attention_tiles import fresh, hopper_wide, room, walked, wide
from iron.kernels.primitives import LOG2E
from iron.kernels.sdpa.merge import sdpa_merge
from iron.lang import ATTN, RED, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, f16, f32
from iron.lang import groups, i32, inf, iota, kernel, maximum, minimum, next_pow2, plan, require
from iron.lang import scratch, u32, where

B, H, G, S, L, D, E, F, P = dims("B H G S L D E F P")
T = dtypes("T", f32, f16, bf16)


def rows_of(F, D, E, T, shared_bytes):
    """Rows of a tile: all that share keys, up to 64, where there is room for them."""
    fits = (n for n in (64, 32, 16) if room(n, 32, D, E, T) <= shared_bytes)
    return min(next(fits, 16), max(16, next_pow2(F)))


def hopper_rows(F, D, E, T, shared_bytes):
    """64, the rows of a warpgroup's product, for heads that bulk copies of 128 bytes move."""
    return 64 if T.bytes == 2 and max(D, E) <= 128 else rows_of(F, D, E, T, shared_bytes)


@kernel(
    choose={"CAPPED": [False, True], "WINDOWED": [False, True]},
    schedule={
        "cpu": {"BM": 16, "BN": 32},
        "sm_90": {
            "BM": hopper_rows,
            "BN": 128,
            "STAGES": 2,
            "CONSUMERS": 1,
            "PERSISTENT": 132,
            "WIDE": hopper_wide,
        },
    },
    tune={"BM": [16, 32, 64], "BN": [32, 64, 128], "STAGES": [1, 2, 3]},
)
def sdpa_decode_divided(
    q: In[T, B, G, F, D],
    k: In[T, B, G, L, D],
    v: In[T, B, G, L, E],
    used: In[u32, B],
    sink: In[f32, H] | None,
    part: Out[f32, B, G, F, P, E],
    stat: Out[f32, B, G, F, P, 2],
    scale: Scalar[f32],
    softcap: Scalar[f32],
    window: Scalar[i32],
    tokens: Scalar[i32],
    *,
    CAPPED: Const = True,
    WINDOWED: Const = True,
    BM: Const = rows_of,
    BN: Const = 32,
    STAGES: Const = 2,
    CONSUMERS: Const = 0,
    OVERLAP: Const = 0,
    PERSISTENT: Const = 0,
    WIDE: Const = 1,
):
    """One group per share of the keys and BM of the F rows that see them, for `sdpa_merge`.

    Row r is token r % tokens of head r // tokens of those of a key head. The keys that a row sees
    are divided into P equal shares; `part` holds the unnormalised sum of each, `stat` its greatest
    score in base 2 and its weight sum. A sink counts in share 0.
    """
    s, i, g, b = groups(P, cdiv(F, BM), G, B)
    require(scale > 0.0, "the scale must be positive")
    require(CAPPED or softcap <= 0.0, "a form without a soft cap is for a softcap of 0")
    require(not CAPPED or softcap > 0.0, "a form with a soft cap is for a positive one")
    require(WINDOWED or window <= 0, "a form without a window is for a window of 0")
    require(not WINDOWED or window > 0, "a form with a window is for a positive one")
    n = minimum(used[b].to(i32), L)
    start = maximum(0, n - tokens - window + 1) if WINDOWED else 0
    share = cdiv(n - start, P)
    low = minimum(start + s * share, n)
    high = minimum(low + share, n)

    row = i * BM + iota(BM)
    top, norm, acc = fresh(BM, wide(E, WIDE), None)
    if sink is not None:
        for r in range(F // tokens):
            top = where(row // tokens == r, sink[g * (F // tokens) + r] * LOG2E, top)
        top, norm = where(s == 0, top, -inf), norm + where(s == 0, 1.0, 0.0)
    place = (n - tokens - low + maximum(row % tokens, 0))[:, None]
    heads, tiles = (k[b, g, low:high], v[b, g, low:high]), (0, cdiv(high - low, BN))
    top, norm, acc = walked(
        q[b, g].tiles(BM, wide(D, WIDE))[i, 0], i, heads, place, tiles,
        (window if WINDOWED else None, 0), (None, None, None),
        (scale, softcap if CAPPED else None), (top, norm, acc), (BM, BN, STAGES, T, WIDE),
    )  # fmt: skip
    part[b, g, :, s].tiles(BM, wide(E, WIDE))[i, 0] = acc
    stat[b, g, :, s, 0].tiles(BM)[i] = top
    stat[b, g, :, s, 1].tiles(BM)[i] = norm


@plan
def sdpa_decode_batched(
    q: In[T, B, H, S, D],
    k: In[T, B, G, L, D],
    v: In[T, B, G, L, E],
    used: In[u32, B],
    sink: In[f32, H] | None,
    o: Out[T, B, H, S, E],
    lse: Out[f32, B, H, S],
    scale: Scalar[f32],
    softcap: Scalar[f32],
    window: Scalar[i32],
    *,
    SPLITS: Const = lambda B, G, L: max(1, min(128 // (B * G), cdiv(L, 256), 64)),
):
    """Query i of S sees keys 0 to used[b] - S + i, with a positive `window` the last of them.

    `sink`, `softcap` and what a query without keys gives are as in `sdpa_prefill`. A cache is read
    once for every 64 of the rows (tokens times heads of a group) that share it, by SPLITS
    groups, by default so many that 128 are at work.
    """
    part = scratch(f32, B, G, H // G * S, SPLITS, E)
    stat = scratch(f32, B, G, H // G * S, SPLITS, 2)
    sdpa_decode_divided(
        q.reshape(B, G, H // G * S, D), k, v, used, sink, part, stat, scale, softcap, window, S
    )
    sdpa_merge(
        part.reshape(B, H * S, SPLITS, E), stat.reshape(B, H * S, SPLITS, 2), None,
        o.reshape(B, H * S, E), lse.reshape(B, H * S),
    )  # fmt: skip


@sdpa_decode_divided.oracle
def _(q, k, v, used, sink, scale, softcap, window, tokens, P):
    (B, G, F, _), (part, root, size) = q.shape, np.zeros((3, *q.shape[:3], P, v.shape[-1]))
    stat, near = np.zeros((*q.shape[:3], P, 2)), np.zeros((*q.shape[:3], P, 2))
    for b, g, r in np.ndindex(B, G, F):
        n = min(int(used[b]), k.shape[2])
        start = max(0, n - tokens - window + 1) if window > 0 else 0
        last, share = n - tokens + r % tokens, -(-(n - start) // P)
        for s in range(P):
            t = np.arange(start + s * share, min(start + (s + 1) * share, n))
            t = t[(t <= last) & (t > last - window if window > 0 else True)]
            x = scale * (k[b, g, t] @ q[b, g, r])
            x = softcap * np.tanh(x / softcap) if softcap > 0 else x
            extra = -np.inf if sink is None or s else sink[g * F // tokens + r // tokens]
            top = max(x.max(initial=-np.inf), extra)
            w = np.exp(x - top)
            stat[b, g, r, s] = top * LOG2E, w.sum() + (np.exp(extra - top) if top > -np.inf else 0)
            part[b, g, r, s], root[b, g, r, s] = w @ v[b, g, t], np.sqrt(w**2 @ v[b, g, t] ** 2)
            size[b, g, r, s] = w @ np.abs(v[b, g, t])
            far = scale * (np.abs(k[b, g, t]) @ np.abs(q[b, g, r])).max(initial=0)  # may cancel
            near[b, g, r, s] = (1 + far + (abs(top) if top > -np.inf else 0)) * LOG2E
            near[b, g, r, s, 1] *= stat[b, g, r, s, 1]
    return {"part": part, "stat": stat}, {"part": (root, size), "stat": near}


@sdpa_decode_batched.oracle
def _(q, k, v, used, sink, scale, softcap, window):
    (B, H, S, _), (o, root, size) = q.shape, np.zeros((3, *q.shape[:3], v.shape[-1]))
    lse, far, near = (np.zeros(q.shape[:3]) for _ in range(3))
    for b, h, i in np.ndindex(B, H, S):
        g, last = h * k.shape[1] // H, min(int(used[b]), k.shape[2]) - S + i
        t = np.arange(max(0, last - window + 1) if window > 0 else 0, max(0, last + 1))
        s = scale * (k[b, g, t] @ q[b, h, i])
        s = softcap * np.tanh(s / softcap) if softcap > 0 else s
        every = s if sink is None else np.append(s, sink[h])
        if not every.size:
            lse[b, h, i] = -np.inf
            continue
        total = np.exp(every - every.max()).sum()
        lse[b, h, i], p = every.max() + np.log(total), np.exp(s - every.max()) / total
        o[b, h, i], root[b, h, i] = p @ v[b, g, t], np.sqrt(p**2 @ v[b, g, t] ** 2)
        size[b, h, i], far[b, h, i] = p @ np.abs(v[b, g, t]), np.abs(s).max(initial=0)
        near[b, h, i] = 1 + np.abs(lse[b, h, i])
        near[b, h, i] += scale * (np.abs(k[b, g, t]) @ np.abs(q[b, h, i])).max(initial=0)
    return {"o": o, "lse": lse}, {"o": (root, size, far[..., None]), "lse": near}


def inputs(rng, B, H, G, S, L, D, E, MODE):
    """The last S tokens of sequences of unlike lengths; what the caches hold beyond is poison."""
    key, value = rng.normal(B, G, L, D), rng.normal(B, G, L, E) + rng.normal(B, G, 1, E)
    used = np.array([L, max(0, L - 5), 2] if MODE != "full" else [L] * B)[:B]
    for b in range(B):
        key[b, :, used[b] :] = value[b, :, used[b] :] = np.nan
    return {
        "q": rng.normal(B, H, S, D), "k": key, "v": value, "used": used,
        "sink": rng.normal(H) * 3 if MODE == "sink" else None, "scale": 2 / np.sqrt(D),
        "softcap": 0.75 if MODE == "softcap" else 0.0,
        "window": {"one": 1, "window": 15}.get(MODE, 0),
    }  # fmt: skip


def folded(rng, B, H, G, F, L, D, E, MODE="full"):
    """The same for rows that share keys."""
    given = inputs(rng, B, H, G, F * G // H, L, D, E, MODE)
    return given | {"q": rng.normal(B, G, F, D), "tokens": F * G // H}


MODES = ["plain", "sink", "softcap", "window", "one"]


@sdpa_decode_divided.case(
    B=[3], H=[9], G=[3], F=[21], L=[101], D=[25], E=[41], P=[3], MODE=MODES, BM=[16], BN=[16],
    T=[f32], tol={"part": ATTN, "stat": RED("L")},
)  # fmt: skip
@sdpa_decode_divided.case(
    B=[3], H=[9], G=[3], F=[21], L=[101], D=[24], E=[40], P=[3], MODE=["sink"],
    T=[f16, bf16], tol={"part": ATTN.rounded(T), "stat": RED("L")},
)  # fmt: skip
def _(rng, B, H, G, F, L, D, E, MODE):
    return folded(rng, B, H, G, F, L, D, E, MODE)


@sdpa_decode_batched.case(
    B=[3], H=[9], G=[3], S=[3], L=[101], D=[24], E=[40], SPLITS=[3], T=[f32],
    MODE=["plain", "sink", "one"], tol={"o": ATTN, "lse": RED("L")},
)  # fmt: skip
def _(rng, B, H, G, S, L, D, E, MODE):
    return inputs(rng, B, H, G, S, L, D, E, MODE)


@sdpa_decode_batched.case(
    B=[2], H=[5], G=[1], S=[16], L=[257], D=[128], E=[128], SPLITS=[1], MODE=["sink"],
    T=[f16, bf16], tol={"o": ATTN.rounded(T), "lse": RED("L")},
)  # fmt: skip
def _(rng, B, H, G, S, L, D, E, MODE):
    return inputs(rng, B, H, G, S, L, D, E, MODE)


sdpa_decode_divided.bench(
    B=32, H=32, G=8, F=32, L=8192, D=128, E=128, P=1, T=bf16, make=folded,
    flops=lambda B, G, F, L, D, E: 2 * B * G * F * L * (D + E),
)  # fmt: skip
sdpa_decode_batched.bench(
    B=[1, 32], H=32, G=8, S=[4, 8, 16], L=8192, D=128, E=128, T=bf16,
    flops=lambda B, H, S, L, D, E: 2 * B * H * S * L * (D + E),
    make=lambda rng, B, H, G, S, L, D, E: inputs(rng, B, H, G, S, L, D, E, "full"),
)  # fmt: skip
