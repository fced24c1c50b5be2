"""Tile kernels read from source: each form against numpy, and each refusal at its line."""

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iron.analysis.check import check
from iron.dtypes import bf16
from iron.front import specialise
from iron.lang import (
    Const,
    In,
    InOut,
    KernelFunction,
    Out,
    Scalar,
    atomic_add,
    barrier,
    dims,
    dtypes,
    each,
    exp2,
    f16,
    f32,
    full,
    group_sum,
    grouped,
    groups,
    i32,
    inf,
    inline,
    iota,
    kernel,
    lane,
    maximum,
    mma,
    pipelined,
    require,
    shared,
    stage,
    strided,
    thread,
    unrolled,
    where,
    zeros,
)
from tests.unit.front.trial import binding, read, refusal, run

M, N, K, B, D, P = dims("M N K B D P")
T = dtypes("T", f32, f16, bf16)
RNG = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def blank(*shape: int) -> Any:
    return np.full(shape, np.nan, np.float32)


# --- reads, writes, products ----------------------------------------------------------------------


@kernel
def product(
    a: In[T, M, K],
    b: In[T, N, K],
    c: Out[T, M, N],
    *,
    BM: Const = 16,
    BN: Const = 32,
    BK: Const = 8,
    STAGES: Const = 2,
    CONSUMERS: Const = 0,
):
    """c = a @ b.T"""
    A, W, C = a.tiles(BM, BK), b.tiles(BN, BK), c.tiles(BM, BN)
    m, n = groups(*C.grid, order=grouped(4))
    acc = zeros((BM, BN), f32)
    for k in pipelined(A.grid[1], stages=STAGES):
        acc = mma(A[m, k], W[n, k].T, acc)
    C[m, n] = acc.to(T)


