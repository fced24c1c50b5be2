"""Attention of sequences that lie one after another, each over keys of its own:

o[i, h] = sum_t softmax_t(s[i, t]) * v[t, g],  s[i, t] = scale * q[i, h] . k[t, g].

Source: as `sdpa_prefill`; the offsets of packed sequences are those of Dao 2023 (arXiv:2307.08691).
"""

import numpy as np

from iron.kernels.attention_tiles import CPU, HOPPER, attend, tile_side
from iron.kernels.sdpa.prefill import attention
from iron.lang import ATTN, RED, Const, In, Out, Scalar, bf16, cdiv, dims, dtypes, f16, f32
from iron.lang import groups, i32, kernel, require, u32

H, G, D, E, N, L, P = dims("H G D E N L P")
T = dtypes("T", f32, f16, bf16)


@kernel(
    variants={"CAUSAL": [False, True]},
    schedule={"cpu": CPU, "sm_90": HOPPER},
    tune={"BM": [32, 64, 128], "BN": [32, 64, 128]},
)
def sdpa_prefill_varlen(
    q: In[T, N, H, D],
    k: In[T, L, G, D],
    v: In[T, L, G, E],
    queries: In[u32, P],
    keys: In[u32, P],
    o: Out[T, N, H, E],
    lse: Out[f32, N, H],
    scale: Scalar[f32],
    longest: Scalar[i32],
    *,
    CAUSAL: Const = False,
    BM: Const = tile_side,
    BN: Const = tile_side,
    STAGES: Const = 2,
    OVERLAP: Const = 0,
    PERSISTENT: Const = 0,
    WIDE: Const = 1,
):
    """P - 1 sequences one after another, of any lengths, 0 included.

    Sequence b has the queries `queries[b]` to `queries[b + 1] - 1` and the keys `keys[b]` to
    `keys[b + 1] - 1`, aligned at their ends with CAUSAL. `longest` is at least the most queries of
    a sequence.
    """
    i, h, b = groups(cdiv(longest, BM), H, P - 1)
    require(H % G == 0, "the query heads H must be a multiple of the key heads G")
    require(scale > 0.0, "the scale must be positive")
    g = h // (H // G)
    first, last = queries[b].to(i32), queries[b + 1].to(i32)
    low, high = keys[b].to(i32), keys[b + 1].to(i32)
    if i * BM < last - first:
        heads = (q[first:last, h], k[low:high, g], v[low:high, g], o[first:last, h])
        attend(
            i, (*heads, lse[first:last, h]), high - low - last + first,
            (None, 0 if CAUSAL else None), None, (None, None, None), (scale, None),
            (BM, BN, STAGES, T, WIDE),
        )  # fmt: skip


@sdpa_prefill_varlen.oracle
def _(q, k, v, queries, keys, scale, CAUSAL=False):
    o, root, size = np.zeros((3, *q.shape[:2], v.shape[-1]))
    lse, far, near = (np.zeros(q.shape[:2]) for _ in range(3))
    for b, h in np.ndindex(len(queries) - 1, q.shape[1]):
        g = h // (q.shape[1] // k.shape[1])
        at, of = slice(*map(int, queries[b : b + 2])), slice(*map(int, keys[b : b + 2]))
        row = np.arange(at.stop - at.start)[:, None] + (of.stop - of.start) - (at.stop - at.start)
        col = np.arange(of.stop - of.start)[None]
        keep = np.broadcast_to(col <= row if CAUSAL else True, (len(row), col.size))
        found = attention(q[at, h], k[of, g], v[of, g], keep, None, scale, 0.0)
        o[at, h], lse[at, h], root[at, h], size[at, h], far[at, h], near[at, h] = found
    return {"o": o, "lse": lse}, {"o": (root, size, far[..., None]), "lse": near}


LENGTHS = {
    "odd": ([5, 1, 37, 17], [9, 1, 33, 64]),
    "empty": ([0, 1, 0, 3], [0, 3, 0, 6]),
    "unseen": ([7, 20], [0, 3]),
}


def packed(rng, H, G, D, E, queries, keys):
    """Sequences of these lengths."""
    n, m = sum(queries), sum(keys)
    return {
        "q": rng.normal(n, H, D), "k": rng.normal(m, G, D), "v": rng.normal(m, G, E),
        "queries": np.cumsum([0, *queries]), "keys": np.cumsum([0, *keys]),
        "scale": 2 / np.sqrt(D), "longest": max(queries),
    }  # fmt: skip


@sdpa_prefill_varlen.case(
    H=[3, 6], G=[3], D=[25], E=[41], SEQUENCES=list(LENGTHS), BM=[16], BN=[32],
    tol={"o": ATTN.rounded(T), "lse": RED("L")},
)  # fmt: skip
def _(rng, H, G, D, E, SEQUENCES):
    return packed(rng, H, G, D, E, *LENGTHS[SEQUENCES])


sdpa_prefill_varlen.bench(
    B=8, H=32, G=8, S=1024, D=128, E=128, T=bf16, CAUSAL=[False, True],
    flops=lambda B, H, S, D, E, CAUSAL: 2 * B * H * S * S * (D + E) // (1 + CAUSAL),
    make=lambda rng, B, H, G, S, D, E: packed(rng, H, G, D, E, [S] * B, [S] * B),
)  # fmt: skip
