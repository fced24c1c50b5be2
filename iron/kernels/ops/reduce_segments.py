"""Reduction of consecutive segments:  y[s] = OP_i x[i],  start[s] <= i < start[s + 1].

OP is sum, mean, prod, max, min, sumsq (of squares), any or all (elements that are not 0).

Source: the definitions, as in `ops.reduce`.
"""

import numpy as np

from iron.kernels.ops.reduce import OPS, formula, joined, lifted, over_group, unit
from iron.lang import EXACT, RED, Const, In, Out, bf16, dims, dtypes, f16, f32, groups, i32, kernel
from iron.lang import maximum, minimum, require, strided, thread, u32

N, S = dims("N S")
T = dtypes("T", f32, f16, bf16)


@kernel(variants={"OP": OPS}, tune={"THREADS": [32, 64, 128]})
def reduce_segments(
    x: In[T, N], start: In[u32, S], y: Out[T, S - 1], *, OP: Const = "sum", THREADS: Const = 64
):
    """One group per segment; partial results are f32, rounded once.

    A start beyond the end of x counts as the end; a segment that ends before it begins is empty,
    with the result that `reduce` gives for no elements.
    """
    (s,) = groups(S - 1, threads=THREADS)
    require(S >= 1, "S starts bound S - 1 segments")
    low = i32(minimum(start[s], u32(N)))
    count = maximum(i32(minimum(start[s + 1], u32(N))) - low, 0)
    acc = unit(OP)
    for i in strided(count):
        acc = joined(acc, lifted(x[low + i].to(f32), OP), OP)
    acc = over_group(acc, OP)
    if thread == 0:
        y[s] = (acc / count.to(f32) if OP == "mean" else acc).to(T)


@reduce_segments.oracle
def _(x, start, OP):
    ends = np.minimum(start.astype(np.int64), len(x))
    pairs = zip(ends, np.maximum(ends[1:], ends[:-1]), strict=False)
    found = [formula(x[a:b], OP, 0) for a, b in pairs]
    return {"y": [y for y, _ in found]}, {"y": [size for _, size in found]}


STARTS = [3, 3, 36, 37, 170, 300, 2**32 - 1]  # none, few, one, many, and one that is cut


@reduce_segments.case(N=[331], S=[6, 7], OP=OPS[:6], tol=RED("N"))
def _(rng, N, S, OP):
    x = rng.normal(N)
    starts = np.array(STARTS[:S])
    starts[0] = 0 if OP == "mean" else 3  # the mean of nothing is NaN
    return {"x": 1 + x * 0.05 if OP == "prod" else x, "start": starts}


@reduce_segments.case(N=[331], S=[7], OP=["any", "all"], tol=EXACT)
def _(rng, N, S, OP):
    x = np.zeros(N)
    x[[36, 180, 330]] = 1.0
    return {"x": x if OP == "any" else 1 - x, "start": np.array(STARTS)}


reduce_segments.bench(
    S=[4097], OP="sum", flops=lambda S: S << 10,
    make=lambda rng, S: {"x": rng.normal(S << 10), "start": np.arange(S, dtype=np.uint32) << 10},
)  # fmt: skip
