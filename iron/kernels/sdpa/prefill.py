"""Attention of many queries over all keys, in tiles:

o[b, h, i] = sum_t softmax_t(s[i, t]) * v[b, g, t],  s[i, t] = scale * q[b, h, i] . k[b, g, t].

Source: Dao et al. 2022 (arXiv:2205.14135) and 2023 (arXiv:2307.08691); the online sum, Milakov and
Gimelshein 2018 (arXiv:1805.02867); grouped heads, g = h * G / H, Ainslie et al. 2023
(arXiv:2305.13245); sinks, Xiao et al. 2023 (arXiv:2309.17453).
"""

import numpy as np

from iron.kernels.attention_tiles import CPU, CUDA, HOPPER, attend, hopper_persistent
from iron.kernels.attention_tiles import hopper_queries, tile_side
from iron.lang import ATTN, RED, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, f16, f32
from iron.lang import grouped, groups, i32, kernel, minimum, require, u8, u32

B, H, G, S, L, D, E = dims("B H G S L D E")
T = dtypes("T", f32, f16, bf16)


QUERIES = HOPPER | {"BM": hopper_queries, "PERSISTENT": hopper_persistent}


@kernel(
    variants={"CAUSAL": [False, True]},
    choose={"CAPPED": [False, True], "WINDOWED": [False, True]},
    schedule={"cpu": CPU, "cuda": CUDA, "sm_90": QUERIES},
    tune={"BM": [32, 64, 128], "BN": [32, 64, 128], "STAGES": [1, 2]},
)
def sdpa_prefill(
    q: In[T, B, H, S, D],
    k: In[T, B, G, L, D],
    v: In[T, B, G, L, E],
    used: In[u32, B] | None,
    mask: In[u8, B, S, L] | None,
    sink: In[f32, H] | None,
    o: Out[T, B, H, S, E],
    lse: Out[f32, B, H, S],
    scale: Scalar[f32],
    softcap: Scalar[f32],
    window: Scalar[i32],
    *,
    CAUSAL: Const = False,
    CAPPED: Const = True,
    WINDOWED: Const = True,
    BM: Const = tile_side,
    BN: Const = tile_side,
    STAGES: Const = 2,
    OVERLAP: Const = 0,
    PINGPONG: Const = 0,
    PERSISTENT: Const = 0,
    WIDE: Const = 1,
):
    """One group per BM queries of one head; lse = log of the sum of exp(s).

    Keys 0 to n - 1 are visible, n = used[b] or L; with CAUSAL query i sees those up to i + n - S,
    with a positive `window` only the last `window` of these, and only where `mask` is not 0. A
    positive `softcap` c replaces a score by c tanh(s / c). `sink[h]` joins the softmax with a value
    of zero. A query that sees nothing gives zeros and lse -inf. Keys and values from n on are never
    read. Sums are f32; the weights are rounded to T before they meet v.
    """
    i, h, b = groups(cdiv(S, BM), H, B, order=grouped(4 * CAUSAL, axis=1, descending=CAUSAL))
    require(H % G == 0, "the query heads H must be a multiple of the key heads G")
    require(scale > 0.0, "the scale must be positive")
    require(CAPPED or softcap <= 0.0, "a form without a soft cap is for a softcap of 0")
    require(not CAPPED or softcap > 0.0, "a form with a soft cap is for a positive one")
    require(WINDOWED or window <= 0, "a form without a window is for a window of 0")
    require(not WINDOWED or window > 0, "a form with a window is for a positive one")
    g, n = h // (H // G), minimum(used[b].to(i32), L) if used is not None else L
    attend(
        i, (q[b, h], k[b, g, :n], v[b, g, :n], o[b, h], lse[b, h]), n - S,
        (window if WINDOWED else None, 0 if CAUSAL else None),
        sink[h] if sink is not None else None, (mask[b] if mask is not None else None, None, None),
        (scale, softcap if CAPPED else None), (BM, BN, STAGES, T, WIDE),
    )  # fmt: skip


def attention(q, k, v, keep, sink, scale, softcap):
    """The formula in f64 for one head: outputs, log sums and the condition terms of both."""
    s = scale * (q @ k.T)
    s = softcap * np.tanh(s / softcap) if softcap > 0 else s
    terms = scale * (np.abs(q) @ np.abs(k).T).max(-1, initial=0)  # a score may cancel
    s = np.where(keep, s, -np.inf)
    every = s if sink is None else np.append(s, np.full((len(s), 1), sink), 1)
    top = every.max(-1, initial=-np.inf)
    safe = np.where(top == -np.inf, 0, top)[:, None]
    total = np.exp(every - safe).sum(-1)
    p = np.exp(s - safe) / np.where(total == 0, 1, total)[:, None]
    with np.errstate(divide="ignore"):
        lse = safe[:, 0] + np.log(total)
    far = np.where(keep, np.abs(np.where(keep, s, 0)), 0).max(-1, initial=0)
    near = 1 + np.abs(np.where(np.isfinite(lse), lse, 0)) + terms
    return p @ v, lse, np.sqrt((p * p) @ (v * v)), p @ np.abs(v), far, near


