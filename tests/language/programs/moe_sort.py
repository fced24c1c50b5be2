"""Rows grouped by expert: a stable counting sort in one group, with a plan of tiles."""

import numpy as np

from iron.lang import (
    Const,
    In,
    Out,
    add,
    cdiv,
    dims,
    group_scan,
    group_sum,
    groups,
    i32,
    kernel,
    minimum,
    partial,
    thread,
    u32,
    unrolled,
)

R, E1, P = dims("R E1 P")


@kernel
def moe_sort(
    idx: In[u32, R],
    offsets: Out[u32, E1],
    perm: Out[u32, R],
    inverse: Out[u32, R],
    tiles: Out[u32, P, 3, partial],
    count: Out[u32, 1],
    *,
    EXPERTS: Const,
    BM: Const = 64,
    THREADS: Const = 256,
):
    """Expert e belongs to thread e % THREADS: no atomics, and the order of rows is kept.

    `tiles` has capacity for every case; `count` of its rows (expert, first, end) are written.
    """
    groups(1, threads=THREADS)
    SLOTS = cdiv(EXPERTS, THREADS)
    counts = [u32(0)] * SLOTS
    for i in range(R):
        for s in unrolled(SLOTS):
            counts[s] = counts[s] + u32(idx[i].to(i32) == thread + s * THREADS)
    base, first_tile = u32(0), u32(0)
    for s in unrolled(SLOTS):
        start = base + group_scan(add, 0, counts[s], exclusive=True)
        needed = (counts[s] + (BM - 1)) // BM
        tile = first_tile + group_scan(add, 0, needed, exclusive=True)
        base += group_sum(counts[s])
        first_tile += group_sum(needed)
        e = thread + s * THREADS
        if e < EXPERTS:
            offsets[e] = start
            at = start
            for i in range(R):
                if idx[i].to(i32) == e:
                    perm[at] = u32(i)
                    inverse[i] = at
                    at += 1
            for j in range(needed):
                tiles[tile + j, 0] = u32(e)
                tiles[tile + j, 1] = start + j * BM
                tiles[tile + j, 2] = minimum(start + (j + 1) * BM, start + counts[s])
    if thread == 0:
        offsets[EXPERTS] = base
        count[0] = first_tile


WRONG = ("(j + 1) * BM", "(j + 2) * BM")


def check():
    """Against a stable argsort, an expert without rows included."""
    rng = np.random.default_rng(6)
    experts, rows, bm = 5, 74, 16
    idx = rng.integers(0, experts, rows).astype(np.uint32)
    idx[idx == 3] = 1
    spare = cdiv(rows, bm) + experts
    out = {
        "offsets": np.zeros(experts + 1, np.uint32),
        "tiles": np.zeros((spare, 3), np.uint32),
    }
    offsets, perm, inverse, tiles, count = moe_sort(
        idx=idx, **out, EXPERTS=experts, BM=bm, THREADS=64
    )
    assert np.array_equal(perm, np.argsort(idx, kind="stable"))
    assert np.array_equal(inverse[perm], np.arange(rows))
    ends = np.cumsum(np.bincount(idx, minlength=experts))
    assert np.array_equal(offsets, [0, *ends])
    want = [
        (e, lo, min(lo + bm, ends[e]))
        for e in range(experts)
        for lo in range(offsets[e], ends[e], bm)
    ]
    assert np.array_equal(tiles[: count[0]], want)
