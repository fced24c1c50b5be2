"""Keeps the k greatest elements of each row: radix passes, atomics, ranks of ties by a scan."""

import numpy as np

from iron.lang import (
    Const,
    In,
    Out,
    add,
    atomic_add,
    barrier,
    bitcast,
    dims,
    dtypes,
    f16,
    f32,
    group_scan,
    group_sum,
    groups,
    inf,
    inline,
    kernel,
    require,
    shared,
    strided,
    thread,
    u32,
    unrolled,
    where,
)

R, N = dims("R N")
T = dtypes("T", f32, f16)


@inline(exact=True)
def ordered(x):
    """f32 to u32, order kept; -0 becomes +0, NaN the least."""
    bits = bitcast(where(x == x, x + f32(0), f32(0)), u32)
    key = where((bits >> 31) == 1, ~bits, bits | u32(1 << 31))
    return where(x == x, key, u32(0))


@kernel
def topk_mask(
    x: In[T, R, N],
    y: Out[T, R, N],
    k: In[u32, R],
    *,
    THREADS: Const = 1024,
    COPIES: Const = 4,
):
    """One group per row; among equal elements the lower index is kept."""
    (row,) = groups(R, threads=THREADS)
    require(THREADS >= 256, "each of 256 threads scans one bin")
    hist = shared((COPIES, 256), u32)
    found = shared((2,), u32)
    want = k[row]
    prefix, mask = u32(0), u32(0)
    for p in unrolled(4):
        shift = 24 - 8 * p
        for i in strided(COPIES * 256):
            hist[i // 256, i % 256] = u32(0)
        barrier()
        for i in strided(N):
            key = ordered(x[row, i].to(f32))
            if (key & mask) == prefix:
                atomic_add(hist, (thread % COPIES, (key >> shift) & 255), 1)
        barrier()
        count = u32(0)
        bin_ = 255 - thread
        if thread < 256:
            for c in unrolled(COPIES):
                count += hist[c, bin_]
        above = group_scan(add, 0, count, exclusive=True)
        if (above < want) & (above + count >= want):
            found[0] = u32(bin_)
            found[1] = want - above
        barrier()
        prefix, mask, want = prefix | (found[0] << shift), mask | u32(255 << shift), found[1]
        barrier()
    taken = u32(0)
    for base in range(0, N, THREADS):
        i = base + thread
        v = x[row, i] if i < N else T(-inf)
        key = ordered(v.to(f32)) if i < N else u32(0)
        same = u32(1) if (key == prefix) & (i < N) else u32(0)
        before = taken + group_scan(add, 0, same, exclusive=True)
        keep = (key > prefix) | ((same == 1) & (before < want))
        if i < N:
            y[row, i] = v if keep else T(-inf)
        taken += group_sum(same)


WRONG = ("before < want", "before <= want")


def check():
    """Against a stable sort, with many ties across the boundary."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(2, 700)) * 4).astype(np.float32) / 4
    k = np.array([5, 300], np.uint32)
    y = topk_mask(x=x, k=k, y=np.full_like(x, np.nan), THREADS=256)
    for row in range(2):
        kept = np.argsort(-x[row], kind="stable")[: k[row]]
        want = np.full(700, -np.inf, np.float32)
        want[kept] = x[row, kept]
        assert np.array_equal(y[row], want)
