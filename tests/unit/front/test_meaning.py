"""What accepted constructs mean, against numpy, on the interpreter."""

from typing import Any

import numpy as np
import pytest

from iron.errors import KernelError
from iron.lang import (
    Const,
    In,
    InOut,
    Out,
    Scalar,
    absolute,
    add,
    atomic_add,
    atomic_max,
    barrier,
    bf16,
    bitcast,
    cdiv,
    clz,
    dims,
    dtypes,
    each,
    f16,
    f32,
    fma,
    full,
    group_all,
    group_any,
    group_reduce,
    group_scan,
    group_sum,
    group_xor,
    groups,
    i8,
    i16,
    i32,
    i64,
    inf,
    inline,
    iota,
    kernel,
    lane,
    maximum,
    mulhi,
    popcount,
    require,
    shared,
    simd_ballot,
    simd_width,
    sqrt,
    strided,
    table,
    thread,
    u8,
    u32,
    unrolled,
    vec,
    where,
)
from tests.unit.front.trial import read, run

R, N, K = dims("R N K")
T = dtypes("T", f32, f16, bf16)
S = dtypes("S", i8, i16, i32, i64)
HALF = N // 2
SHAPE = (R, N)
SCALE = 3

Array = np.ndarray[Any, Any]


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    """Reproducible numbers of both signs."""
    rng = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


# --- views ----------------------------------------------------------------------------------------


@kernel
def views(x: In[f32, R, N], y: Out[f32, 12, 8]):
    groups(1, threads=1)
    y[0, 0:8] = x[0, 0:8]
    y[1, 0:8] = x[1, N - 8 : N]
    y[2, 0:8] = x[-1, -8:]
    y[3, 0:8] = x[1, 7::-1]
    y[4, 0:8] = x[0, 1:17:2]
    y[5, 0:8] = x[1, ::-1][2:10]
    y[6, 7::-1] = x[2, 0:8]
    y[7, ::2] = x[0, 0:4]
    y[7, 1::2] = full(4, -1.0, f32)
    column = x[:, 3]
    y[8, 0:8] = 0.0
    for r in range(column.shape[0]):
        y[8, r] = column[r]
    part = x[1:, 4:]
    y[9, 0:8] = f32(part.shape[0] * 100 + part.shape[1])
    y[10, 0:8] = f32(x.rank * 1000 + part[0].rank * 100) + f32(part.size)
    i = i32(2)
    y[11, 0:8] = x[i, 2 * i : 2 * i + 8] + x[i, 3 * i - 2 : 3 * i + 6]


def test_views():
    x, y = numbers(3, 20), np.full((12, 8), np.nan, np.float32)
    run(views, x=x, y=y)
    want = np.zeros_like(y)
    want[0], want[1], want[2], want[3] = x[0, :8], x[1, 12:], x[2, -8:], x[1, 7::-1]
    want[4], want[5], want[6] = x[0, 1:17:2], x[1, ::-1][2:10], x[2, :8][::-1]
    want[7, ::2], want[7, 1::2] = x[0, :4], -1
    want[8, :3] = x[:, 3]
    want[9], want[10] = 216, 2000 + 100 + 32
    want[11] = x[2, 4:12] + x[2, 4:12]
    assert np.array_equal(y, want)


@kernel
def slices_of_tensors_with_gaps(x: In[f32, R, N, strided], y: Out[f32, R, N]):
    r, i = each(R, cdiv(N, 2))
    y[r, 2 * i : 2 * i + 2] = x[r, 2 * i : 2 * i + 2]


def test_strided_input():
    whole = numbers(6, 30)
    x, y = whole[::-2, 1:29:2], np.full((3, 14), np.nan, np.float32)
    run(slices_of_tensors_with_gaps, x=x, y=y)
    assert np.array_equal(y, x)


def test_a_gap_is_refused_where_it_is_not_declared():
    with pytest.raises(KernelError, match="apart along its last axis"):
        run(views, x=numbers(3, 40)[:, ::2], y=np.zeros((12, 8), np.float32))


