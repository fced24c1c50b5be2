"""Comparison of two elements:  z[i, j, ...] = 1 if a[i, j, ...] OP b[i, j, ...] else 0.

OP is eq, ne, lt, le, gt or ge; NaN is equal to nothing, not even to itself.

Source: IEEE 754-2019 (5.11), the quiet predicates.
"""

import numpy as np

from iron.kernels.ops.binary import place
from iron.kernels.primitives import place_of
from iron.lang import EXACT, Const, In, Out, bf16, dims, dtypes, each, f16, f32, inline, kernel
from iron.lang import require, strided, u8

R, N, RB, NB = dims("R N RB NB")
T = dtypes("T", f32, f16, bf16)


@inline
def holds(p, q, OP):
    """Whether p OP q."""
    if OP in ("eq", "ne"):
        return p == q if OP == "eq" else p != q
    if OP in ("lt", "le"):
        return p < q if OP == "lt" else p <= q
    return p > q if OP == "gt" else p >= q


@kernel(variants={"OP": ["eq", "ne", "lt", "le", "gt", "ge"]})
def compare(
    a: In[T, R, N], b: In[T, RB, NB], z: Out[u8, R, N], *, OP: Const, SHAPE: Const = "same"
):
    """One thread per element. b is of a's shape, a row, a column or one number."""
    i, r = each(N, R)
    require(RB == R if SHAPE in ("same", "column") else RB == 1, "b has the rows of SHAPE")
    require(NB == N if SHAPE in ("same", "row") else NB == 1, "b has the columns of SHAPE")
    z[r, i] = u8(holds(a[r, i].to(f32), b[place(r, i, SHAPE)].to(f32), OP))


@kernel
def compare_strided(
    a: In[T, ..., strided], b: In[T, ..., strided], z: Out[u8, ...], *, OP: Const = "lt"
):
    """One thread per element, of any rank and strides; a broadcast axis has stride 0."""
    (i,) = each(z.size)
    at = place_of(i, z)
    z[at] = u8(holds(a[at].to(f32), b[at].to(f32), OP))


FORMULAS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


@compare.oracle
def _(a, b, OP):
    return {"z": FORMULAS[OP](a, b)}


@compare.case(R=[3], N=[129], tol=EXACT)
def _(rng, R, N):
    b = np.round(rng.normal(R, N))
    b[:, 7] = np.nan
    return {"a": np.where(rng.uniform(R, N) < 0.5, b, np.round(rng.normal(R, N))), "b": b}


@compare.case(R=[3], N=[35], SHAPE=["row", "column", "number"], T=[f32], tol=EXACT)
def _(rng, R, N, SHAPE):
    rows, columns = R if SHAPE == "column" else 1, N if SHAPE == "row" else 1
    return {"a": np.round(rng.normal(R, N)), "b": np.round(rng.normal(rows, columns) * 0.4)}


@compare_strided.oracle
def _(a, b, OP):
    return {"z": FORMULAS[OP](a, b)}


@compare_strided.case(FORM=["outer", "point"], OP=["lt", "le"], T=[f32], tol=EXACT)
def _(rng, FORM):
    a, b = np.round(rng.normal(5, 3, 1, 4)), np.round(rng.normal(3, 7, 1))
    a, b = np.broadcast_arrays(a, b)
    return {"a": a, "b": b} if FORM == "outer" else {"a": a[0, 0, 0, 0], "b": a[0, 0, 0, 0] + 1.0}


compare.bench(R=[4096, 16384], N=4096, OP="lt")
compare_strided.bench(
    L=[64, 256], OP="lt",
    make=lambda rng, L: {"a": rng.normal(L, 512, 512), "b": rng.normal(L, 512, 512)},
)  # fmt: skip
