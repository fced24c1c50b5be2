"""Reported failures of integer arithmetic: wrapped offsets, floors, shifts, names of two types."""

from typing import Any

import numpy as np
import pytest

from iron.errors import KernelError
from iron.front import TensorArg, bind, specialise
from iron.ir.text import print_kernel
from iron.lang import (
    In,
    Out,
    Scalar,
    dims,
    dtypes,
    each,
    f32,
    groups,
    i8,
    i16,
    i32,
    i64,
    kernel,
    u8,
)
from tests.cases.conftest import blank

R, N, M = dims("R N M")
S = dtypes("S", i8, i16, i32, i64)


# --- an offset past 2**31 -------------------------------------------------------------------------


@kernel
def offset(batch: Scalar[i32], stride: Scalar[i32], y: Out[i64, 2]):
    groups(1)
    y[0] = i64(batch) * i64(stride)
    y[1] = (batch * stride).to(i64)


def test_a_widened_product_does_not_wrap():
    """flash-linear-attention 1080: the product is as wide as the author made its factors."""
    y = offset(batch=319, stride=7864320, y=blank(2, np.int64))
    assert y.tolist() == [2508718080, -1786249216]


@kernel
def every_element(x: In[f32, R, N], y: Out[f32, R, N]):
    r, i = each(R, N)
    y[r, i] = x[r, i]


@kernel
def flat(x: In[f32, M], y: Out[f32, R, N]):
    r, i = each(R, N)
    y[r, i] = x[r * N + i]


@pytest.mark.parametrize(("rows", "wide"), [(300000, True), (262144, True), (262143, False)])
def test_index_expressions_of_a_great_launch_are_wide(rows: int, wide: bool):
    """dion 103: 300000 rows of 8192 are past 2**31; no memory is needed to see the type."""
    length = 8192
    for fn, shape in ((every_element, (rows, length)), (flat, (rows * length,))):
        described = {"x": TensorArg(f32, shape), "y": TensorArg(f32, (rows, length))}
        text = print_kernel(specialise(fn, bind(fn, described, {}), 32))
        products = [line for line in text.splitlines() if " mul " in line or "= mul" in line]
        assert ("i64" in text) is wide, text
        assert all(("i64" in line) is wide for line in products), text
        assert products or fn is every_element


# --- // and % of negatives ------------------------------------------------------------------------

PAIRS = [(7, 2), (-7, 2), (7, -2), (-7, -2), (-6, 2), (-1, 8), (5, 0)]
QUOTIENTS = [3, -4, -4, 3, -3, -1, 0]
REMAINDERS = [1, 1, -1, -1, 0, 7, 0]


