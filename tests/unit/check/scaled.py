"""A kernel with every kind of parameter, and ways to run it that stand in for a backend."""

import numpy as np

from iron.errors import error
from iron.lang import RED, Const, In, InOut, Out, Scalar, dims, dtypes, f16, f32, kernel, u32

R, N = dims("R N")
T = dtypes("T", f32, f16)


OVER_ROW = RED("N")


def declare(tol=OVER_ROW, sizes=(1, 4, 33), oracle=None, degenerate=""):
    """Row sums, the scaled rows, and a count of positive elements added to what was there."""

    @kernel(choose={"VEC": [4, 1]}, variants={"FLIP": [False, True]})
    def scaled(
        x: In[T, R, N],
        w: In[T, N] | None,
        y: Out[T, R, N],
        total: Out[f32, R],
        positive: InOut[u32, R],
        by: Scalar[f32],
        *,
        VEC: Const,
        FLIP: Const = False,
    ):
        pass

    scaled.oracle(oracle or truth)

    @scaled.case(R=[1, 3], N=list(sizes), tol=tol, degenerate=degenerate)
    def _(rng, R, N):
        return {
            "x": rng.normal(R, N),
            "w": rng.normal(N) if R == 3 else None,
            "positive": rng.integers(R, low=1, high=1000),
            "by": 0.3,
        }

    scaled.bench(R=64, N=64)
    return scaled


def truth(x, w, positive, by, FLIP):
    y = x * by * (1 if w is None else w) * (-1 if FLIP else 1)
    value = {"y": y, "total": x.sum(-1), "positive": positive + (x > 0).sum(-1)}
    return value, {"y": np.abs(y), "total": np.abs(x).sum(-1)}


def right(kernel, arguments):
    """A faithful backend: f32 arithmetic, one rounding at the store, requires checked."""
    x, w = arguments["x"].astype(np.float32), arguments["w"]
    if x.shape[1] % arguments["VEC"]:
        raise error("E0702", "N must be a multiple of VEC")
    y = x * np.float32(arguments["by"]) * np.float32(-1 if arguments["FLIP"] else 1)
    y = y if w is None else y * w.astype(np.float32)
    arguments["y"][...] = y.astype(arguments["y"].dtype)
    arguments["total"][...] = x.sum(-1, dtype=np.float32)
    arguments["positive"][...] += (x > 0).sum(-1).astype(np.uint32)
