"""Running sum of each row:  y[r, i] = x[r, 0] + ... + x[r, i]; without x[r, i] when exclusive.

Source: Blelloch, "Prefix Sums and Their Applications", 1990; long rows in three launches (block
sums, their scan, a scan of each block from its carry), since groups never wait for each other.
"""

import numpy as np

from iron.lang import EXACT, RED, Const, In, Out, add, bf16, cdiv, dims, dtypes, f16, f32
from iron.lang import group_scan, group_sum, groups, kernel, minimum, plan, scratch, thread, u32
from iron.lang import unrolled

R, N, B = dims("R N B")
T = dtypes("T", f32, f16, bf16, u32)
A = dtypes("A", f32, u32)


@kernel(variants={"EXCLUSIVE": [False, True]}, tune={"THREADS": [64, 128, 256], "ITEMS": [1, 4]})
def scan_rows(
    x: In[T, R, N],
    carry: In[A, R, B] | None,
    y: Out[T, R, N],
    *,
    EXCLUSIVE: Const = False,
    BLOCK: Const = 0,
    ITEMS: Const = 1,
    THREADS: Const = 256,
):
    """One group per BLOCK elements of a row (0: the whole row), which starts from carry[r, b].

    Each thread adds ITEMS neighbours. Sums are f32, or u32 for u32.
    """
    span = BLOCK if BLOCK else N
    block, row = groups(cdiv(N, span), R, threads=THREADS)
    S = u32 if T is u32 else f32
    total = S(0)
    if carry is not None:
        total = carry[row, block].to(S)
    low = block * span
    high = minimum(low + span, N)
    for base in range(low, high, THREADS * ITEMS):
        first = base + thread * ITEMS
        own = [x[row, first + j].to(S) if first + j < high else S(0) for j in unrolled(ITEMS)]
        mine = S(0)
        for j in unrolled(ITEMS):
            mine += own[j]
        run = total + group_scan(add, 0, mine, exclusive=True)
        for j in unrolled(ITEMS):
            before = run
            run += own[j]
            if first + j < high:
                y[row, first + j] = (before if EXCLUSIVE else run).to(T)
        total += group_sum(mine)


@kernel(tune={"THREADS": [64, 128, 256]})
def block_sums(x: In[T, R, N], y: Out[A, R, B], *, BLOCK: Const, THREADS: Const = 256):
    """The sum of every BLOCK elements of a row, one group each."""
    block, row = groups(B, R, threads=THREADS)
    S = u32 if T is u32 else f32
    acc = S(0)
    for i in range(block * BLOCK + thread, minimum((block + 1) * BLOCK, N), THREADS):
        acc += x[row, i].to(S)
    total = group_sum(acc)
    if thread == 0:
        y[row, block] = total.to(A)


@plan(variants={"EXCLUSIVE": [False, True]})
def scan(x: In[T, R, N], y: Out[T, R, N], *, EXCLUSIVE: Const = False, BLOCK: Const = 4096):
    """A running sum of rows of any length; rows beyond BLOCK take three launches."""
    if N <= BLOCK:
        scan_rows(x, None, y, EXCLUSIVE=EXCLUSIVE)
    else:
        S = u32 if T is u32 else f32
        sums = scratch(S, R, cdiv(N, BLOCK))
        before = scratch(S, R, cdiv(N, BLOCK))
        block_sums(x, sums, BLOCK=BLOCK)
        scan_rows(sums, None, before, EXCLUSIVE=True)
        scan_rows(x, before, y, EXCLUSIVE=EXCLUSIVE, BLOCK=BLOCK)


def running(x, EXCLUSIVE):
    """The running sums of the rows and of their magnitudes, in f64 or wrapping u32."""
    wide = x if x.dtype.kind == "u" else x.astype(np.float64)
    total = np.cumsum(wide, 1, dtype=wide.dtype)
    y = total - wide if EXCLUSIVE else total
    return y, np.cumsum(np.abs(wide.astype(np.float64)), 1)


@scan_rows.oracle
def _(x, carry, EXCLUSIVE):
    y, size = running(x, EXCLUSIVE)
    return {"y": y}, {"y": size}


def steps(rng, R, N, T):
    """Steps that alternate in sign where T has one, so that neighbouring sums differ much."""
    x = rng.integers(R, N, low=5, high=10)
    return x if T is u32 else x * (-1) ** np.arange(N)


@scan_rows.case(R=[1, 3], N=[65, 1001], A=[f32], ITEMS=[1, 4], tol=RED("N"))
def _(rng, R, N, T):
    return {"x": steps(rng, R, N, T), "carry": None}


@block_sums.oracle
def _(x, BLOCK):
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % BLOCK)))
    parts = padded.reshape(len(x), -1, BLOCK)
    y = parts.sum(-1) % 2**32 if x.dtype.kind == "u" else parts.sum(-1)
    return {"y": y}, {"y": np.abs(parts).sum(-1)}


@block_sums.case(R=[3], N=[1001], B=[11], BLOCK=[97], A=[f32], T=[f32, f16, bf16], tol=RED("N"))
def _(rng, R, N):
    return {"x": rng.normal(R, N)}


@block_sums.case(R=[2], N=[9001], B=[3], BLOCK=[4096], A=[f32], T=[f32], tol=RED("N"))
def _(rng, R, N):
    return {"x": rng.normal(R, N)}


@block_sums.case(R=[3], N=[1001], B=[11], BLOCK=[97], A=[u32], T=[u32], tol=EXACT)
def _(rng, R, N):
    return {"x": rng.integers(R, N, high=1 << 31)}


@scan.oracle
def _(x, EXCLUSIVE):
    y, size = running(x, EXCLUSIVE)
    return {"y": y}, {"y": size}


@scan.case(R=[1, 3], N=[65, 1001], BLOCK=[300], tol=RED("N"))
def _(rng, R, N, T):
    return {"x": steps(rng, R, N, T)}


scan_rows.bench(
    R=[4096, 16384],
    N=4096,
    T=[f32, bf16],
    A=f32,
    flops=lambda R, N: R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N), "carry": None},
)
block_sums.bench(R=64, N=1 << 20, B=256, BLOCK=4096, T=f32, A=f32)
scan.bench(
    R=1,
    N=[1 << 20, 1 << 26],
    T=f32,
    flops=lambda R, N: R * N,
    make=lambda rng, R, N: {"x": rng.normal(R, N)},
)
