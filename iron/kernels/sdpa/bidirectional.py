"""Attention of a sequence over itself, as encoders use it, in tiles:

o[b, h, i] = sum_j softmax_j(s[i, j]) * v[b, g, j],
s[i, j] = scale * q[b, h, i] . k[b, g, j] + table[h, clamp(j - i + zero, 0, R - 1)].

Source: as `sdpa_prefill`; biases by distance, Raffel et al. 2020 (arXiv:1910.10683, section 2.1);
bands, Beltagy et al. 2020 (arXiv:2004.05150).
"""

import numpy as np

from iron.kernels.attention_tiles import CPU, CUDA, HOPPER, attend, tile_side
from iron.lang import ATTN, RED, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, f16, f32
from iron.lang import groups, i32, kernel, minimum, require, u32

B, H, G, S, D, E, R = dims("B H G S D E R")
T = dtypes("T", f32, f16, bf16)


@kernel(
    choose={"BANDED": [False, True]},
    schedule={"cpu": CPU, "cuda": CUDA, "sm_90": HOPPER},
    tune={"BM": [32, 64, 128], "BN": [32, 64, 128], "STAGES": [1, 2]},
)
def sdpa_bidirectional(
    q: In[T, B, H, S, D],
    k: In[T, B, G, S, D],
    v: In[T, B, G, S, E],
    used: In[u32, B] | None,
    ids: In[u32, B, S] | None,
    table: In[f32, H, R] | None,
    o: Out[T, B, H, S, E],
    lse: Out[f32, B, H, S],
    scale: Scalar[f32],
    zero: Scalar[i32],
    band: Scalar[i32],
    *,
    BANDED: Const = True,
    BM: Const = tile_side,
    BN: Const = tile_side,
    STAGES: Const = 2,
    OVERLAP: Const = 0,
    PINGPONG: Const = 0,
    PERSISTENT: Const = 0,
    WIDE: Const = 1,
):
    """One group per BM queries of one head; lse = log of the sum of exp(s).

    Query i sees key j when j < used[b], when `ids` has one number for both (the segments of a
    sequence may be interleaved), and, unless `band` is negative, when |i - j| <= band. A query that
    sees nothing gives zeros and lse -inf. Keys and values from used[b] on are never read. Sums are
    f32; the weights are rounded to T before they meet v.
    """
    i, h, b = groups(cdiv(S, BM), H, B)
    require(H % G == 0, "the query heads H must be a multiple of the key heads G")
    require(scale > 0.0, "the scale must be positive")
    require(BANDED or band < 0, "a form without a band is for a negative band")
    require(not BANDED or band >= 0, "a form with a band is for one of 0 or more")
    g, n = h // (H // G), minimum(used[b].to(i32), S) if used is not None else S
    extra = (
        None,
        ids[b] if ids is not None else None,
        (table[h], zero) if table is not None else None,
    )
    attend(
        i, (q[b, h], k[b, g, :n], v[b, g, :n], o[b, h], lse[b, h]), 0,
        (band + 1, band) if BANDED else (None, None), None, extra, (scale, None),
        (BM, BN, STAGES, T, WIDE),
    )  # fmt: skip


