"""Rows of a table:  y[r, i] = scale * table[idx[r], i].

Source: the definition.
"""

import numpy as np

from iron.lang import ELT, EXACT, Const, In, Out, Scalar, bf16, dims, dtypes, f16, f32, groups
from iron.lang import i32, kernel, minimum, strided, u8, u32

R, V, D = dims("R V D")
T = dtypes("T", f32, f16, bf16, u8, i32, u32)


@kernel(tune={"THREADS": [64, 128, 256]})
def gather(
    table: In[T, V, D],
    idx: In[u32, R],
    y: Out[T, R, D],
    scale: Scalar[f32] = 1.0,
    *,
    SCALED: Const = False,
    THREADS: Const = 128,
):
    """One group per row. An index beyond the table takes its last row; 0xFFFFFFFF gives zeros.

    Rows are moved as they are; with `SCALED`, floats times `scale` in f32, rounded once.
    """
    (r,) = groups(R, threads=THREADS)
    wanted = idx[r]
    row = minimum(wanted, u32(V - 1))
    for i in strided(D):
        value = T(0) if wanted == 0xFFFFFFFF else table[row, i]
        y[r, i] = (value.to(f32) * scale).to(T) if SCALED else value


@gather.oracle
def _(table, idx, scale, SCALED=False):
    rows = table[np.minimum(idx, len(table) - 1)]
    y = np.where((idx == 0xFFFFFFFF)[:, None], table.dtype.type(0), rows)
    return {"y": y * scale if SCALED else y}


@gather.case(R=[1, 5], V=[7], D=[33, 300], tol=EXACT)
def _(rng, R, V, D):
    idx = np.array([3, 0xFFFFFFFF, 6, 0, 7], np.uint32)[:R]
    return {"table": rng.integers(V, D, low=1, high=100), "idx": idx}


@gather.case(R=[3], V=[7], D=[33], SCALED=[True], T=[f32, f16, bf16], tol=ELT)
def _(rng, R, V, D):
    return {"table": rng.normal(V, D), "idx": np.array([6, 0xFFFFFFFF, 2]), "scale": 45.25}


gather.bench(
    R=[512, 8192],
    V=32768,
    D=4096,
    T=bf16,
    bytes=lambda R, D: R * (4 + 2 * 2 * D),
    make=lambda rng, R, V, D: {"table": rng.normal(V, D), "idx": rng.integers(R, high=V)},
)
