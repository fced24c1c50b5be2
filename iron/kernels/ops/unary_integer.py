"""One function of each integer:  y[i] = OP(x[i]).

abs and neg wrap at the least value; sign is -1, 0 or 1; bit_not turns every bit over.

Source: two's complement arithmetic.
"""

import numpy as np

from iron.lang import EXACT, Const, In, Out, absolute, dims, dtypes, each, i32, kernel, u32

(N,) = dims("N")
T = dtypes("T", i32, u32)


@kernel(variants={"OP": ["abs", "neg", "sign", "bit_not"]})
def unary_integer(x: In[T, N], y: Out[T, N], *, OP: Const):
    """One thread per element. sign of an unsigned number is 0 or 1."""
    (i,) = each(N)
    if OP == "bit_not":
        y[i] = ~x[i]
    elif OP == "neg":
        y[i] = -x[i]
    elif OP == "abs":
        y[i] = absolute(x[i])
    else:
        y[i] = T(x[i] > T(0)) - (T(x[i] < T(0)))


@unary_integer.oracle
def _(x, OP):
    with np.errstate(all="ignore"):
        return {
            "y": {"abs": np.abs, "neg": np.negative, "bit_not": np.invert, "sign": np.sign}[OP](x)
        }


@unary_integer.case(N=[33, 300], tol=EXACT)
def _(rng, N, T):
    x = rng.integers(N, low=0 if T is u32 else -50, high=50)
    x[0] = T.min
    return {"x": x}


unary_integer.bench(N=[1 << 24, 1 << 26], T=i32, OP="bit_not")