@kernel
def any_rank(x: In[T, ..., strided], y: Out[T, ...]):
    (i,) = each(y.size)
    at, rest = [], i
    for d in unrolled(x.rank - 1, -1, -1):
        at = [rest % x.shape[d], *at]
        rest = rest // x.shape[d]
    y[tuple(at)] = x[tuple(at)]


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4, 5), ()])
def test_any_rank(shape: tuple[int, ...]):
    x = np.asarray(numbers(*shape), np.float32)
    y = np.full_like(x, np.nan)
    run(any_rank, x=x, y=y)
    assert np.array_equal(y, x)


# --- numbers and dims -----------------------------------------------------------------------------


@kernel
def weak_numbers(x: In[f32, R, N], y: Out[f32, 12]):
    groups(1, threads=1)
    rows, columns = SHAPE
    y[0] = x[0, 0] / N
    y[1] = f32(HALF) + SCALE
    y[2] = x[0, 0] * rows + columns
    y[3] = x[0, 0] * N**-0.5
    y[4] = 1 / N + x[0, 0]
    y[5] = f32(cdiv(N, 8) * 10 + N % 8)
    y[6] = f32(min(N, 3, R) + max(N, 3))
    y[7] = f32((N << 2) + (64 >> R) + (N & 6) - ~R)
    y[8] = f32(-N // 3)
    y[9] = f32(u32(x.shape[1]) + N)
    y[10] = x[0, 0] ** 2
    y[11] = f32(abs(R - N))


def test_weak_numbers():
    x, y = numbers(3, 10), np.full(12, np.nan, np.float32)
    made = run(weak_numbers, x=x, y=y)
    v, f = x[0, 0], np.float32
    want = [v / f(10), 8, v * f(3) + f(10), v * f(10**-0.5), f(1) / f(10) + v, 22, 13]
    want += [40 + 8 + 2 + 4, -4, 20, v * v, 7]
    assert np.array_equal(y, np.array(want, np.float32))
    assert [p.name for p in made.params if p.role == "dim"] == ["R"]


PAIRS = [(7, 2), (-7, 2), (7, -2), (-7, -2), (-6, 2), (-1, 8), (5, 0)]
QUOTIENTS, REMAINDERS = [3, -4, -4, 3, -3, -1, 0], [1, 1, -1, -1, 0, 7, 0]


@kernel
def functions_of_dims(x: In[f32, R, N], y: Out[f32, 4], s: Scalar[f32]):
    groups(1, threads=32)
    top = group_reduce(lambda a, b: maximum(a, b) if s > 0.0 else a + b, f32(R))
    if thread == 0:
        y[0] = sqrt(N)
        y[1] = maximum(x[0, 0], N)
        y[2] = top
        y[3] = fma(x[0, 0], 2, R)


def test_dims_as_floats():
    x, y = numbers(3, 10), np.zeros(4, np.float32)
    made = run(functions_of_dims, x=x, y=y, s=1.0)
    v = np.float64(x[0, 0])
    assert np.array_equal(y, np.array([10**0.5, max(v, 10), 3, v * 2 + 3], np.float32))
    assert [p.name for p in made.params if p.role == "dim"] == ["R", "N"]


@kernel
def floor_division(a: In[S, N], b: In[S, N], q: Out[S, N, 6]):
    (i,) = each(N)
    q[i, 0] = a[i] // b[i]
    q[i, 1] = a[i] % b[i]
    q[i, 2] = S(-7) // 2
    q[i, 3] = S(-7) % 2
    q[i, 4] = -7 // b[i]
    q[i, 5] = a[i] % 2


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_floor_division_of_negatives(dtype: Any):
    a, b = (np.array(column, dtype) for column in zip(*PAIRS, strict=True))
    q = np.zeros((7, 6), dtype)
    run(floor_division, a=a, b=b, q=q)
    assert q[:, 0].tolist() == QUOTIENTS
    assert q[:, 1].tolist() == REMAINDERS
    assert (q[:, 2:4] == [-4, 1]).all()
    assert q[:, 4].tolist() == [-7 // y if y else 0 for _, y in PAIRS]
    assert q[:, 5].tolist() == [x % 2 for x, _ in PAIRS]


@kernel
def counters(x: In[i32, 4], y: Out[i32, 4, 9]):
    groups(1)
    for r in range(4):
        d = x[r]
        for k in range(9):
            y[r, k] = (k - 4) // d * 100 + (k - 4) % d


def test_floor_division_of_loop_counters():
    y = np.zeros((4, 9), np.int32)
    run(counters, x=np.array([2, -2, 3, -8], np.int32), y=y)
    for row, d in zip(y, (2, -2, 3, -8), strict=True):
        assert row.tolist() == [(k - 4) // d * 100 + (k - 4) % d for k in range(9)]


@kernel
def unsigned_share(x: In[u32, N], y: Out[u32, N]):
    groups(1, threads=64)
    for i in strided(x[0], 2):
        y[i] = i
        y[i + 1] = cdiv(i, 3)


def test_a_strided_loop_over_an_unsigned_count():
    x, y = np.full(200, 200, np.uint32), np.zeros(200, np.uint32)
    run(unsigned_share, x=x, y=y)
    assert np.array_equal(y[::2], np.arange(0, 200, 2))
    assert np.array_equal(y[1::2], -(-np.arange(0, 200, 2) // 3))


@kernel
def shifts(count: In[i32, N], y: Out[i32, N], z: Out[u8, N], w: Out[u32, N]):
    (i,) = each(N)
    y[i] = i32(1) << count[i]
    z[i] = (u8(200) << 1) + (u8(16) << count[i])
    w[i] = u32(0x80000000) >> u8(31)


def test_shift_counts_of_any_integer_type():
    count = np.array([0, 1, 31, 32, 40, -1], np.int32)
    y, z, w = np.zeros(6, np.int32), np.zeros(6, np.uint8), np.zeros(6, np.uint32)
    run(shifts, count=count, y=y, z=z, w=w)
    assert y.tolist() == [1, 2, -(2**31), 1, 256, -(2**31)]
    assert z.tolist() == [(144 + (16 << (c & 7))) % 256 for c in count.tolist()]
    assert (w == 1).all()


@kernel
def wide_product(out: Out[i64, 2], a: Scalar[i32], b: Scalar[i32]):
    groups(1)
    out[0] = i64(a) * i64(b)
    out[1] = (a * b).to(i64)


def test_i32_wraps_and_i64_does_not():
    out = np.zeros(2, np.int64)
    run(wide_product, out=out, a=319, b=7864320)
    assert out.tolist() == [2508718080, 2508718080 - 2**32]


@kernel
def casts(x: In[f32, N], y: Out[i32, N], z: Out[u8, N], t: Out[T, N]):
    (i,) = each(N)
    y[i] = x[i].to(i32)
    z[i] = u8(x[i])
    t[i] = T(-inf) if x[i] != x[i] else T(x[i])


def test_casts_saturate():
    x = np.array([1.9, -1.9, 3e9, -3e9, np.nan, 300.0], np.float32)
    y, z, t = np.zeros(6, np.int32), np.zeros(6, np.uint8), np.zeros(6, np.float16)
    run(casts, x=x, y=y, z=z, t=t)
    assert y.tolist() == [1, -1, 2**31 - 1, -(2**31), 0, 300]
    assert z.tolist() == [1, 0, 255, 0, 0, 255]
    assert t[4] == -np.inf
    assert t[5] == 300


# --- control --------------------------------------------------------------------------------------


@kernel
def early_ends(x: In[f32, R, N], y: Out[i32, R], z: Out[f32, R, 64], q: Out[i32, R, 64]):
    (r,) = groups(R, threads=64)
    found, turns = i32(-1), i32(0)
    for base in range(0, N, 64):
        v = x[r, base + thread] if base + thread < N else f32(0)
        here = group_any(v > 2.0)
        turns += 1
        if here:
            found = base
            break
        turns += 100
    if thread == 0:
        y[r] = found
    s, c = f32(0), i32(0)
    for i in strided(N):
        if x[r, i] < -1.0:
            c += 1000
            break
        s += x[r, i]
        c += 1
    z[r, thread] = s
    q[r, thread] = c


def test_break_uniform_and_varying():
    x = numbers(8, 300)
    x[0] = 0
    y, z = np.zeros(8, np.int32), np.zeros((8, 64), np.float32)
    q = np.zeros((8, 64), np.int32)
    run(early_ends, x=x, y=y, z=z, q=q)
    first = [int(np.argmax(r > 2)) // 64 * 64 if (r > 2).any() else -1 for r in x]
    assert y.tolist() == first
    for r in range(8):
        for t in range(64):
            total, count = np.float32(0), 0
            for i in range(t, 300, 64):
                if x[r, i] < -1:
                    count += 1000
                    break
                total += x[r, i]
                count += 1
            assert (z[r, t], q[r, t]) == (total, count)


@kernel
def joined_numbers(x: In[f32, N], y: Out[f32, N], z: Out[i32, N], b: Out[u32, N]):
    (i,) = each(N)
    k = 0
    scale = 0.5
    flag = False
    if x[i] > 0.0:
        k = 7
        scale = 2
        flag = True
    dim = N if x[i] > 1.0 else 5
    y[i] = x[i] * scale
    z[i] = k + dim
    b[i] = u32(flag)


def test_numbers_that_meet():
    x = numbers(50)
    y, z, b = np.zeros(50, np.float32), np.zeros(50, np.int32), np.zeros(50, np.uint32)
    run(joined_numbers, x=x, y=y, z=z, b=b)
    assert np.array_equal(y, np.where(x > 0, x * np.float32(2), x * np.float32(0.5)))
    assert np.array_equal(z, np.where(x > 0, 7, 0) + np.where(x > 1, 50, 5))
    assert np.array_equal(b, x > 0)


@kernel
def mended_names(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    v = 0
    total = f32(0)
    for a in range(3):
        for b in range(2):
            v = x[i] + f32(a)
            total += v * f32(b + 1)
        v = a
        total += f32(v)
    v = i
    if v & 1:
        v = x[i]
    v = total
    y[i] = v


def test_a_temporary_may_change_its_type():
    x, y = numbers(9), np.full(9, np.nan, np.float32)
    run(mended_names, x=x, y=y)
    want = np.zeros(9, np.float32)
    for a in range(3):
        for b in range(2):
            want += (x + np.float32(a)) * np.float32(b + 1)
        want += np.float32(a)
    assert np.array_equal(y, want)


@kernel
def sum_from_a_number(x: In[f32, N], y: Out[f32, 1]):
    groups(1)
    acc = 0.0
    for i in range(N):
        acc += x[i]
    y[0] = acc


@kernel
def another_tensor_in_the_loop(a: In[f32, N], b: In[f32, N], y: Out[f32, 4]):
    groups(1)
    step, offset = 1, 0
    for i in range(4):
        y[i] = a[offset] if i == 0 else b[offset]
        step = i32(2)
        offset += step


def test_loop_variables_that_change():
    y = np.zeros(1, np.float32)
    run(sum_from_a_number, x=np.arange(8, dtype=np.float32), y=y)
    assert y[0] == 28
    a, y = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    run(another_tensor_in_the_loop, a=a, b=a + 10, y=y)
    assert y.tolist() == [0, 12, 14, 16]


@kernel
def lazy(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread + 1] if thread + 1 < N else -1.0


def test_a_conditional_reads_nothing_it_does_not_need():
    x, y = numbers(64), np.full(64, np.nan, np.float32)
    run(lazy, x=x, y=y)
    assert np.array_equal(y, np.append(x[1:], np.float32(-1)))


# --- helpers and compile time ---------------------------------------------------------------------


@inline(exact=True)
def poly(x, *coefficients):
    total = f32(0)
    for c in coefficients:
        total = total * x + c
    return total


@inline
def chosen(x, way="plain", *, times=1):
    if way == "plain":
        return x * times
    if way == "double":
        return x * 2 * times
    return [x, x]


def plain_helper(x, k):
    """Not marked: inlined because its argument is a run-time value."""
    return x + square(k)


def square(k):
    """Called by Python, since its argument is a number."""
    return k * k


class Codec:
    """An object with methods that a kernel may call."""

    def __init__(self, k):
        self.k = k

    def shifted(self, x):
        """x moved by the object's number."""
        return x + self.k

    @staticmethod
    def doubled(x):
        """x twice."""
        return x * 2


@kernel
def helpers(x: In[f32, N], y: Out[f32, N, 8], *, CODEC: Const, TIMES: Const = lambda N: N // 4):
    (i,) = each(N)
    v = x[i]
    y[i, 0] = poly(v, 1.0, 2.0, 3.0)
    y[i, 1] = chosen(v, times=TIMES)
    y[i, 2] = chosen(v, "double")
    y[i, 3] = sum(chosen(v, way=None))
    y[i, 4] = plain_helper(v, 3)
    y[i, 5] = CODEC.shifted(v) + CODEC.doubled(v)
    twice = lambda a: a + a  # noqa: E731
    y[i, 6] = twice(v)
    y[i, 7] = sum([a * b for a, b in zip([v, 2.0], (1.0, v), strict=True)], 0.5)


def test_helpers():
    x, y = numbers(13), np.full((13, 8), np.nan, np.float32)
    made = run(helpers, x=x, y=y, CODEC=Codec(5))
    f = np.float32
    want = [((f(0) * x + f(1)) * x + f(2)) * x + f(3), x * f(3), x * f(2), x + x, x + f(9)]
    want += [(x + f(5)) + x * f(2), x + x, f(0.5) + x + f(2) * x]
    for k, column in enumerate(want):
        assert np.array_equal(y[:, k], column), k
    exact = {op.name for op in made.body.walk() if op.exact}
    assert {"mul", "add"} <= exact
    assert not all(op.exact for op in made.body.walk() if op.name == "mul")


@kernel(exact=True)
def all_exact(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = x[i] * x[i] + x[i]


def test_exact_kernels_mark_every_op():
    made = read(all_exact, x=numbers(3), y=numbers(3))
    assert all(op.exact for op in made.body.walk() if op.name in ("add", "mul"))


@kernel
def optional(x: In[f32, N], bias: In[f32, N] | None, y: Out[f32, N], s: Scalar[f32]):
    (i,) = each(N)
    v = x[i] * s
    if bias is not None:
        v = v + bias[i]
    y[i] = v


def test_an_optional_parameter_is_a_compile_time_fact():
    x, bias, y = numbers(9), numbers(9) + 1, np.zeros(9, np.float32)
    made = run(optional, x=x, bias=bias, y=y, s=2.0)
    assert np.array_equal(y, x * 2 + bias)
    assert "bias" in [p.name for p in made.params]
    made = run(optional, x=x, bias=None, y=y, s=2.0)
    assert np.array_equal(y, x * 2)
    assert "bias" not in [p.name for p in made.params]


# --- vectors, bits and tables ---------------------------------------------------------------------


@inline
def z_of(b):
    return u32(b[0])


@kernel
def vector_forms(x: In[f32, N], b: In[u8, N], y: Out[f32, 10], z: Out[u32, 6]):
    groups(1, threads=1)
    v = x[0:4].to(f32)
    y[0] = v.sum() + v.max() * v.min()
    y[1] = (v * 2.0 + x[4:8])[-1]
    y[2] = where(v > 0.0, v, -v)[1]
    y[3] = vec([x[0], 1.0, x[2]])[1] + f32(len(v))
    y[4] = sum(item for item in v)
    y[5] = f32(iota(4)[3] + iota(4, i32).sum())
    y[6] = v[1:3].sum()
    y[7] = fma(x[0], x[1], x[2])
    y[8] = maximum(v, x[1])[3]
    y[9] = bitcast(b[0:2], f16)[0].to(f32) + absolute(-x[0])
    z[0] = bitcast(b[0:4], u32)[0]
    z[1] = mulhi(u32(0xD2511F53), bitcast(b[0:4], u32)[0])
    z[2] = popcount(z_of(b)) + clz(z_of(b))
    t = table([[1, 2, 3], [4, 5, 6]], u32)
    z[3] = t[b[0] % 2, 1]
    z[4] = bitcast(x[0], u32) ^ bitcast(f32(1.0), u32)
    z[5] = ~u32(b[0])


def test_vector_forms():
    x, b = numbers(8), numbers(8, dtype=np.uint8)
    b[1] = 0x3C
    y, z = np.full(10, np.nan, np.float32), np.zeros(6, np.uint32)
    run(vector_forms, x=x, b=b, y=y, z=z)
    v = x[:4]
    total = np.float32(((v[0] + v[1]) + v[2]) + v[3])
    want = [total + v.max() * v.min(), v[3] * 2 + x[7], abs(v[1]), 5, total, 9, v[1] + v[2]]
    want += [np.float32(np.float64(x[0]) * x[1] + x[2]), max(v[3], x[1])]
    want += [b[:2].view(np.float16)[0].astype(np.float32) + abs(x[0])]
    assert np.array_equal(y, np.array(want, np.float32))
    word = int(b[:4].view(np.uint32)[0])
    bits = int(b[0])
    assert z[0] == word
    assert z[1] == (0xD2511F53 * word) >> 32
    assert z[2] == bits.bit_count() + 32 - bits.bit_length()
    assert z[3] == (5 if bits % 2 else 2)
    assert z[4] == x[:1].view(np.uint32)[0] ^ np.float32(1).view(np.uint32)
    assert z[5] == 2**32 - 1 - bits


# --- what threads do together ---------------------------------------------------------------------


@inline
def later(a, i, b, j):
    take = b > a
    return where(take, b, a), where(take, j, i)


@inline
def pairwise(a, b, c, d):
    return a + c, b * d


@kernel
def together(x: In[f32, 64], y: Out[f32, 8, 64], z: Out[i32, 4, 64], u: Out[u32, 4, 64]):
    groups(1, threads=64)
    v = x[thread]
    best, at = group_reduce(later, v, thread)
    y[0, thread] = best
    z[0, thread] = at
    a, b = group_sum(v, v * v)
    y[1, thread] = a
    y[2, thread] = b
    y[3, thread] = group_reduce(lambda p, q: maximum(p, q), v, width=8)
    y[4, thread] = group_scan(add, 0, v)
    y[5, thread] = group_xor(v, 33)
    one, two = group_scan(pairwise, (0, 1.0), v, f32(1.0), exclusive=True, width=16)
    y[6, thread] = one
    y[7, thread] = two
    z[1, thread] = i32(group_any(v > 3.0)) + 2 * i32(group_all(v < 100.0))
    z[2, thread] = i32(lane) * 100 + simd_width
    z[3, thread] = 0
    mask = simd_ballot(v > 0.0)
    u[0, thread] = mask.count()
    u[1, thread] = mask.below()
    u[2, thread] = (mask & ~simd_ballot(v > 1.0)).count()
    bins = shared((4,), u32)
    if thread < 4:
        bins[thread] = 0
    barrier()
    atomic_add(bins, thread & 3, u32(thread))
    barrier()
    u[3, thread] = bins[thread % 4]


@pytest.mark.parametrize("simd", [8, 32])
def test_together(simd: int):
    x = numbers(64)
    y, z = np.full((8, 64), np.nan, np.float32), np.zeros((4, 64), np.int32)
    u = np.zeros((4, 64), np.uint32)
    run(together, simd, x=x, y=y, z=z, u=u)
    assert (y[0] == x.max()).all()
    assert (z[0] == x.argmax()).all()
    assert np.allclose(y[1], x.sum(), atol=1e-5)
    assert np.allclose(y[2], (x * x).sum(), rtol=1e-5)
    assert np.array_equal(y[3], np.repeat(x.reshape(8, 8).max(1), 8))
    assert np.allclose(y[4], np.cumsum(x), atol=1e-5)
    assert np.array_equal(y[5], x[np.arange(64) ^ 33])
    runs = x.reshape(4, 16)
    assert np.allclose(y[6].reshape(4, 16), np.cumsum(runs, 1) - runs, atol=1e-5)
    assert (y[7] == 1).all()
    assert (z[1] == int((x > 3).any()) + 2).all()
    assert np.array_equal(z[2], np.arange(64) % simd * 100 + simd)
    positive = (x > 0).reshape(-1, simd)
    assert np.array_equal(u[0], np.repeat(positive.sum(1), simd))
    assert np.array_equal(u[1], (np.cumsum(positive, 1) - positive).ravel())
    low = positive & (x <= 1).reshape(-1, simd)
    assert np.array_equal(u[2], np.repeat(low.sum(1), simd))
    sums = np.arange(64).reshape(16, 4).sum(0)
    assert np.array_equal(u[3], np.tile(sums, 16))


@kernel
def counted(x: In[u32, N], bins: InOut[u32, 4], top: InOut[u32, 1]):
    (i,) = each(N)
    require(N > 0)
    atomic_add(bins, x[i] & 3, 1)
    atomic_max(top, 0, x[i])


def test_atomics_on_memory():
    x = numbers(1000, dtype=np.uint32)
    bins, top = np.ones(4, np.uint32), np.zeros(1, np.uint32)
    run(counted, x=x, bins=bins, top=top)
    assert np.array_equal(bins, np.bincount(x & 3, minlength=4) + 1)
    assert top[0] == x.max()
