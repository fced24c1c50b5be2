"""Tiles in the interpreter: meaning on ragged shapes, and one planted fault for each check."""

import numpy as np
import pytest

from iron.dtypes import bf16, bool_, f16, f32, i8, i32, i64, u8, u32
from iron.errors import KernelError
from iron.ir.core import Value
from iron.ir.interp import run
from iron.ir.types import tensor
from tests.unit.ir.handmade import Handmade
from tests.unit.ir.test_tile_rows import product

RNG = np.random.default_rng(7)


def program(**spaces) -> Handmade:
    """A tile kernel with the rank and space of each of its f32 tensors, such as x=(2, "in")."""
    p = Handmade(threads=1, simd=32)
    for name, (rank, space, *elem) in spaces.items():
        p.tensor(name, elem[0] if elem else f32, space, rank)
    return p


def window(p: Handmade, name: str, starts, extents, *, base=None):
    """The operands of an access to a tensor whose axes are all the view's."""
    rank = len(starts)
    base = base or [0] * rank
    numbers = (*base, *starts, *extents)
    held = [n if isinstance(n, Value) else p.const(n) for n in numbers]
    return (p.values[name] if isinstance(name, str) else name, *held)


def read(p: Handmade, name: str, shape, starts, extents, *, steps=None, axes=None, base=None):
    axes = axes or tuple(range(len(starts)))
    attrs = (shape, axes, steps or (1,) * len(axes), 0)
    return p.emit("tile_read", *window(p, name, starts, extents, base=base), attrs=attrs)


def write(p: Handmade, name: str, value: Value, starts, extents, *, steps=None, shape=None):
    many = len(starts)
    attrs = (shape or value.type.shape, tuple(range(many)), steps or (1,) * many)
    p.do("tile_write", *window(p, name, starts, extents), value, attrs=attrs)


def ran(p: Handmade, arrays, grid=(1,), **rest):
    run(p.done(), arrays, {}, {}, grid, **rest)


def fails(p: Handmade, id: str, message: str, arrays, grid=(1,)) -> None:
    with pytest.raises(KernelError, match=message) as wrong:
        ran(p, arrays, grid)
    assert wrong.value.id == id


def nan(*shape):
    return np.full(shape, np.nan, np.float32)