@kernel
def floors(a: In[S, N], b: In[S, N], y: Out[S, N, 12]):
    (i,) = each(N)
    y[i, 0] = a[i] // b[i]
    y[i, 1] = a[i] % b[i]
    y[i, 2] = S(-7) // S(2)
    y[i, 3] = S(-7) % S(2)
    y[i, 4] = S(7) // S(-2)
    y[i, 5] = S(7) % S(-2)
    y[i, 6] = -7 // b[i]
    y[i, 7] = -7 % b[i]
    y[i, 8] = a[i] // -2
    y[i, 9] = a[i] % -2
    y[i, 10] = a[i] // 8
    y[i, 11] = a[i] % 8


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_quotients_and_remainders_floor(dtype: Any):
    """triton 619, tilelang-ascend 1764."""
    a, b = (np.array(column, dtype) for column in zip(*PAIRS, strict=True))
    y = floors(a=a, b=b, y=blank((len(PAIRS), 12), dtype))
    assert y[:, 0].tolist() == QUOTIENTS
    assert y[:, 1].tolist() == REMAINDERS
    assert (y[:, 2:6] == [-4, 1, -4, -1]).all()
    for row, (p, q) in zip(y.tolist(), PAIRS, strict=True):
        assert row[6:8] == ([-7 // q, -7 % q] if q else [0, 0])
        assert row[8:] == [p // -2, p % -2, p // 8, p % 8]


@kernel
def counters(d: In[i32, R], y: Out[i32, R, 9, 2]):
    (r,) = groups(R)
    for k in range(9):
        y[r, k, 0] = (k - 4) // d[r]
        y[r, k, 1] = (k - 4) % d[r]


def test_loop_counters_floor():
    divisors = [2, -2, 3, -8]
    y = counters(d=np.array(divisors, np.int32), y=blank((4, 9, 2), np.int32))
    assert y.tolist() == [[[k // d, k % d] for k in range(-4, 5)] for d in divisors]


# --- shifts ---------------------------------------------------------------------------------------


@kernel
def shifted(count: In[i32, N], y: Out[i32, N, 2], z: Out[u8, N, 3]):
    (i,) = each(N)
    y[i, 0] = i32(1) << 31
    y[i, 1] = i32(1) << count[i]
    z[i, 0] = u8(16) << i32(1)
    z[i, 1] = u8(200) << 1
    z[i, 2] = u8(200) << count[i]


def test_shifts_into_the_sign_bit():
    """tilelang 3001, taichi 4884: a loaded count is taken modulo the width."""
    counts = [31, 0, 1, 32, 40, -1]
    y, z = shifted(
        count=np.array(counts, np.int32), y=blank((6, 2), np.int32), z=blank((6, 3), np.uint8)
    )
    assert (y[:, 0] == -(2**31)).all()
    assert y[:, 1].tolist() == [-(2**31), 1, 2, 1, 256, -(2**31)]
    assert (z[:, :2] == [32, 144]).all()
    assert z[:, 2].tolist() == [(200 << (c % 8)) % 256 for c in counts]


@kernel
def by_32(y: Out[i32, 1]):
    groups(1)
    y[0] = i32(1) << 32


@kernel
def by_40(y: Out[i32, 1]):
    groups(1)
    y[0] = i32(1) << 40


@kernel
def by_less_than_nothing(y: Out[i32, 1]):
    groups(1)
    y[0] = i32(1) << -1


@pytest.mark.parametrize("fn", [by_32, by_40, by_less_than_nothing], ids=lambda f: f.name)
def test_a_constant_count_outside_the_width_is_refused(fn: Any):
    with pytest.raises(KernelError) as wrong:
        fn(y=blank(1, np.int32))
    assert wrong.value.id == "E0211"
    assert "y[0] = i32(1) <<" in str(wrong.value)


# --- a loop that changes what a name is -----------------------------------------------------------


@kernel
def sum_from_an_integer(x: In[f32, N], y: Out[f32, 1]):
    groups(1)
    acc = 0
    for i in range(N):
        acc = acc + x[i]
    y[0] = acc


@kernel
def sum_from_a_float(x: In[f32, N], y: Out[f32, 1]):
    groups(1)
    acc = 0.0
    for i in range(N):
        acc = acc + x[i]
    y[0] = acc


def test_a_name_that_becomes_another_type_in_a_loop():
    """triton 9547: refused where the types meet; a sum that starts as a float is carried."""
    x = np.arange(8, dtype=np.float32)
    with pytest.raises(KernelError) as wrong:
        sum_from_an_integer(x=x, y=blank(1))
    first = sum_from_an_integer.fn.__code__.co_firstlineno
    assert wrong.value.id == "E0201"
    assert f":{first + 5}:" in str(wrong.value)
    assert "i32 and f32" in str(wrong.value)
    assert f"becomes i32 at the loop on line {first + 4}, which it enters as 0" in str(wrong.value)
    assert sum_from_a_float(x=x, y=blank(1))[0] == 28


@kernel
def stride_and_tensor(a: In[f32, N], b: In[f32, N], by: Scalar[i32], y: Out[f32, 4]):
    groups(1)
    stride, at = 1, 0
    for i in range(4):
        y[i] = a[at] if i == 0 else b[at]
        stride = by
        at += stride


def test_a_constant_stride_that_is_reassigned():
    a = np.arange(8, dtype=np.float32)
    assert stride_and_tensor(a=a, b=a + 10, by=2, y=blank(4)).tolist() == [0, 12, 14, 16]
