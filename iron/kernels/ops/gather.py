"""Rows of a table:  y[r, i] = table[idx[r], i].

Source: the definition.
"""

import numpy as np

from iron.lang import EXACT, Const, In, Out, bf16, dims, dtypes, f16, f32, groups, i32, kernel
from iron.lang import minimum, strided, u8, u32

R, V, D = dims("R V D")
T = dtypes("T", f32, f16, bf16, u8, i32, u32)


@kernel(tune={"THREADS": [64, 128, 256]})
def gather(
    table: In[T, V, D],
    idx: In[u32, R],
    y: Out[T, R, D],
    *,
    THREADS: Const = 128,
):
    """One group per row. An index beyond the table takes its last row; 0xFFFFFFFF gives zeros."""
    (r,) = groups(R, threads=THREADS)
    wanted = idx[r]
    row = minimum(wanted, u32(V - 1))
    for i in strided(D):
        y[r, i] = T(0) if wanted == 0xFFFFFFFF else table[row, i]


@gather.oracle
def _(table, idx):
    rows = table[np.minimum(idx, len(table) - 1)]
    return {"y": np.where((idx == 0xFFFFFFFF)[:, None], table.dtype.type(0), rows)}


@gather.case(R=[1, 5], V=[7], D=[33, 300], tol=EXACT)
def _(rng, R, V, D):
    idx = np.array([3, 0xFFFFFFFF, 6, 0, 7], np.uint32)[:R]
    return {"table": rng.integers(V, D, low=1, high=100), "idx": idx}


gather.bench(
    R=[512, 8192],
    V=32768,
    D=4096,
    T=bf16,
    bytes=lambda R, D: R * (4 + 2 * 2 * D),
    make=lambda rng, R, V, D: {"table": rng.normal(V, D), "idx": rng.integers(R, high=V)},
)