# --- the whole ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1, 1), (16, 32, 8), (17, 33, 9), (50, 70, 41), (5, 3, 0)])
def test_product_on_ragged_shapes(shape):
    m, n, k = shape
    a, b = (RNG.normal(size=s).astype(np.float16) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float16)
    grid = (-(-m // 16), -(-n // 32))
    run(product(), {"a": a, "b": b, "c": c}, {}, {"M": m, "N": n, "K": k}, grid)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert (np.abs(c - exact) <= 2e-3 * np.abs(exact) + 1e-6 * scale + 1e-7).all()


# --- reads and writes -----------------------------------------------------------------------------


@pytest.mark.parametrize("at", [-8, -4, -1, 0, 3, 7, 8, 100])
def test_outside_is_zero_and_dropped(at):
    """A view of 7 elements from element 2 on, of every second element."""
    p = program(x=(1, "in"), y=(1, "out"))
    t = read(p, "x", (4,), [at], [7], steps=(2,), base=[2])
    write(p, "y", t, [0], [4])
    x, y = np.arange(1, 17, dtype=np.float32), nan(4)
    ran(p, {"x": x, "y": y})
    view = x[2::2][:7]
    wanted = [view[u] if 0 <= u < 7 else 0 for u in range(at, at + 4)]
    assert y.tolist() == wanted


def test_a_write_drops_what_is_outside():
    p = program(x=(2, "in"), y=(2, "out"))
    t = read(p, "x", (4, 4), [0, 0], [4, 4])
    write(p, "y", t, [0, 0], [3, 2])
    x, y = RNG.normal(size=(4, 4)).astype(np.float32), nan(3, 2)
    ran(p, {"x": x, "y": y})
    assert (y == x[:3, :2]).all()


@pytest.mark.parametrize("strided", [False, True])
def test_axes_steps_and_fixed_indices(strided):
    """x[1, ::-1, :, 2].T in tiles, of an array in memory order and of a transposed one."""
    p = program(x=(4, "in"), y=(2, "out"))
    t = read(p, "x", (8, 4), [0, 0], [6, 4], axes=(2, 1), steps=(1, -1), base=[1, 3, 0, 2])
    write(p, "y", t, [0, 0], [6, 4])
    x, y = RNG.normal(size=(2, 4, 6, 3)).astype(np.float32), nan(6, 4)
    x = np.asfortranarray(x) if strided else x
    ran(p, {"x": x, "y": y})
    assert (y == x[1, ::-1, :, 2].T).all()


def test_groups_and_masks():
    """Groups with different numbers of turns, each adding tiles until its own end."""
    p = program(x=(2, "in"), y=(2, "out"))
    g = p.group()
    zero = p.emit("tile_full", p.const(0.0, f32), attrs=((4,),))
    turn, held = Value(i32), Value(zero.type)
    with p.b.block((turn, held)) as body:
        row = p.emit("tile_read", p.values["x"], turn, p.const(0), p.const(0), p.const(3),
                     attrs=((4,), (1,), (1,), 0))  # fmt: skip
        p.do("yield", p.emit("add", held, row))
    (total,) = p.do("for", p.const(0), g, p.const(1), zero, attrs=(False, 2), regions=(body,))
    with p.b.block() as then:
        p.do("yield", p.emit("neg", total))
    with p.b.block() as other:
        p.do("yield", total)
    odd = p.emit("eq", p.emit("mod", g, p.const(2)), p.const(1))
    (result,) = p.do("if", odd, regions=(then, other))
    p.do("tile_write", p.values["y"], g, p.const(0), p.const(0), p.const(3), result,
         attrs=((4,), (1,), (1,)))  # fmt: skip
    x, y = RNG.normal(size=(5, 3)).astype(np.float32), nan(6, 3)
    ran(p, {"x": x, "y": y}, (6,))
    wanted = [(-1) ** g * x[:g].sum(0) for g in range(6)]
    assert np.allclose(y, wanted, atol=1e-5)


def test_chunks_of_groups_agree(monkeypatch):
    from iron.ir.interp import tile

    a, b = (RNG.normal(size=s).astype(np.float16) for s in ((50, 20), (20, 70)))
    sizes = {"M": 50, "N": 70, "K": 20}
    out = []
    for chunk in (1 << 18, 1):
        monkeypatch.setattr(tile, "CHUNK", chunk)
        c = np.full((50, 70), np.nan, np.float16)
        run(product(), {"a": a, "b": b, "c": c}, {}, sizes, (4, 3))
        out.append(c)
    assert (out[0] == out[1]).all()


# --- checks, each with a planted fault ------------------------------------------------------------


def test_a_view_beyond_the_tensor():
    p = program(x=(1, "in"), y=(1, "out"))
    write(p, "y", read(p, "x", (8,), [0], [6]), [0], [8])
    fails(p, "E0404", "index 5 is outside axis 0 of `x`", {"x": np.ones(5, "f4"), "y": nan(8)})


def test_a_fixed_index_beyond_the_tensor_counts_only_where_something_is_read():
    for index, extent, bad in [(2, 4, True), (1, 4, False), (2, 0, False)]:
        p = program(x=(2, "in"), y=(1, "out"))
        t = read(p, "x", (4,), [0], [extent], axes=(1,), base=[index, 0])
        write(p, "y", t, [0], [4])
        arrays = {"x": np.ones((2, 4), np.float32), "y": nan(4)}
        if bad:
            fails(p, "E0404", "index 2 is outside axis 0 of `x`", arrays)
        else:
            ran(p, arrays)


def test_reading_what_nobody_wrote():
    p = program(x=(1, "out"), y=(1, "out"))
    one = p.emit("tile_full", p.const(1.0, f32), attrs=((4,),))
    write(p, "x", one, [0], [4])
    write(p, "y", read(p, "x", (8,), [0], [8]), [0], [8])
    fails(p, "E0402", r"`x\[4\]` is read before", {"x": nan(8), "y": nan(8)})


def test_leaving_an_output_unwritten():
    p = program(y=(1, "out"))
    write(p, "y", p.emit("tile_full", p.const(1.0, f32), attrs=((4,),)), [0], [3])
    fails(p, "E0402", "1 of 4 elements are never written", {"y": nan(4)})


@pytest.mark.parametrize("apart", [4, 3])
def test_two_groups_write_one_tile(apart):
    p = program(y=(1, "out"))
    at = p.emit("mul", p.group(), p.const(apart))
    write(p, "y", p.emit("tile_full", p.const(1.0, f32), attrs=((4,),)), [at], [8])
    if apart == 4:
        ran(p, {"y": nan(8)}, (2,))
    else:
        fails(
            p, "E0410", "a tile op of group 0 writes it, a tile op of group 1", {"y": nan(8)}, (2,)
        )


def test_one_group_reads_what_another_writes():
    p = program(y=(1, "inout"))
    at = p.emit("mul", p.group(), p.const(4))
    t = read(p, "y", (4,), [p.emit("sub", p.const(4), at)], [8])
    write(p, "y", t, [at], [8])
    fails(p, "E0410", "race on `y", {"y": np.ones(8, np.float32)}, (2,))


@pytest.mark.parametrize("barrier", [True, False])
@pytest.mark.parametrize("reads", [True, False])
def test_threads_and_tile_ops_need_a_barrier(barrier, reads):
    """A thread writes the array that a tile op reads, or a tile op writes what a thread reads."""
    p = program(y=(1, "out"))
    held = p.emit("shared", attrs=(tensor(f32, 1, "shared", (4,)),))
    one = p.const(1.0, f32)
    if reads:
        for i in range(4):
            p.store(held, p.const(i), one)
    else:
        write(p, held, p.emit("tile_full", one, attrs=((4,),)), [0], [4])
    if barrier:
        p.do("barrier")
    total = read(p, held, (4,), [0], [4])
    if not reads:
        total = p.emit("tile_full", p.load(held, p.const(2)), attrs=((4,),))
    write(p, "y", total, [0], [4])
    if barrier:
        y = nan(4)
        ran(p, {"y": y})
        assert (y == 1).all()
    else:
        fails(p, "E0410", "nothing orders the two", {"y": nan(4)})


def test_stages():
    """Each group's own array; threads may read and write it at once."""
    p = program(x=(2, "in"), y=(2, "out"))
    at = p.emit("mul", p.group(), p.const(4))
    s = p.emit("tile_stage", read(p, "x", (4, 2), [at, 0], [7, 2]))
    corner = p.load(s, p.const(1), p.const(1))
    p.store(s, p.const(0), p.const(0), p.emit("mul", corner, p.const(2.0, f32)))
    p.do("barrier")
    write(p, "y", read(p, s, (4, 2), [0, 0], [4, 2]), [at, 0], [7, 2])
    x, y = RNG.normal(size=(7, 2)).astype(np.float32), nan(7, 2)
    ran(p, {"x": x, "y": y}, (2,))
    wanted = x.copy()
    wanted[0, 0], wanted[4, 0] = 2 * x[1, 1], 2 * x[5, 1]
    assert (y == wanted).all()


# --- gathers --------------------------------------------------------------------------------------


def gathered(p: Handmade, index: Value, keep: Value, value: Value | None = None):
    x = p.values["x"]
    operands = (x, p.const(1), index, p.const(5), keep)
    if value is None:
        return p.emit("tile_gather", *operands, attrs=((0,), (2,), 0))
    return p.do("tile_scatter", *operands, value, attrs=((0,), (2,)))


def test_gather_and_scatter():
    """Through the view x[1:11:2], with indices on both sides outside."""
    p = program(x=(1, "in"), i=(1, "in", i64), k=(1, "in", bool_), y=(1, "out"))
    index, keep = read(p, "i", (8,), [0], [8]), read(p, "k", (8,), [0], [8])
    write(p, "y", gathered(p, index, keep), [0], [8])
    x, y = np.arange(100, 116, dtype=np.float32), nan(8)
    i = np.array([0, 4, 5, -1, 1, 1, 1 << 40, 2])
    k = np.array([1, 1, 1, 1, 0, 1, 1, 1], bool)
    ran(p, {"x": x, "i": i, "k": k, "y": y})
    assert y.tolist() == [101, 109, 0, 0, 0, 103, 0, 105]

    p = program(x=(1, "inout"), i=(1, "in", i64), k=(1, "in", bool_), y=(1, "in"))
    index, keep = read(p, "i", (8,), [0], [8]), read(p, "k", (8,), [0], [8])
    gathered(p, index, keep, read(p, "y", (8,), [0], [8]))
    x, y = np.zeros(16, np.float32), np.arange(1, 9, dtype=np.float32)
    ran(p, {"x": x, "i": i, "k": k, "y": y})
    assert x.nonzero()[0].tolist() == [1, 3, 5, 9]
    assert x[[1, 3, 5, 9]].tolist() == [1, 6, 8, 2]


@pytest.mark.parametrize("twice", [True, False])
def test_two_elements_scattered_to_one_place(twice):
    p = program(x=(1, "inout"))
    index = p.emit("tile_iota", attrs=(4, i32))
    if twice:
        index = p.emit("floordiv", index, p.const(2, index.type))
    keep = p.emit("tile_full", p.const(True, bool_), attrs=((4,),))
    gathered(p, index, keep, p.emit("tile_full", p.const(1.0, f32), attrs=((4,),)))
    x = np.zeros(16, np.float32)
    if twice:
        fails(p, "E0410", r"elements \[0\] and \[1\] of the tile are scattered", {"x": x})
    else:
        ran(p, {"x": x})
        assert x.sum() == 4


# --- values ---------------------------------------------------------------------------------------


def result(p: Handmade, value: Value, out, arrays=None):
    """The value that one group computes."""
    shape = value.type.shape
    write(p, "y", value, [0] * len(shape), list(shape))
    ran(p, {**(arrays or {}), "y": out})
    return out


@pytest.mark.parametrize(
    ("kind", "elem"),
    [
        *[("add", f32), ("max", f32), ("min", f32), ("mul", f32), ("add", i32), ("max", u32)],
        *[("and", i32), ("or", i32), ("and", bool_), ("or", bool_), ("add", i8)],
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(kind, elem, axis):
    x = RNG.normal(size=(8, 4)) * 40
    x = (x > 0) if elem is bool_ else x.astype(elem.np)
    p = program(x=(2, "in", elem), y=(1, "out", elem))
    t = p.emit("tile_reduce", read(p, "x", (8, 4), [0, 0], [8, 4]), attrs=(kind, axis))
    out = result(p, t, np.zeros(t.type.shape, elem.np), {"x": x})
    of = {"add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply}
    ufunc = of.get(kind) or {"and": np.bitwise_and, "or": np.bitwise_or}[kind]
    assert np.allclose(out, ufunc.reduce(x, axis=axis, dtype=x.dtype), rtol=1e-5)


def test_a_reduction_to_a_scalar_and_nan():
    p = program(x=(1, "in"), y=(1, "out"))
    top = p.emit("tile_reduce", read(p, "x", (4,), [0], [4]), attrs=("max", 0))
    t = p.emit("tile_full", top, attrs=((2,),))
    assert np.isnan(result(p, t, np.zeros(2, "f4"), {"x": np.array([1, np.nan, 3, 4], "f4")})).all()


def test_shapes():
    p = program(x=(1, "in"), y=(2, "out"))
    x = read(p, "x", (4,), [0], [4])
    column = p.emit("tile_broadcast", p.emit("tile_expand", x, attrs=(1,)), attrs=((4, 8),))
    row = p.emit("cast", p.emit("tile_iota", attrs=(8, i32)), attrs=(f32,))
    row = p.emit("tile_broadcast", p.emit("tile_expand", row, attrs=(0,)), attrs=((4, 8),))
    both = p.emit("tile_transpose", p.emit("add", column, row))
    x = np.array([10, 20, 30, 40], np.float32)
    out = result(p, both, nan(8, 4), {"x": x})
    assert (out == (x[:, None] + np.arange(8)).T).all()


@pytest.mark.parametrize(("left", "right"), [(i8, i8), (u8, u8), (i8, u8), (u8, i8)])
def test_integer_products_are_exact(left, right):
    p = program(a=(2, "in", left), b=(2, "in", right), y=(2, "out", i32))
    x, y = read(p, "a", (4, 64), [0, 0], [4, 64]), read(p, "b", (64, 8), [0, 0], [64, 8])
    total = p.emit("tile_full", p.const(-3), attrs=((4, 8),))
    a = RNG.integers(left.min, left.max + 1, (4, 64)).astype(left.np)
    b = RNG.integers(right.min, right.max + 1, (64, 8)).astype(right.np)
    out = result(p, p.emit("mma", x, y, total, attrs=("strict", 0)), np.zeros((4, 8), "i4"),
                 {"a": a, "b": b})  # fmt: skip
    assert (out == a.astype(np.int64) @ b.astype(np.int64) - 3).all()


ERRORS = {"strict": 2**-23, "split": 2**-15, "tf32": 2**-10}


@pytest.mark.parametrize("math", ERRORS)
def test_math_of_f32_products(math):
    """Each way errs as much as it may, and more than the next better one may."""
    p = program(a=(2, "in"), b=(2, "in"), y=(2, "out"))
    x, y = read(p, "a", (32, 64), [0, 0], [32, 64]), read(p, "b", (64, 32), [0, 0], [64, 32])
    total = p.emit("tile_full", p.const(0.0, f32), attrs=((32, 32),))
    a, b = (RNG.normal(size=s).astype(np.float32) for s in ((32, 64), (64, 32)))
    out = result(p, p.emit("mma", x, y, total, attrs=(math, 0)), nan(32, 32), {"a": a, "b": b})
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = np.abs(out - exact) / np.sqrt((a.astype(np.float64) ** 2) @ (b.astype(np.float64) ** 2))
    assert error.max() < 8 * ERRORS[math]
    better = {"tf32": "split", "split": "strict"}.get(math)
    assert better is None or error.max() > 8 * ERRORS[better]


@pytest.mark.parametrize("math", ["strict", "tf32", "split"])
def test_special_values_go_through_products(math):
    p = program(a=(2, "in"), y=(2, "out"))
    x = read(p, "a", (4, 4), [0, 0], [4, 4])
    eye = np.eye(4, dtype=np.float32)
    eye[0, 0], eye[1, 1], eye[2, 2] = np.inf, np.nan, 3e38
    zero = p.emit("tile_full", p.const(0.0, f32), attrs=((4, 4),))
    one = p.emit("tile_full", p.const(1.0, f32), attrs=((4, 1),))
    ones = p.emit("tile_broadcast", one, attrs=((4, 4),))
    out = result(p, p.emit("mma", x, ones, zero, attrs=(math, 0)), nan(4, 4), {"a": eye})
    assert (np.isnan(out[0]) if math == "split" else np.isinf(out[0])).all()
    assert np.isnan(out[1]).all()
    assert np.allclose(out[2:], [[3e38] * 4, [1] * 4], rtol=1e-2)


@pytest.mark.parametrize("elem", [f16, bf16])
def test_storage_operands_are_exact(elem):
    """Products of two 16-bit floats fit f32: three products of powers of two have one sum."""
    p = program(a=(2, "in", elem), y=(2, "out"))
    x = read(p, "a", (4, 4), [0, 0], [4, 4])
    zero = p.emit("tile_full", p.const(0.0, f32), attrs=((4, 4),))
    t = p.emit("mma", x, p.emit("tile_transpose", x), zero, attrs=("strict", 0))
    a = (RNG.integers(-9, 9, (4, 4)) * 0.125).astype(elem.np)
    wide = a.astype(np.float32)
    assert (result(p, t, nan(4, 4), {"a": a}) == wide @ wide.T).all()