@sdpa_prefill.oracle
def _(q, k, v, used, mask, sink, scale, softcap, window, CAUSAL=False):
    o, root, size = np.zeros((3, *q.shape[:3], v.shape[-1]))
    lse, far, near = (np.zeros(q.shape[:3]) for _ in range(3))
    for b, h in np.ndindex(q.shape[:2]):
        g, S = h // (q.shape[1] // k.shape[1]), q.shape[2]
        n = k.shape[2] if used is None else min(int(used[b]), k.shape[2])
        row, col = np.arange(S)[:, None] + n - S, np.arange(n)[None]
        keep = np.broadcast_to(col <= row if CAUSAL else True, (S, n))
        keep = keep & (col > row - window) if window > 0 else keep
        keep = keep & (mask[b, :, :n] != 0) if mask is not None else keep
        extra = None if sink is None else sink[h]
        found = attention(q[b, h], k[b, g, :n], v[b, g, :n], keep, extra, scale, softcap)
        o[b, h], lse[b, h], root[b, h], size[b, h], far[b, h], near[b, h] = found
    return {"o": o, "lse": lse}, {"o": (root, size, far[..., None]), "lse": near}


MODES = ["plain", "mask", "sink", "softcap", "window", "one", "used", "peaked"]


def inputs(rng, B, H, G, S, L, D, E, MODE):
    """Queries, keys and values; what `used` leaves out is poisoned."""
    key, value = rng.normal(B, G, L, D), rng.normal(B, G, L, E) + rng.normal(B, G, 1, E)
    used = np.array([L - 2, 0, 1] if MODE == "used" else [L] * B)[:B]
    for b in range(B):
        key[b, :, used[b] :] = value[b, :, used[b] :] = np.nan
    mask = (rng.uniform(B, S, L) < 0.5).astype(np.uint8) if MODE == "mask" else None
    if mask is not None:
        mask[:, S // 2] = 0
    return {
        "q": rng.normal(B, H, S, D), "k": key, "v": value,
        "used": used if MODE == "used" else None, "mask": mask,
        "sink": rng.normal(H) * 3 if MODE == "sink" else None,
        "scale": (60 if MODE == "peaked" else 2) / np.sqrt(D),
        "softcap": 0.75 if MODE == "softcap" else 0.0,
        "window": {"one": 1, "window": 15}.get(MODE, 0),
    }  # fmt: skip


@sdpa_prefill.case(
    B=[3], H=[4], G=[2], S=[37], L=[66], D=[24], E=[40], MODE=MODES, BM=[16], BN=[32], T=[f32],
    tol={"o": ATTN, "lse": RED("L")},
)  # fmt: skip
def _(rng, B, H, G, S, L, D, E, MODE):
    return inputs(rng, B, H, G, S, L, D, E, MODE)


@sdpa_prefill.case(
    B=[1], H=[6], G=[1, 3, 6], S=[1, 33], L=[102], D=[72], E=[64], MODE=["plain"],
    BM=[32], BN=[16], STAGES=[1], T=[f32], tol={"o": ATTN, "lse": RED("L")},
)  # fmt: skip
def _(rng, B, H, G, S, L, D, E, MODE):
    return inputs(rng, B, H, G, S, L, D, E, MODE)


@sdpa_prefill.case(
    B=[1], H=[2], G=[1], S=[70], L=[65], D=[128], E=[128], MODE=["plain", "sink"],
    T=[f16, bf16], tol={"o": ATTN.rounded(T), "lse": RED("L")},
)  # fmt: skip
def _(rng, B, H, G, S, L, D, E, MODE):
    return inputs(rng, B, H, G, S, L, D, E, MODE)


def whole(rng, B, H, G, S, L, D, E):
    """All keys used, and no option."""
    return inputs(rng, B, H, G, S, L, D, E, "plain")


sdpa_prefill.bench(
    B=4, H=32, G=8, S=[1024, 4096], L=[1024, 4096], D=128, E=128, T=bf16, CAUSAL=[False, True],
    flops=lambda B, H, S, L, D, E, CAUSAL: 2 * B * H * S * L * (D + E) // (1 + CAUSAL),
    make=whole,
)  # fmt: skip