@pytest.mark.parametrize("shape", [(1, 1, 1), (16, 32, 8), (17, 33, 9), (31, 7, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_product(shape, dtype):
    m, n, k = shape
    a, b = normal(m, k).astype(dtype), normal(n, k).astype(dtype)
    c = np.full((m, n), np.nan, dtype)
    found = run(product, a=a, b=b, c=c)
    wide = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.allclose(c, wide, rtol=2e-3 if dtype is np.float16 else 1e-5, atol=1e-5)
    assert found.schedule == (("CONSUMERS", 0), ("order", (0, 4, False)))
    assert found.threads == 1
    (loop,) = [op for op in found.body.walk() if op.name == "for"]
    assert loop.attr("stages") == 2
    sites = [op.attr("site") for op in found.body.walk() if "site" in op.row.attrs]
    assert sites == [0, 1, 2]


@kernel
def strips(x: In[f32, M, N], y: Out[f32, M, N]):
    """Left columns and right columns through views with ends known at run time."""
    (i,) = groups(M)
    half = (N + 1) // 2
    left, right = y[i, :half], y[i, half:]
    L, R = left.tiles(8), right.tiles(8)
    for j in range(L.grid[0]):
        L[j] = x[i, ::-2].tiles(8)[j]
    for j in range(R.grid[0]):
        R[j] = x[i, N - 2 :: -2].tiles(8)[j]


@kernel
def moved(x: In[f32, M, N, K], y: Out[f32, M, N, K], z: Out[f32, M, N], down: Scalar[i32]):
    """Matrices and rows out of boxes of 2 x 8, from places that need not be those of tiles."""
    X, Y, Z = x.tiles((2, 8), 16), y.tiles((2, 8), 16), z.tiles((2, 8))
    i, j, k = groups(*X.grid[0], X.grid[1])
    t = X.at((2 * i + down, 8 * j - 3), 16 * k + 1)
    Y[(i, j), k] = t
    if k == 0:
        Z[i, j] = (X[(i, j), k] + t).sum(axis=1)


@pytest.mark.parametrize("down", [-1, 0, 5])
def test_joined_axes_and_places(down):
    x, y, z = normal(5, 19, 17), blank(5, 19, 17), blank(5, 19)
    run(moved, x=x, y=y, z=z, down=down)
    wide = np.pad(x, ((8, 8), (8, 8), (0, 1)))
    want = wide[8 + down :, 5:, 1:][:5, :19, :17]
    assert np.array_equal(y, want)
    assert np.allclose(z, x[..., :16].sum(-1) + want[..., :16].sum(-1), atol=1e-5)


def test_views():
    x, y = normal(5, 23), blank(5, 23)
    run(strips, x=x, y=y)
    assert (y == np.concatenate([x[:, ::-2], x[:, 21::-2]], 1)).all()


@kernel
def bounded(x: In[f32, M, N], ends: In[i32, M, 2], y: Out[f32, M]):
    """The sum of x[i, low:high], with bounds read at run time."""
    (i,) = groups(M)
    part = x[i, ends[i, 0] : ends[i, 1]]
    total = f32(0)
    for j in range(part.tiles(8).grid[0]):
        total += part.tiles(8)[j].sum()
    y[i] = total


def test_run_time_bounds():
    x, y = normal(4, 30), blank(4)
    ends = np.int32([[0, 30], [3, 12], [7, 7], [29, 30]])
    run(bounded, x=x, ends=ends, y=y)
    assert np.allclose(y, [x[i, a:b].sum() for i, (a, b) in enumerate(ends)], atol=1e-5)


@kernel
def heads(x: In[f32, B, M, D], y: Out[f32, B, M, D], *, BM: Const = 16):
    """A head size that is no legal side is padded where it is the whole axis."""
    i, b = groups(x[0].tiles(BM, D).grid[0], B)
    t = x[b].tiles(BM, D)[i, 0]
    y[b].tiles(BM, D)[i, 0] = t + zeros((BM, D), f32) + 0 * iota(D).to(f32)[None, :]


@pytest.mark.parametrize("size", [16, 72, 80, 100])
def test_head_sizes_are_padded(size):
    x, y = normal(2, 19, size), blank(2, 19, size)
    found = run(heads, x=x, y=y)
    assert (x == y).all()
    (read_,) = [op for op in found.body.walk() if op.name == "tile_read"]
    assert read_.attr("shape") == (16, {72: 80, 100: 112}.get(size, size))


@kernel
def running(x: In[f32, M, N], y: InOut[f32, M, N]):
    """y += x, in place, and a number stored to a whole tile."""
    i, j = groups(*x.tiles(8, 8).grid)
    Y = y.tiles(8, 8)
    Y[i, j] += x.tiles(8, 8)[i, j]
    y[0].tiles(8)[0] = y[0].tiles(8)[0]


def test_in_place():
    x, y = normal(9, 8), normal(9, 8)
    wanted = x + y
    assert refusal(running, x=x, y=y.copy()).id == "E0410"
    run(running, x=x[:8], y=y[:8])
    assert (y[:8] == wanted[:8]).all()


# --- values ---------------------------------------------------------------------------------------


@kernel
def softmax(x: In[T, M, N], y: Out[T, M, N], scale: Scalar[f32], *, BN: Const = 64):
    (i,) = groups(x.tiles(4, BN).grid[0])
    require(N <= BN)
    t = x.tiles(4, BN)[i, 0].to(f32) * scale
    keep = (iota(BN) < N)[None, :]
    t = where(keep, t, -inf)
    e = exp2((t - t.max(axis=1)[:, None]) * 1.4426950408889634)
    y.tiles(4, BN)[i, 0] = (e / e.sum(axis=-1)[:, None]).to(T)


def test_softmax():
    x, y = normal(7, 37), blank(7, 37)
    run(softmax, x=x, y=y, scale=2.0)
    e = np.exp(2 * x - (2 * x).max(1, keepdims=True))
    assert np.allclose(y, e / e.sum(1, keepdims=True), atol=1e-6)


@kernel
def shapes(x: In[f32, 8, 4], y: Out[f32, 8, 4], facts: Out[f32, 8]):
    (_,) = groups(1)
    t = x.tiles(8, 4)[0, 0]
    rows, cols = iota(8, f32)[:, None], iota(4, f32)[None, :]
    checked = (t.shape == (8, 4)) + 2 * (t.rank == 2) + 4 * (t.dtype is f32)
    both = maximum(t, 0.5) * rows + cols**2 - 1
    both = where(rows > cols, both, t) + t[None].max(axis=0).min()
    facts[0], facts[1] = t.max(), t.T.sum()
    facts[2], facts[3] = f32((t > 0).any()), f32((t > -9).all())
    facts[4], facts[5] = f32(checked), (t.T[:, :].T - t).sum()
    facts[6] = ((iota(8) // 2 * 3 % 4 | 8) << 1).max().to(f32)
    facts[7] = (~iota(8) & 5 ^ 1).min().to(f32)
    y.tiles(8, 4)[0, 0] = both


def test_shapes_and_reductions():
    x, y, facts = normal(8, 4), blank(8, 4), blank(8)
    run(shapes, x=x, y=y, facts=facts)
    rows, cols = np.arange(8)[:, None], np.arange(4)[None, :]
    wanted = np.where(rows > cols, np.maximum(x, 0.5) * rows + cols**2 - 1, x) + x.min()
    assert np.allclose(y, wanted, atol=1e-6)
    i = np.arange(8)
    numbers = [((i // 2 * 3 % 4 | 8) << 1).max(), (~i & 5 ^ 1).min()]
    assert np.allclose(facts, [x.max(), x.sum(), 1, 1, 7, 0, *numbers], atol=1e-5)


@kernel
def branches(x: In[f32, M, 16], pick: In[i32, M], y: Out[f32, M, 16]):
    """Tiles through branches, lists, helpers and loops that break."""
    (i,) = groups(M)
    X, Y = x.tiles(1, 16), y.tiles(1, 16)
    parts = [X[i, 0], 2 * X[i, 0]]
    if pick[i] > 1:
        parts[0] = parts[1] - parts[0]
        t = full((1, 16), 1.0, f32)
    else:
        t = zeros((1, 16), f32)
    for j in range(5):
        if j == pick[i]:
            break
        t = twice(t, parts[0])
    for part in parts:
        t += part
    Y[i, 0] = t if pick[i] != 3 else -t


@inline
def twice(t, x):
    return t + x + x


def test_control_flow():
    x, y = normal(6, 16), blank(6, 16)
    pick = np.int32([0, 1, 2, 3, 4, 9])
    run(branches, x=x, pick=pick, y=y)
    turns = np.minimum(pick, 5)[:, None]
    wanted = (pick[:, None] > 1) + (2 * turns + 3) * x
    assert np.allclose(y, np.where(pick[:, None] == 3, -wanted, wanted), atol=1e-5)


@kernel
def maths(a: In[f32, 16, 16], y: Out[f32, 16, 16], *, MATH: Const = "strict"):
    (_,) = groups(1)
    t = a.tiles(16, 16)[0, 0]
    y.tiles(16, 16)[0, 0] = mma(t, t.T, zeros((16, 16), f32), math=MATH)


def test_math():
    a = normal(16, 16)
    exact = a.astype(np.float64) @ a.astype(np.float64).T
    errors = {}
    for math in ("strict", "split", "tf32"):
        y = blank(16, 16)
        run(maths, a=a, y=y, MATH=math)
        errors[math] = np.abs(y - exact).max()
    assert errors["strict"] < errors["split"] < errors["tf32"] < 0.1
    assert refusal(maths, a=a, y=blank(16, 16), MATH="fast").id == "E0113"


# --- gathers, staging, threads --------------------------------------------------------------------


@kernel
def rows_of(table_: In[f32, M, N], ids: In[i32, P], y: Out[f32, P, N], *, BN: Const = 8):
    """y[p] = table[ids[p]], 0 where the index is outside or a multiple of 5."""
    p, j = groups(y.tiles(4, BN).grid[0], y.tiles(4, BN).grid[1])
    at = ids.tiles(4)[p]
    cols = j * BN + iota(BN)
    t = table_.gather(at[:, None], cols[None, :], keep=(at % 5 != 0)[:, None])
    y.tiles(4, BN)[p, j] = t


@kernel
def columns_to(x: In[f32, 4, N], ids: In[i32, N], y: InOut[f32, 4, M]):
    (j,) = groups(x.tiles(4, 8).grid[1])
    at = ids.tiles(8)[j]
    cols = j * 8 + iota(8)
    y[1:3].scatter(iota(2)[:, None], at[None, :], value=x[1:3].tiles(2, 8)[0, j], keep=cols < N)
    y[3].scatter(at, value=1.0, keep=cols < N)


def test_gather_and_scatter():
    table_, ids, y = normal(9, 21), np.int32([3, 8, -1, 0, 5, 9, 4]), blank(7, 21)
    run(rows_of, table_=table_, ids=ids, y=y)
    kept = ((ids % 5 != 0) & (ids >= 0) & (ids < 9))[:, None]
    assert (y == np.where(kept, table_[np.clip(ids, 0, 8)], 0)).all()
    x, ids, y = normal(4, 10), RNG.permutation(12)[:10].astype(np.int32), np.zeros((4, 12), "f4")
    run(columns_to, x=x, ids=ids, y=y)
    wanted = np.zeros((4, 12), np.float32)
    wanted[1:3, ids], wanted[3, ids] = x[1:3], 1
    assert (y == wanted).all()


@kernel
def staged(x: In[f32, M, 16], y: Out[f32, M, 16], sums: Out[f32, M]):
    """Threads and tile ops share an array; the diagonal is doubled by threads."""
    (i,) = groups(x.tiles(16, 16).grid[0])
    s = stage(x.tiles(16, 16)[i, 0])
    for r in strided(16):
        s[r, r] = 2 * s[r, r]
    barrier()
    y.tiles(16, 16)[i, 0] = s.tiles(16, 16)[0, 0]
    sums.tiles(16)[i] = s.tiles(16, 8)[0, 0].sum(axis=1) + s[:, 8:].tiles(16, 8)[0, 0].sum(axis=1)


def test_stage():
    x, y, sums = normal(32, 16), blank(32, 16), blank(32)
    run(staged, x=x, y=y, sums=sums)
    wanted = x.copy()
    wanted[np.arange(32), np.arange(32) % 16] *= 2
    assert (y == wanted).all()
    assert np.allclose(sums, wanted.sum(1), atol=1e-5)


@kernel
def shares(x: In[f32, M, N], y: Out[f32, M, N]):
    """Scalars of threads, combined before a tile uses them; group memory of the author."""
    (i,) = groups(M)
    held = shared((2,), f32)
    total = f32(0)
    for j in strided(N, 2):
        for k in unrolled(2):
            total += x[i, j + k] if j + k < N else f32(0)
    total = group_sum(total)
    held[1] = total
    barrier()
    Y = y[i].tiles(8)
    for j in range(Y.grid[0]):
        Y[j] = x[i].tiles(8)[j] - held[1] / N


def test_threads_beside_tiles():
    x, y = normal(3, 21), blank(3, 21)
    found = run(shares, x=x, y=y)
    check(found)
    assert np.allclose(y, x - x.mean(1, keepdims=True), atol=1e-5)
    loop = next(op for op in found.body.walk() if op.name == "for")
    step = loop.args[2].op
    assert step.name == "mul"
    assert "threads" in {a.op.name for a in step.args}


@kernel
def alone(x: In[f32, N], y: Out[f32, N]):
    (_,) = groups(1)
    for i in strided(N):
        y[i] = x[i] + f32(thread)


def test_a_group_without_tiles_is_one_thread():
    x, y = normal(9), blank(9)
    found = run(alone, x=x, y=y)
    assert (x == y).all()
    assert not any(op.name == "threads" for op in found.body.walk())


# --- refusals -------------------------------------------------------------------------------------

CASES: list[tuple[str, KernelFunction]] = []


def refused(id: str) -> Callable[[Callable[..., Any]], KernelFunction]:
    """Registers a kernel that is to be refused with `id` at the line that ends in `# !`."""

    def register(fn: Callable[..., Any]) -> KernelFunction:
        made = kernel(fn)
        CASES.append((id, made))
        return made

    return register


@refused("E0212")
def odd_side(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(12, 8)[i, 0]  # !


@refused("E0212")
def half_an_axis(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(24, 8)[i, 0]  # !


@refused("E0212")
def wide_full(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (_,) = groups(4)
    full((72, 8), 1.0, f32)  # !


@refused("E0212")
def far_too_large(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (_,) = groups(4)
    zeros((1024, 1024), f32)  # !


@refused("E0212")
def shapes_that_do_not_meet(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(8, 8)[i, 0] + x.tiles(16, 8)[i, 0]  # !


@refused("E0212")
def product_of_rows(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    mma(x.tiles(8, 16)[i, 0], x.tiles(8, 16)[i, 0], zeros((8, 8), f32))  # !


@refused("E0212")
def store_of_another_shape(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    y.tiles(16, 8)[i, 0] = x.tiles(8, 8)[i, 0]  # !


@refused("E0201")
def arithmetic_on_storage(x: In[f16, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(8, 8)[i, 0] * 2.0  # !


@refused("E0201")
def store_of_another_dtype(x: In[f16, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    y.tiles(8, 8)[i, 0] = x.tiles(8, 8)[i, 0]  # !


@refused("E0201")
def mixed_product(x: In[f16, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    mma(x.tiles(8, 8)[i, 0], zeros((8, 8), f32), zeros((8, 8), f32))  # !


@refused("E0208")
def part_of_a_tile(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(8, 8)[i, 0][0]  # !


@refused("E0208")
def too_few_sides(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(8)[i]  # !


@refused("E0208")
def too_few_indices(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(8, 8)[i]  # !


@refused("E0208")
def last_tile(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(8, 8)[-1, i]  # !


@refused("E0208")
def float_index(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(8, 8)[f32(i), 0]  # !


@refused("E0208")
def gather_of_scalars(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.gather(i, i)  # !


@refused("E0105")
def unknown_fact(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(8, 8)[i, 0].mean()  # !


@refused("E0204")
def grid_as_a_value(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (_,) = groups(4)
    x.tiles(8, 8) + 1.0  # !


@refused("E0401")
def write_of_an_input(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(8, 8)[i, 0] = 1.0  # !


@refused("E0302")
def tile_before_the_launch(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    x.tiles(8, 8)[0, 0]  # !
    (_,) = groups(4)


@refused("E0305")
def tile_of_each(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = each(4)
    x.tiles(8, 8)[i, 0]  # !


@refused("E0306")
def tile_with_threads(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4, threads=64)
    x.tiles(8, 8)[i, 0]  # !


@refused("E0306")
def thread_after_a_tile(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(8, 8)[i, 0]
    y[i, thread] = 1.0  # !


@refused("E0306")
def tile_after_a_lane(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    y[i, lane] = 1.0
    x.tiles(8, 8)[i, 0]  # !


@refused("E0104")
def break_of_a_pipelined_loop(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    for k in pipelined(8, stages=2):  # !
        if y[i, k] > 0:
            break


@refused("E0106")
def no_stages(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (_,) = groups(4)
    for _k in pipelined(8, stages=0):  # !
        pass


@refused("E0113")
def order_of_a_number(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (_,) = groups(4, order=8)  # !


@refused("E0113")
def order_of_no_axis(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (_,) = groups(4, order=grouped(8, axis=1))  # !


@refused("E0204")
def stage_of_a_view(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (_,) = groups(4)
    stage(x)  # !


@refused("E0208")
def joined_without_a_tuple(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles((4, 4))[i]  # !


@refused("E0208")
def a_tuple_without_joined_axes(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(4, 4).at((i, 0), 0)  # !


@refused("E0208")
def too_many_joined(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (_,) = groups(4)
    x.tiles((4, 4), 4)  # !


@refused("E0212")
def joined_sides_that_are_no_side(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (_,) = groups(4)
    x.tiles((2, 3))  # !


@refused("E0207")
def side_at_run_time(x: In[f32, 64, 64], y: Out[f32, 64, 64]):
    (i,) = groups(4)
    x.tiles(i, 8)[0, 0]  # !


@pytest.mark.parametrize(("id", "fn"), CASES, ids=[fn.name for _, fn in CASES])
def test_refused(id: str, fn: KernelFunction):
    spec = fn.signature["x"].dtype
    wrong = refusal(fn, x=np.zeros((64, 64), spec.np), y=blank(64, 64)).diagnostic
    assert wrong.id == id, wrong.message
    assert wrong.loc is not None
    assert linecache.getline(wrong.loc.file, wrong.loc.line).rstrip().endswith("# !")
    assert wrong.help or id == "E0105", wrong.message


# --- what the check of values refuses -------------------------------------------------------------


def checked(fn: KernelFunction, **given: Any) -> str:
    """The id with which the analysis refuses a kernel that reads well; nothing when it does not."""
    try:
        check(specialise(fn, binding(fn, given), 32))
    except Exception as wrong:
        diagnostic: Any = wrong.diagnostic  # pyright: ignore[reportAttributeAccessIssue]
        line = linecache.getline(diagnostic.loc.file, diagnostic.loc.line)
        assert "# !" in line, diagnostic.text()
        return diagnostic.id
    return ""


@kernel
def sums(x: In[f32, 64, 64], y: Out[f32, 64, 64], *, WRONG: Const = 0):
    (i,) = groups(8)
    total = f32(0)
    for j in strided(64):
        total += x[i, j]
        if WRONG == 1:
            y.tiles(8, 64)[i, 0] = full((8, 64), total, f32)  # !
    if WRONG != 2:
        total = group_sum(total)
    t = zeros((8, 64), f32) + total  # !
    y.tiles(8, 64)[i, 0] = t


@kernel
def scalar_store(x: In[f32, 64, 64], y: Out[f32, 64, 64], *, WRONG: Const = 0):
    (i,) = groups(64)
    total = f32(0)
    for j in strided(64):
        total += x[i, j]
        y[i, j] = total
    y[i, 0] = x.tiles(1, 64)[i, 0].sum() + (total if WRONG else 0.0)  # !


@kernel
def writers(x: In[f32, 64, 64], y: Out[f32, 64, 64], *, GROUPS: Const, WRONG: Const = 0):
    i, j = groups(8, GROUPS)
    for k in range(8 // GROUPS):
        at = k if WRONG == 1 else k * GROUPS + j
        y.tiles(8, 8)[i, at] = x.tiles(8, 8)[i, at]  # !
    if j == 0:
        y.tiles(8, 8)[i, 0] = zeros((8, 8), f32)


@kernel
def early(x: In[f32, 64, 64], y: InOut[f32, 64, 64], *, WRONG: Const = 0):
    (i,) = groups(8)
    Y = y.tiles(8, 8)
    t = zeros((8, 8), f32)
    if WRONG == 1:
        for k in pipelined(8):
            t += Y[i, k]  # !
            Y[i, k] = t
    if WRONG == 2:
        for k in range(8):
            t += Y[i, k]
            Y[i, k] = t
    if WRONG == 3:
        for k in pipelined(8):
            t += Y[i, k]
    Y[i, 0] = t


@pytest.mark.parametrize(
    ("fn", "consts", "id"),
    [
        (sums, {}, ""),
        (sums, {"WRONG": 1}, "E0312"),
        (sums, {"WRONG": 2}, "E0307"),
        (scalar_store, {}, ""),
        (scalar_store, {"WRONG": 1}, "E0307"),
        (writers, {"GROUPS": 2}, ""),
        (writers, {"GROUPS": 2, "WRONG": 1}, "E0407"),
        (writers, {"GROUPS": 1, "WRONG": 1}, ""),
        (early, {"WRONG": 1}, "E0406"),
        (early, {"WRONG": 2}, ""),
        (early, {"WRONG": 3}, ""),
    ],
)
def test_the_check_of_values(fn, consts, id):
    assert checked(fn, x=normal(64, 64), y=blank(64, 64), **consts) == id


def test_atomics_count_once_for_the_group():
    @kernel
    def counts(x: In[f32, 64, 64], y: InOut[i32, 1]):
        (i,) = groups(8)
        found = (x.tiles(8, 64)[i, 0] > 0).to(i32).sum()
        atomic_add(y, 0, found)

    x, y = normal(64, 64), np.zeros(1, np.int32)
    run(counts, x=x, y=y)
    assert y[0] == (x > 0).sum()


def test_dims_are_specialised_by_sides_alone():
    x = normal(2, 19, 32)
    found = read(heads, x=x, y=blank(2, 19, 32))
    assert [p.name for p in found.params if p.role == "dim"] == ["B", "M"]


def test_tiles_run_where_there_are_threads():
    import iron

    x = normal(5, 21)
    with iron.use("interp"):
        wanted = softmax(x, scale=1.0)
    with iron.use("cpu"):
        assert np.allclose(softmax(x, scale=1.0), wanted, atol=1e-6)
    assert np.allclose(wanted.sum(1), 1, atol=1e-5)