@sdpa_bidirectional.oracle
def _(q, k, v, used, ids, table, scale, zero, band):
    S, (o, root, size) = q.shape[2], np.zeros((3, *q.shape[:3], v.shape[-1]))
    lse, far, near = (np.zeros(q.shape[:3]) for _ in range(3))
    apart = np.arange(S)[None] - np.arange(S)[:, None]
    for b, h in np.ndindex(q.shape[:2]):
        g, n = h // (q.shape[1] // k.shape[1]), S if used is None else min(int(used[b]), S)
        keep = np.broadcast_to(np.abs(apart) <= band if band >= 0 else True, (S, S))
        keep = keep & (ids[b][:, None] == ids[b][None]) if ids is not None else keep
        keep, there, key = keep[:, :n], np.ix_([b], [g], range(n)), k[b, g, :n]
        s, terms = scale * (q[b, h] @ key.T), scale * (np.abs(q[b, h]) @ np.abs(key).T)
        if table is not None:
            bias = table[h, np.clip(apart + zero, 0, table.shape[1] - 1)][:, :n]
            s, terms = s + bias, terms + np.abs(bias)
        s = np.where(keep, s, -np.inf)
        top = s.max(-1, initial=-np.inf, keepdims=True)
        w = np.exp(s - np.where(top == -np.inf, 0, top))
        total = w.sum(-1, keepdims=True)
        p, val = w / np.where(total == 0, 1, total), v[there][0, 0]
        with np.errstate(divide="ignore"):
            lse[b, h] = (np.where(top == -np.inf, 0, top) + np.log(total))[:, 0]
        o[b, h], root[b, h], size[b, h] = p @ val, np.sqrt(p**2 @ val**2), p @ np.abs(val)
        far[b, h] = np.where(keep, np.abs(np.where(keep, s, 0)), 0).max(-1, initial=0)
        near[b, h] = 1 + np.abs(np.where(total > 0, lse[b, h, :, None], 0))[:, 0]
        near[b, h] += terms.max(-1, initial=0)
    return {"o": o, "lse": lse}, {"o": (root, size, far[..., None]), "lse": near}


def inputs(rng, B, H, G, S, D, E, MODE):
    """Queries, keys and values; what `used` leaves out is poisoned."""
    key, value = rng.normal(B, G, S, D), rng.normal(B, G, S, E) + rng.normal(B, G, 1, E)
    used = np.array([max(0, S - 2), 0, 1] if MODE == "used" else [S] * B)[:B]
    for b in range(B):
        key[b, :, used[b] :] = value[b, :, used[b] :] = np.nan
    ids = np.sort(rng.integers(B, S, high=4), axis=1) if MODE == "ids" else None
    if ids is not None:
        ids[:, S // 2], ids[:, -1] = 9, 0  # a segment of one, and one in two parts
    table = rng.normal(H, 2 * S - 1 if MODE == "table" else 9) * 2
    return {
        "q": rng.normal(B, H, S, D), "k": key, "v": value,
        "used": used if MODE == "used" else None, "ids": ids,
        "table": table if MODE in ("table", "clamped") else None,
        "scale": 2 / np.sqrt(D), "zero": {"table": S - 1, "clamped": 3}.get(MODE, 0),
        "band": {"band": 17, "alone": 0}.get(MODE, -1),
    }  # fmt: skip


MODES = ["plain", "used", "ids", "table", "clamped", "band", "alone"]


@sdpa_bidirectional.case(
    B=[3], H=[4], G=[2], S=[66], D=[24], E=[40], MODE=MODES, BM=[16], BN=[32], T=[f32],
    tol={"o": ATTN, "lse": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    return inputs(rng, B, H, G, S, D, E, MODE)


@sdpa_bidirectional.case(
    B=[2], H=[3], G=[3], S=[1, 37, 102], D=[80], E=[72], MODE=["plain", "band"], BM=[32], BN=[16],
    STAGES=[1], T=[f32], tol={"o": ATTN, "lse": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    return inputs(rng, B, H, G, S, D, E, MODE)


@sdpa_bidirectional.case(
    B=[1], H=[2], G=[2], S=[131], D=[64], E=[64], MODE=["table"],
    T=[f16, bf16], tol={"o": ATTN.rounded(T), "lse": RED("S")},
)  # fmt: skip
def _(rng, B, H, G, S, D, E, MODE):
    return inputs(rng, B, H, G, S, D, E, MODE)


sdpa_bidirectional.bench(
    B=16, H=16, G=16, S=[729, 4096], D=72, E=72, T=bf16,
    flops=lambda B, H, S, D, E: 2 * B * H * S * S * (D + E),
    make=lambda rng, B, H, G, S, D, E: inputs(rng, B, H, G, S, D, E, "plain"),
)  # fmt: skip
sdpa_bidirectional.bench(
    B=16, H=20, G=20, S=1500, D=64, E=64, T=bf16,
    flops=lambda B, H, S, D, E: 2 * B * H * S * S * (D + E),
    make=lambda rng, B, H, G, S, D, E: inputs(rng, B, H, G, S, D, E, "plain"),
)  # fmt: skip
