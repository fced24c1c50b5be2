"""What the cases of `gemm` and its kin do not reach: values that are not finite, sums that cancel,
and matrices of nothing."""

from typing import Any

import numpy as np
import pytest

import iron
from iron.check.tolerance import bound, compare
from iron.dtypes import DTYPES
from iron.kernels.gemm.gemm import gemm
from iron.kernels.gemm.gemm_splitk import gemm_splitk
from iron.lang import DOT


def product(a: Any, b: Any, **consts: Any) -> Any:
    """The kernel's c, whose elements were NaN before."""
    c = np.full((a.shape[0], b.shape[1]), np.nan).astype(a.dtype)
    gemm(a=a, b=b, bias=None, residual=None, c=c, alpha=None, beta=None, **consts)
    return c


@pytest.mark.parametrize("road", ["interp", "cpu"])
@pytest.mark.parametrize("deep", [40, 700])
def test_a_sum_that_is_not_finite_stays_so(road: str, deep: int):
    """An infinite sum loses nothing that could be added to it later."""
    rng = np.random.default_rng(1)
    a, b = rng.random((6, deep), np.float32), rng.random((deep, 5), np.float32)
    a[1, 3], a[2, 3], a[3, 7], b[3], b[7] = np.inf, -np.inf, 3e38, 1, 2
    a[4, 9], a[5, 3], a[5, 20] = np.nan, np.inf, -np.inf
    with iron.use(road):
        c = product(a, b)
    assert np.isfinite(c[0]).all()
    assert (c[[1, 3]] == np.inf).all()
    assert (c[2] == -np.inf).all()
    assert np.isnan(c[4:]).all()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_halves_that_cancel_on_a_cpu(dtype: str):
    """Nothing is left of a long sum but its errors: one chain of them is too long."""
    rng, deep = np.random.default_rng(2), 8192
    a, b = (np.abs(rng.normal(size=s)).astype(DTYPES[dtype].np) for s in ((9, deep), (deep, 70)))
    a[:, deep // 2 :], b[deep // 2 :] = a[:, : deep // 2], -b[: deep // 2]
    with iron.use("cpu"):
        c = product(a, b)
    x, y = a.astype(float), b.astype(float)
    terms = np.sqrt((x * x) @ (y * y)), np.abs(x) @ np.abs(y)
    wanted = bound(DOT, x @ y, terms, DTYPES[dtype], {})
    assert compare(c, x @ y, wanted, DTYPES[dtype]).worst <= 1


@pytest.mark.parametrize("road", ["interp", "cpu"])
@pytest.mark.parametrize("kernel", [gemm, gemm_splitk], ids=lambda k: k.name)
def test_matrices_of_nothing(road: str, kernel: Any):
    """No row or column is nothing to write; a sum of no products is 0, and is finished."""
    for m, n, k in ((0, 5, 3), (4, 0, 3), (4, 5, 0)):
        a, b, bias = (np.ones(s, np.float32) for s in ((m, k), (k, n), (n,)))
        c = np.full((m, n), np.nan, np.float32)
        with iron.use(road):
            kernel(a=a, b=b, bias=bias, residual=None, c=c, alpha=None, beta=None)
        assert np.array_equal(c, np.ones((m, n)))


@pytest.mark.parametrize("deep", [60, 128, 500, 2048, 2049])
def test_factors_of_one_sign_on_a_cpu(deep: int):
    """Nothing cancels: what is lost grows with the number of terms in a chain."""
    rng = np.random.default_rng(3)
    a, b = (np.abs(rng.normal(size=s)).astype(np.float32) for s in ((64, deep), (deep, 64)))
    with iron.use("cpu"):
        c = product(a, b)
    x, y = a.astype(float), b.astype(float)
    terms = np.sqrt((x * x) @ (y * y)), np.abs(x) @ np.abs(y)
    assert compare(c, x @ y, bound(DOT, x @ y, terms, DTYPES["f32"], {}), DTYPES["f32"]).worst < 0.8
