"""Stable sort of keys with payloads of any length: a plan of histogram, scan and scatter passes."""

import numpy as np

from iron.kernels.ops.scan import scan_rows
from iron.lang import (
    Const,
    In,
    Out,
    Scalar,
    add,
    atomic_add,
    barrier,
    cdiv,
    dims,
    group_scan,
    groups,
    kernel,
    plan,
    scratch,
    shared,
    strided,
    thread,
    u32,
    unrolled,
    where,
)

N, B = dims("N B")
DIGITS = 16


@kernel
def digit_counts(
    key: In[u32, N],
    counts: Out[u32, DIGITS, B],
    shift: Scalar[u32],
    *,
    THREADS: Const = 256,
    ITEMS: Const = 8,
):
    """One group per block of THREADS * ITEMS keys: how often each digit occurs."""
    (b,) = groups(B, threads=THREADS)
    hist = shared((DIGITS,), u32)
    for d in strided(DIGITS):
        hist[d] = u32(0)
    barrier()
    for j in strided(THREADS * ITEMS):
        i = b * THREADS * ITEMS + j
        if i < N:
            atomic_add(hist, (key[i] >> shift) & 15, 1)
    barrier()
    for d in strided(DIGITS):
        counts[d, b] = hist[d]


@kernel
def digit_scatter(
    key: In[u32, N],
    val: In[u32, N],
    offsets: In[u32, DIGITS, B],
    key_out: Out[u32, N],
    val_out: Out[u32, N],
    shift: Scalar[u32],
    *,
    THREADS: Const = 256,
    ITEMS: Const = 8,
):
    """Thread t owns ITEMS neighbours, so (thread, item) order is index order: the sort is stable.

    Counters of two digits share a u32, 16 bits each.
    """
    (b,) = groups(B, threads=THREADS)
    first = (b * THREADS + thread) * ITEMS
    k = [key[first + j] if first + j < N else u32(0) for j in unrolled(ITEMS)]
    digit = [(k[j] >> shift) & 15 for j in unrolled(ITEMS)]
    local = [u32(0)] * 8
    for j in unrolled(ITEMS):
        one = u32(1) if first + j < N else u32(0)
        for w in unrolled(8):
            mine = (digit[j] >> 1) == w
            local[w] = local[w] + where(mine, one << ((digit[j] & 1) * 16), u32(0))
    before = shared((THREADS, 8), u32)
    for w in unrolled(8):
        before[thread, w] = group_scan(add, 0, local[w], exclusive=True)
    for j in unrolled(ITEMS):
        if first + j < N:
            w = digit[j] >> 1
            rank = (before[thread, w] >> ((digit[j] & 1) * 16)) & 0xFFFF
            before[thread, w] = before[thread, w] + (u32(1) << ((digit[j] & 1) * 16))
            to = offsets[digit[j], b] + rank
            key_out[to] = k[j]
            val_out[to] = val[first + j]


@plan
def sort_pairs(
    key: In[u32, N],
    val: In[u32, N],
    key_out: Out[u32, N],
    val_out: Out[u32, N],
    *,
    THREADS: Const = 256,
    ITEMS: Const = 8,
):
    """Eight passes of four bits; an even count, so the result lands in the outputs."""
    blocks = cdiv(N, THREADS * ITEMS)
    counts, offsets = scratch(u32, DIGITS, blocks), scratch(u32, 1, DIGITS * blocks)
    middle = (scratch(u32, N), scratch(u32, N))
    source = (key, val)
    for p in range(8):
        target = middle if p % 2 == 0 else (key_out, val_out)
        digit_counts(source[0], counts=counts, shift=4 * p, THREADS=THREADS, ITEMS=ITEMS)
        scan_rows(x=counts.reshape(1, -1), y=offsets, EXCLUSIVE=True)
        digit_scatter(
            key=source[0], val=source[1], offsets=offsets.reshape(DIGITS, blocks),
            key_out=target[0], val_out=target[1], shift=4 * p, THREADS=THREADS, ITEMS=ITEMS,
        )  # fmt: skip
        source = target


WRONG = (
    "group_scan(add, 0, local[w], exclusive=True)",
    "group_scan(add, 0, local[w], exclusive=False)",
)


def check():
    """Against numpy's stable argsort."""
    rng = np.random.default_rng(1)
    key = rng.integers(0, 2**32, 333, dtype=np.uint32)
    key[::3] = key[0]
    val = np.arange(333, dtype=np.uint32)
    out = sort_pairs(key=key, val=val, THREADS=64, ITEMS=2)
    order = np.argsort(key, kind="stable")
    assert np.array_equal(out[0], key[order])
    assert np.array_equal(out[1], val[order])
