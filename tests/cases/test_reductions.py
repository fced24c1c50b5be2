"""Reported failures of reductions: NaN in argmax, accumulators that stall in 16 bits."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from iron.kernels.ops.arg_reduce import arg_reduce
from iron.kernels.ops.reduce import reduce
from tests.cases.conftest import blank

NAN, INF = np.nan, np.inf
LONG = [0.0] * 4321 + [NAN] + [1.0] * 678
ROWS = [
    ([3, NAN, 1, 5], 1),
    ([NAN, 1, 2], 0),
    ([1, 2, NAN], 2),
    ([INF, NAN, -INF], 1),
    ([-1, -2, NAN], 2),
    (LONG, 4321),
]


@pytest.mark.parametrize(("row", "at"), ROWS, ids=lambda v: str(v)[:20])
@pytest.mark.parametrize("op", ["max", "min"])
def test_the_first_nan_wins(row: list[float], at: int, op: str):
    """mlx 4274, pytorch 130295."""
    x = np.array([row], np.float32)
    assert arg_reduce(x=x, y=blank(1, np.uint32), OP=op)[0] == at
    assert np.isnan(reduce(x=x, y=blank(1), OP=op)[0])


@pytest.mark.parametrize(
    ("row", "greatest", "least"),
    [([2, 5, 5, 1], 1, 3), ([7], 0, 0), ([-INF] * 40, 0, 0), ([INF, INF], 0, 0), ([0, -0.0], 0, 0)],
)
def test_the_lower_index_wins_a_tie(row: list[float], greatest: int, least: int):
    x = np.array([row], np.float32)
    assert arg_reduce(x=x, y=blank(1, np.uint32), OP="max")[0] == greatest
    assert arg_reduce(x=x, y=blank(1, np.uint32), OP="min")[0] == least


BF16 = ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("count", "dtype", "op", "want"),
    [
        (20000, np.float16, "sum", 20000),
        (20000, BF16, "sum", 19968),
        (70000, BF16, "sum", 70144),
        (70000, np.float16, "sum", INF),
        (70000, BF16, "mean", 1.0),
    ],
)
@pytest.mark.parametrize("threads", [32, 128])
def test_sums_of_ones_in_16_bits(count: int, dtype: Any, op: str, want: float, threads: int):
    """mlx 3909: a 16-bit accumulator stalls at 2048 or 256."""
    x = np.ones((1, count), dtype)
    y = reduce(x=x, y=np.full(1, NAN, dtype), OP=op, THREADS=threads)
    assert float(y[0]) == want
