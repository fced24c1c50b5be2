"""A copy of a tensor under any strides:  y[i, j, ...] = x[i, j, ...].

Source: the definition.
"""

import numpy as np

from iron.kernels.primitives import place_of
from iron.lang import EXACT, In, Out, bf16, dtypes, each, f16, f32, i8, i32, kernel, strided, u8
from iron.lang import u32

T = dtypes("T", f32, f16, bf16, i8, u8, i32, u32)


@kernel
def copy(x: In[T, ..., strided], y: Out[T, ...]):
    """One thread per element of y. x may be reversed, transposed, sliced with a step or broadcast.

    Both have one shape, of any rank from 0; the rank is compiled in, the extents are not.
    """
    (i,) = each(y.size)
    at = place_of(i, y)
    y[at] = x[at]


@copy.oracle
def _(x):
    return {"y": x}


@copy.case(FORM=["plain", "reversed", "transposed", "stepped", "point"], tol=EXACT)
def _(rng, T, FORM):
    x = rng.integers(5, 7, 9, low=1, high=100).astype(T.np)
    forms = {
        "plain": x, "reversed": x[::-1, :, ::-1], "transposed": x.transpose(2, 0, 1),
        "stepped": x[1:, ::2, ::3], "point": x[1, 2, 3:4].reshape(()),
    }  # fmt: skip
    return {"x": forms[FORM]}


@copy.case(FORM=["broadcast"], tol=EXACT, degenerate="a broadcast axis may be rolled")
def _(rng, T):
    return {"x": np.broadcast_to(rng.integers(4, 1, 7).astype(T.np), (4, 3, 7))}


copy.bench(
    T=[f32, f16, bf16],
    R=[4096, 16384],
    N=4096,
    make=lambda rng, R, N: {"x": rng.normal(R, N)},
)
