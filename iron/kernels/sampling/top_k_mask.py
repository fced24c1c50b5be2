"""The k greatest logits of each row, the others -inf:  y[r, i] = x[r, i] if x[r, i] >= t[r].

t[r] is the k-th greatest element of the row, so all elements equal to it are kept.

Source: radix select (Alabi et al., "Fast k-Selection Algorithms for Graphics Processing Units",
2012, section 3), eight bits a pass on keys that order as the floats do.
"""

import numpy as np

from iron.lang import EXACT, In, Out, add, atomic_add, barrier, bf16, bitcast, dims, dtypes, f16
from iron.lang import f32, group_max, group_scan, group_sum, groups, inf, inline, kernel, minimum
from iron.lang import require, shared, strided, thread, u32, unrolled, where

R, N = dims("R N")
T = dtypes("T", f32, f16, bf16)
THREADS = 256


@inline
def number(x):
    """x with -inf in place of NaN and one zero."""
    return where(x == 0.0, 0.0, where(x == x, x, -inf))


@inline
def key_of(x):
    """A u32 that orders as the float x does, NaN below all."""
    raw = bitcast(number(x), u32)
    return where((raw >> 31) == 1, ~raw, raw | 0x80000000)


@kernel
def top_k_mask(x: In[T, R, N], count: In[u32, R], y: Out[T, R, N]):
    """One group per row, read five times; count[r] is the row's k, and 0 keeps all.

    NaN counts as -inf and becomes it. One thread for each of the 256 buckets of a pass.
    """
    (row,) = groups(R, threads=THREADS)
    require(N >= 1, "a row of no logits has no greatest")
    held = shared((THREADS,), u32)
    wanted = count[row]
    rest, prefix = minimum(wanted, u32(N)), u32(0)
    for turn in unrolled(4):
        shift = 24 - 8 * turn
        held[thread] = u32(0)
        barrier()
        for i in strided(N):
            key = key_of(x[row, i].to(f32))
            alike = True if turn == 0 else (key >> (shift + 8)) == prefix
            if alike:
                atomic_add(held, (key >> shift) & 255, 1)
        barrier()
        bucket = 255 - thread
        own = held[bucket]
        upto = group_scan(add, 0, own)
        here = (upto >= rest) & (upto - own < rest)
        rest = rest - group_sum(where(here, upto - own, u32(0)))
        prefix = (prefix << 8) | u32(group_max(where(here, bucket, 0)))
        barrier()
    for i in strided(N):
        v = x[row, i].to(f32)
        kept = (key_of(v) >= prefix) | (wanted == 0)
        y[row, i] = where(kept & (v == v), v, -inf).to(T)


@top_k_mask.oracle
def _(x, count):
    whole = np.where(np.isnan(x), -np.inf, x)
    at = np.clip(count.astype(np.int64), 1, x.shape[1])[:, None] - 1
    least = np.take_along_axis(-np.sort(-whole, axis=1), at, 1)
    return {"y": np.where((whole >= least) | (count == 0)[:, None], whole, -np.inf)}


@top_k_mask.case(R=[5], N=[33, 1000], tol=EXACT)
def _(rng, R, N):
    return {"x": rng.normal(R, N) * 3, "count": np.array([1, 7, 0, N, 2**32 - 1])[:R]}


@top_k_mask.case(R=[3], N=[65], TOP=[1, 9, 30], tol=EXACT)
def _(rng, R, N, TOP):
    x = rng.integers(R, N, low=-4, high=5) * 0.25  # many are equal, and both zeros occur
    x[:, ::7] = -np.inf
    x[:, 3] = np.nan
    x[1, 5] = np.inf
    return {"x": np.where(rng.uniform(R, N) < 0.5, x, -x), "count": np.full(R, TOP)}


@top_k_mask.case(R=[3], N=[65], T=[f32], tol=EXACT)
def _(rng, R, N):
    near = np.stack([rng.permutation(N) for _ in range(R)])  # only the last bits differ
    return {"x": 1 + near * 2.0 ** np.array([-22, -17, -14])[:R, None], "count": np.full(R, 30)}


top_k_mask.bench(
    R=8,
    N=151936,
    make=lambda rng, R, N: {"x": rng.normal(R, N) * 3, "count": np.full(R, 50)},
    reference="torch:topk",
)
