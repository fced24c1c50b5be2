"""Calling kernels: what goes in, what comes out, and the error for each wrong argument."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import iron
from iron.errors import KernelError
from iron.lang import (
    Const,
    In,
    InOut,
    Out,
    Scalar,
    bf16,
    dims,
    dtypes,
    each,
    f16,
    f32,
    groups,
    i32,
    kernel,
    plan,
    require,
    scratch,
    strided,
    thread,
    u8,
)

R, N = dims("R N")
T = dtypes("T", f32, f16, bf16)
S = dtypes("S", f32, f16)


@kernel
def scale(x: In[T, N], y: Out[T, N], factor: Scalar[f32] = 2.0):
    (i,) = each(N)
    y[i] = (x[i].to(f32) * factor).to(T)


@kernel
def pair(x: In[f32, R, N], w: In[f32, N], a: Out[f32, R, N], b: Out[f32, R]):
    (row,) = groups(R, threads=32)
    require(N >= 2, "rows have at least two elements")
    for i in strided(N):
        a[row, i] = x[row, i] + w[i]
    if thread == 0:
        b[row] = x[row, 0] * x[row, 1]


@kernel
def bump(x: InOut[i32, N], by: Scalar[i32]):
    (i,) = each(N)
    x[i] = x[i] + by


@kernel
def convert(x: In[T, N], y: Out[S, N]):
    (i,) = each(N)
    y[i] = x[i].to(f32).to(S)


@kernel
def flip(x: In[u8, R, N], y: Out[u8, N, R]):
    (n, r) = each(N, R)
    y[n, r] = x[r, n]


@kernel(choose={"VEC": [4, 2, 1]})
def halves(x: In[f32, N], y: Out[f32, N], *, VEC: Const):
    (g,) = groups(N // VEC)
    require(N % VEC == 0, "N must be a multiple of VEC")
    y[g * VEC : g * VEC + VEC] = x[g * VEC : g * VEC + VEC] * 0.5


@kernel
def add(x: In[f32, N], z: In[f32, N] | None, y: Out[f32, N]):
    (i,) = each(N)
    y[i] = x[i] + z[i] if z is not None else x[i]


@plan
def four_times(x: In[T, N], y: Out[T, N]):
    between = scratch(T, N)
    scale(x, between)
    scale(between, y)


@pytest.fixture(autouse=True, params=["interp", "cpu"])
def _backend(request: pytest.FixtureRequest) -> Iterator[None]:
    with iron.use(request.param):
        yield


def numbers(*shape: int) -> Any:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def refused(id: str, *words: str) -> Any:
    class Check:
        def __enter__(self) -> Check:
            self.raises = pytest.raises(KernelError)
            self.caught = self.raises.__enter__()
            return self

        def __exit__(self, *exc: Any) -> bool | None:
            result = self.raises.__exit__(*exc)
            assert self.caught.value.id == id
            for word in words:
                assert word in str(self.caught.value)
            return result

    return Check()


@pytest.mark.parametrize("n", [3, 1 << 18, (1 << 20) + 1])
def test_a_large_output_that_is_allocated_begins_on_a_cache_line(n: int) -> None:
    made = [scale(np.ones(n, np.float32)) for _ in range(3)]
    assert all((y == 2).all() and y.shape == (n,) and y.flags.c_contiguous for y in made)
    assert n < 1 << 18 or all(y.ctypes.data % 64 == 0 for y in made)


def test_an_output_is_allocated_and_returned() -> None:
    x = numbers(37)
    y = scale(x)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(scale(x, 3), 3 * x)
    np.testing.assert_array_equal(scale(x, factor=np.float32(0.5)), 0.5 * x)


def test_several_outputs_come_in_declared_order() -> None:
    x, w = numbers(3, 5), numbers(5)
    a, b = pair(x, w)
    np.testing.assert_array_equal(a, x + w)
    np.testing.assert_array_equal(b, x[:, 0] * x[:, 1])


def test_outputs_may_be_given() -> None:
    x, w = numbers(3, 5), numbers(5)
    a, b = np.full_like(x, np.nan), np.full(3, np.nan, np.float32)
    for call in (
        lambda: pair(x, w, out=(a, b)),
        lambda: pair(x, w, a=a, b=b),
        lambda: pair(x, w, a, b),
        lambda: pair(x=x, w=w, out={"a": a, "b": b}),
    ):
        got = call()
        assert got[0] is a
        assert got[1] is b
        np.testing.assert_array_equal(a, x + w)
        a[:], b[:] = np.nan, np.nan


def test_an_inout_is_changed_in_place() -> None:
    x = np.arange(9, dtype=np.int32)
    assert bump(x, 5) is None
    np.testing.assert_array_equal(x, np.arange(9) + 5)


def test_a_dtype_variable_may_be_named() -> None:
    assert convert(numbers(5), S=f16).dtype == np.float16
    with refused("E0707", "S"):
        convert(numbers(5))


def test_views_with_gaps_and_reversed_rows_are_read_in_place() -> None:
    base = np.arange(60, dtype=np.uint8).reshape(6, 10)
    for view in (base[::2, 2:7], base[::-1], base[4:0:-2, 1:], base[:, :0], base[:0]):
        np.testing.assert_array_equal(flip(view), view.T)


def test_a_last_axis_with_gaps_is_refused_by_name() -> None:
    base = np.arange(60, dtype=np.uint8).reshape(6, 10)
    with refused("E0701", "`x`", "contiguous"):
        flip(base[:, ::2])


def test_zero_size_arrays_launch_nothing() -> None:
    assert scale(np.empty(0, np.float32)).shape == (0,)


def test_the_first_choice_that_holds_is_taken() -> None:
    for n in (8, 6, 7):
        x = numbers(n)
        np.testing.assert_array_equal(halves(x), x * np.float32(0.5))
    with refused("E0702", "multiple of VEC", "N = 7", "VEC = 4"):
        halves(numbers(7), VEC=4)


def test_optional_inputs() -> None:
    x = numbers(5)
    np.testing.assert_array_equal(add(x), x)
    np.testing.assert_array_equal(add(x, x), x + x)


def test_a_failed_requirement_names_it_and_the_sizes() -> None:
    with refused("E0702", "at least two elements", "N = 1"):
        pair(numbers(3, 1), numbers(1))


def test_scalars_are_values_not_types() -> None:
    """1 and 5 run the same kernel, and True is 1."""
    x = np.zeros(4, np.int32)
    for s, total in ((1, 1), (5, 6), (1, 7), (0, 7), (True, 8)):
        bump(x, s)
        np.testing.assert_array_equal(x, np.full(4, total))


@pytest.mark.parametrize("bad", [1.5, "1", 2**31, np.ones(2), 1j])
def test_a_scalar_that_would_change_its_meaning(bad: Any) -> None:
    with refused("E0701", "`by`"):
        bump(np.zeros(4, np.int32), bad)


def test_wrong_arguments_are_named_before_anything_runs() -> None:
    x, w = numbers(3, 5), numbers(5)
    with refused("E0703", "`w` is missing", "pair(x, w"):
        pair(x)
    with refused("E0703", "no parameter `z`"):
        pair(x, w, z=1)
    with refused("E0703", "`x` is given twice"):
        pair(x, w, x=x)
    with refused("E0703", "positional"):
        pair(x, w, x, x, x)
    with refused("E0701", "`x`", "float64"):
        pair(x.astype(np.float64), w)
    with refused("E0701", "`w`", "i32"):
        pair(x, w.astype(np.int32))
    with refused("E0701", "`x`", "axes"):
        pair(w, w)
    with refused("E0701", "dim N", "`w`"):
        pair(x, numbers(4))
    with refused("E0701", "`x`", "list"):
        pair([[1.0]], w)
    with refused("E0701", "`a`"):
        pair(x, w, a=np.empty((3, 4), np.float32))
    with refused("E0701", "`x`", "byte order"):
        pair(x.astype(">f4"), w)
    locked = np.empty_like(x)
    locked.flags.writeable = False
    with refused("E0701", "`a`", "read-only"):
        pair(x, w, a=locked)


def test_shared_memory_is_refused() -> None:
    x, w = numbers(4, 5), numbers(5)
    with refused("E0704", "`a`", "`x`"):
        pair(x[:3], w, a=x[1:])
    both = np.empty(24, np.float32)
    with refused("E0704", "`a`", "`b`"):
        pair(x, w, a=both[:20].reshape(4, 5), b=both[16:20])
    one = np.lib.stride_tricks.as_strided(numbers(5), (4, 5), (0, 4))
    with refused("E0704", "each other"):
        pair(x, w, a=one, b=numbers(4))


def test_an_output_may_be_the_input_where_the_kernel_allows_it() -> None:
    x = numbers(300)
    want = 2 * x
    assert scale(x, out=x) is x
    np.testing.assert_array_equal(x, want)
    wide = numbers(301)
    with refused("E0704", "`x`", "`y`"):
        scale(wide[1:], out=wide[:-1])
    square = np.arange(9, dtype=np.uint8).reshape(3, 3)
    with refused("E0704"):
        flip(square, out=square)


def test_a_remembered_call_still_checks_what_may_differ() -> None:
    x = np.zeros(4, np.int32)
    for by in (1, 1, True):
        bump(x, by)
    np.testing.assert_array_equal(x, np.full(4, 3))
    with refused("E0701", "`by`"):
        bump(x, 1.0)
    a = numbers(3, 5)
    pair(a, numbers(5))
    with refused("E0704"):
        pair(a, numbers(5), a=a[::-1])
    np.testing.assert_array_equal(scale(a[0], -0.0), -0.0 * a[0])
    assert np.signbit(scale(np.ones(3, np.float32), -0.0)).all()
    assert not np.signbit(scale(np.ones(3, np.float32), 0.0)).any()


def test_a_handle_launches_again_with_the_memory_as_it_is_then() -> None:
    x = numbers(33)
    handle = scale.bind(x, 3.0)
    y = handle()
    np.testing.assert_array_equal(y, 3 * x)
    x[:] = 1
    assert handle() is y
    np.testing.assert_array_equal(y, np.full(33, 3, np.float32))


def test_a_plan_is_called_like_a_kernel() -> None:
    x = numbers(41)
    np.testing.assert_array_equal(four_times(x), 4 * x)
    handle = four_times.bind(x)
    np.testing.assert_array_equal(handle(), 4 * x)
    x[:] = 1
    np.testing.assert_array_equal(handle(), np.full(41, 4, np.float32))


def test_two_kernels_of_one_name_do_not_meet() -> None:
    def probe(factor: float) -> Any:
        if factor == 2:

            @kernel
            def same(x: In[f32, N], y: Out[f32, N]):
                (i,) = each(N)
                y[i] = x[i] * 2.0
        else:

            @kernel
            def same(x: In[f32, N], y: Out[f32, N]):
                (i,) = each(N)
                y[i] = x[i] + 100.0

        return same

    x = np.arange(3, dtype=np.float32)
    first, second = probe(2), probe(100)
    np.testing.assert_array_equal(first(x), [0, 2, 4])
    np.testing.assert_array_equal(second(x), [100, 101, 102])


def test_the_backend_in_use_ends_with_its_block() -> None:
    before = iron.device()
    with iron.use("interp"):
        assert iron.device() == "interp"
    assert iron.device() == before
    with refused("E0603", "nonsense", "interp"):
        iron.use("nonsense")
