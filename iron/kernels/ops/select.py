"""A choice of two elements:  y[i] = a[i] if c[i] is not 0 else b[i].

Source: the definition.
"""

import numpy as np

from iron.lang import EXACT, In, Out, bf16, dims, dtypes, each, f16, f32, i32, kernel, u8, u32
from iron.lang import where

(N,) = dims("N")
T = dtypes("T", f32, f16, bf16, i32, u32)


@kernel
def select(c: In[u8, N], a: In[T, N], b: In[T, N], y: Out[T, N]):
    """One thread per element. Both are read, so that memory moves in order; one is written."""
    (i,) = each(N)
    y[i] = where(c[i] != 0, a[i], b[i])


@select.oracle
def _(c, a, b):
    return {"y": np.where(c != 0, a, b)}


@select.case(N=[33, 1000], tol=EXACT)
def _(rng, N):
    a, b = rng.integers(N, low=-100, high=100), rng.integers(N, low=-100, high=100)
    return {"c": rng.integers(N, high=3), "a": a, "b": b}


select.bench(N=[1 << 20, 1 << 26])
