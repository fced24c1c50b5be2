"""Conversion of element types:  y[i] = x[i] in y's type.

Floats round to nearest even and overflow to infinity; a float becomes an integer towards zero,
saturated, and NaN becomes 0; an integer becomes a narrower one by its low bits.

Source: IEEE 754-2019 (5.4); the integer rules are those of the language.
"""

import numpy as np

from iron.lang import EXACT, In, Out, bf16, dims, dtypes, each, f16, f32, i8, i32, kernel, u8, u32

(N,) = dims("N")
T = dtypes("T", f32, f16, bf16, i8, u8, i32, u32)
TO = dtypes("TO", f32, f16, bf16, i8, u8, i32, u32)


@kernel
def cast(x: In[T, N], y: Out[TO, N]):
    """One thread per element. `y` gives the type."""
    (i,) = each(N)
    y[i] = x[i].to(TO)


def saturated(x, low, high):
    """The integer nearest to x towards zero inside low .. high; NaN gives 0."""
    whole = np.trunc(np.where(np.isnan(x), 0, x))
    return np.clip(whole, low, high)


@cast.oracle
def _(x, TO):
    if TO.is_float:
        return {"y": x.astype(np.float32)}
    return {"y": saturated(x, TO.min, TO.max) if x.dtype.kind == "f" else x.astype(TO.np)}


@cast.case(N=[33, 1000], tol=EXACT)
def _(rng, N, T):
    low, high = (max(T.min, -1000), min(T.max, 1000)) if T.is_integer else (0, 1)
    return {"x": rng.integers(N, low=low, high=high) if T.is_integer else rng.normal(N) * 300}


cast.bench(N=[1 << 20, 1 << 26], T=f32, TO=[f16, bf16], make=lambda rng, N: {"x": rng.normal(N)})
cast.bench(N=1 << 26, T=[f16, bf16], TO=f32, make=lambda rng, N: {"x": rng.normal(N)})
