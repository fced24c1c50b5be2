"""Whole kernels in the shapes that a library is made of."""

import numpy as np
import pytest

from iron.lang import (
    Const,
    In,
    Out,
    Scalar,
    add,
    barrier,
    bf16,
    dims,
    dot,
    dtypes,
    each,
    exp,
    f16,
    f32,
    group_max,
    group_scan,
    group_sum,
    groups,
    inf,
    kernel,
    maximum,
    require,
    rsqrt,
    shared,
    strided,
    thread,
    u32,
    unrolled,
)
from tests.unit.front.trial import refusal, run

R, N = dims("R N")
T = dtypes("T", f32, f16, bf16)


@kernel(choose={"VEC": [4, 1]})
def rms_norm(
    x: In[T, R, N],
    w: In[T, N],
    y: Out[T, R, N],
    eps: Scalar[f32],
    *,
    VEC: Const,
    THREADS: Const = 64,
):
    (row,) = groups(R, threads=THREADS)
    require(N % VEC == 0, "the row length N must be a multiple of VEC")
    squares = f32(0)
    for i in strided(N, VEC):
        chunk = x[row, i : i + VEC].to(f32)
        squares += dot(chunk, chunk)
    scale = rsqrt(group_sum(squares) / N + eps)
    for i in strided(N, VEC):
        chunk = x[row, i : i + VEC].to(f32)
        y[row, i : i + VEC] = (chunk * scale * w[i : i + VEC].to(f32)).to(T)


@kernel
def softmax(x: In[f32, R, N], y: Out[f32, R, N], *, VEC: Const = 1, THREADS: Const = 64):
    (row,) = groups(R, threads=THREADS)
    require(N % VEC == 0, "N must be a multiple of VEC")
    top = f32(-inf)
    for i in strided(N, VEC):
        chunk = x[row, i : i + VEC].to(f32)
        for j in unrolled(VEC):
            top = maximum(top, chunk[j])
    peak = group_max(top)
    total = f32(0)
    for i in strided(N, VEC):
        chunk = exp(x[row, i : i + VEC].to(f32) - peak)
        for j in unrolled(VEC):
            total += chunk[j]
    norm = 1.0 / group_sum(total)
    for i in strided(N, VEC):
        y[row, i : i + VEC] = exp(x[row, i : i + VEC].to(f32) - peak) * norm


@kernel
def transposed_double(x: In[f32, R, N], y: Out[f32, N, R]):
    i, row = each(N, R)
    y[i, row] = 2 * x[row, i]


@kernel
def reversed_by_shared(x: In[f32, R, N], y: Out[f32, R, N], *, THREADS: Const = 64):
    (row,) = groups(R, threads=THREADS)
    pile = shared(N, f32)
    for i in strided(N):
        pile[i] = x[row, i]
    barrier()
    for i in strided(N):
        y[row, i] = pile[N - 1 - i]


@kernel
def offsets(x: In[u32, R, N], y: Out[u32, R, N], *, THREADS: Const = 64):
    (row,) = groups(R, threads=THREADS)
    before = u32(0)
    for base in range(0, N, THREADS):
        i = base + thread
        v = x[row, i] if i < N else u32(0)
        sums = before + group_scan(add, 0, v, exclusive=True)
        if i < N:
            y[row, i] = sums
        before += group_sum(v)


@pytest.mark.parametrize("vec", [1, 4])
@pytest.mark.parametrize("simd", [8, 32])
def test_rms_norm(vec: int, simd: int):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 132)).astype(np.float16)
    w = rng.standard_normal(132).astype(np.float16)
    y = np.full_like(x, np.nan)
    run(rms_norm, simd, x=x, w=w, y=y, eps=1e-5, VEC=vec)
    wide = x.astype(np.float64)
    want = w * wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)
    assert np.allclose(y, want, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("vec", [1, 2])
def test_softmax(vec: int):
    x = np.random.default_rng(2).standard_normal((2, 130)).astype(np.float32)
    y = np.full_like(x, np.nan)
    run(softmax, x=x, y=y, VEC=vec)
    want = np.exp(x - x.max(-1, keepdims=True))
    assert np.allclose(y, want / want.sum(-1, keepdims=True), rtol=1e-5)


def test_each_masks_its_tail():
    x = np.random.default_rng(3).standard_normal((5, 77)).astype(np.float32)
    y = np.full((77, 5), np.nan, np.float32)
    run(transposed_double, x=x, y=y)
    assert np.array_equal(y, 2 * x.T)


def test_shared_sized_by_a_dim():
    x = np.random.default_rng(4).standard_normal((2, 70)).astype(np.float32)
    y = np.full_like(x, np.nan)
    made = run(reversed_by_shared, x=x, y=y)
    assert np.array_equal(y, x[:, ::-1])
    assert "N" not in [p.name for p in made.params]


def test_scan_over_chunks():
    x = np.random.default_rng(5).integers(0, 9, (2, 150)).astype(np.uint32)
    y = np.zeros_like(x)
    run(offsets, x=x, y=y)
    assert np.array_equal(y, np.cumsum(x, 1) - x)


def test_a_requirement_is_a_host_condition():
    x = np.zeros((1, 6), np.float32)
    wrong = refusal(softmax, x=x, y=np.zeros_like(x), VEC=4)
    assert wrong.id == "E0702"
    assert "multiple of VEC" in str(wrong)


@kernel
def wrong_kind(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] * thread


def test_an_error_names_the_line():
    x = np.zeros(64, np.float32)
    wrong = refusal(wrong_kind, x=x, y=x.copy())
    assert wrong.id == "E0201"
    assert wrong.diagnostic.loc is not None
    assert wrong.diagnostic.loc.line == wrong_kind.fn.__code__.co_firstlineno + 3
    assert "y[thread] = x[thread] * thread" in str(wrong)
    assert "^^^" in str(wrong)
