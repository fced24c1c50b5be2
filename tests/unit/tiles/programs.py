"""Tile programs built by hand, with their inputs: what every road must agree on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iron.dtypes import DType, bool_, f16, f32, i32
from iron.ir.core import Kernel, Value
from iron.ir.types import Tile, element
from tests.unit.ir.handmade import Handmade

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """A kernel, its arguments, its grid, and the outputs it should leave with their error bound."""

    kernel: Kernel
    arrays: Arrays
    dims: dict[str, int]
    grid: tuple[int, ...]
    wanted: dict[str, tuple[np.ndarray, np.ndarray]]


class Tiles(Handmade):
    """A tile kernel under construction; every number is an i32."""

    def __init__(self, rank: int = 1, simd: int = 32) -> None:
        super().__init__(threads=1, simd=simd, rank=rank)
        self.site = 0

    def launched(self, *extents: tuple[str, int]) -> Kernel:
        """The kernel with one group for each so many elements of these dims."""
        made = self.done()
        params = tuple(Value(p.type, None, p.name) for p in self.params if p.role == "dim")
        by_name = {v.name: v for v in params}
        with self.b.block(params) as host:
            self.do("yield", *(self.cdiv(by_name[name], size) for name, size in extents))
        return replace(made, host=host)

    def num(self, value: int | Value) -> Value:
        return value if isinstance(value, Value) else self.const(value)

    def window(self, name: str, at: list, extent: list, base: list | None = None) -> list[Value]:
        buffer = self.values[name]
        base = base or [0] * buffer.type.rank
        return [buffer, *map(self.num, (*base, *at, *extent))]

    def read(self, name: str, shape, at, extent, base=None, axes=None, steps=None) -> Value:
        axes = axes or tuple(range(len(at)))
        attrs = (shape, axes, steps or (1,) * len(axes), self.site)
        self.site += 1
        return self.emit("tile_read", *self.window(name, at, extent, base), attrs=attrs)

    def write(
        self, name: str, value: Value, at, extent, base=None, axes=None, steps=None, shape=None
    ) -> None:
        rank = len(at)
        attrs = (shape or value.type.shape, axes or tuple(range(rank)), steps or (1,) * rank)
        self.do("tile_write", *self.window(name, at, extent, base), value, attrs=attrs)

    def full(self, value: float, shape, dtype: DType = f32) -> Value:
        return self.emit("tile_full", self.const(value, dtype), attrs=(shape,))

    def mma(self, x: Value, y: Value, acc: Value, math: str = "strict") -> Value:
        self.site += 1
        return self.emit("mma", x, y, acc, attrs=(math, self.site - 1))

    def turn(self, x: Value) -> Value:
        return self.emit("tile_transpose", x)

    def like(self, value: Value | float, other: Value) -> Value:
        """A scalar or a vector of one axis, repeated to the shape of `other`."""
        shape = other.type.shape
        if not isinstance(value, Value):
            return self.full(value, shape, element(other.type))
        if not isinstance(value.type, Tile):
            return self.emit("tile_full", value, attrs=(shape,))
        return self.emit("tile_broadcast", value, attrs=(shape,))

    def column(self, value: Value, other: Value) -> Value:
        return self.like(self.emit("tile_expand", value, attrs=(1,)), other)

    def row(self, value: Value, other: Value) -> Value:
        return self.like(self.emit("tile_expand", value, attrs=(0,)), other)

    def to(self, value: Value, dtype: DType) -> Value:
        return value if element(value.type) is dtype else self.emit("cast", value, attrs=(dtype,))

    def sum(self, value: Value, axis: int, kind: str = "add") -> Value:
        return self.emit("tile_reduce", value, attrs=(kind, axis))

    def loop(self, count: Value, init: list[Value], body: Callable[..., list[Value]], stages=0):
        counter = Value(i32, None, "k")
        params = [Value(v.type, None, f"c{i}") for i, v in enumerate(init)]
        with self.b.block((counter, *params)) as block:
            self.do("yield", *body(counter, *params))
        bounds = (self.const(0), count, self.const(1))
        return self.do("for", *bounds, *init, attrs=(False, stages), regions=(block,))

    def cdiv(self, a: Value, b: int) -> Value:
        return self.emit("floordiv", self.emit("add", a, self.const(b - 1)), self.const(b))

    def times(self, a: Value, b: int) -> Value:
        return self.emit("mul", a, self.const(b))


def random(rng: np.random.Generator, shape, dtype: DType) -> np.ndarray:
    if dtype.is_integer:
        return rng.integers(-9, 10, shape).astype(dtype.np)
    return rng.normal(size=shape).astype(dtype.np)


def unwritten(shape, dtype: DType) -> np.ndarray:
    out = np.empty(shape, dtype.np)
    out[...] = np.nan if dtype.is_float else 77
    return out


def gemm(
    shape=(50, 70, 41),
    tiles=(16, 32, 8),
    dtype: DType = f32,
    form: str = "NN",
    bias: bool = False,
    stages: int = 0,
    simd: int = 32,
    seed: int = 3,
    math: str = "strict",
) -> Made:
    """c = a @ b (+ bias), with either operand stored transposed (`T`)."""
    (m, n, k), (bm, bn, bk) = shape, tiles
    p = Tiles(2, simd)
    out = i32 if dtype.is_integer else dtype
    p.tensor("a", dtype, "in", 2), p.tensor("b", dtype, "in", 2)
    if bias:
        p.tensor("bias", out, "in", 1)
    p.tensor("c", out, "out", 2)
    dims = [p.dim(x) for x in "MNK"]
    dm, dn, dk = dims
    row, col = p.times(p.group(0), bm), p.times(p.group(1), bn)
    total = i32 if dtype.is_integer else f32

    def step(turn, acc):
        at = p.times(turn, bk)
        if form[0] == "N":
            x = p.read("a", (bm, bk), [row, at], [dm, dk])
        else:
            x = p.turn(p.read("a", (bk, bm), [at, row], [dk, dm]))
        if form[1] == "N":
            y = p.read("b", (bk, bn), [at, col], [dk, dn])
        else:
            y = p.turn(p.read("b", (bn, bk), [col, at], [dn, dk]))
        return [p.mma(x, y, acc, math)]

    (acc,) = p.loop(p.cdiv(dk, bk), [p.full(0, (bm, bn), total)], step, stages)
    if bias:
        acc = p.emit("add", acc, p.row(p.to(p.read("bias", (bn,), [col], [dn]), total), acc))
    p.write("c", p.to(acc, out), [row, col], [dm, dn])
    rng = np.random.default_rng(seed)
    a, b = random(rng, (m, k), dtype), random(rng, (k, n), dtype)
    arrays = {"a": a if form[0] == "N" else a.T.copy(), "b": b if form[1] == "N" else b.T.copy()}
    wide = np.int64 if dtype.is_integer else np.float64
    exact = a.astype(wide) @ b.astype(wide)
    size = np.abs(a.astype(wide)) @ np.abs(b.astype(wide))
    if bias:
        arrays["bias"] = random(rng, (n,), out)
        exact = exact + arrays["bias"].astype(wide)
    arrays["c"] = unwritten((m, n), out)
    loose = 2.0**-10 if math == "tf32" else 1e-6
    bound = np.zeros(exact.shape) if dtype.is_integer else size * loose + near(exact, out)
    grid = (-(-m // bm), -(-n // bn))
    kernel = p.launched(("M", bm), ("N", bn))
    return Made(kernel, arrays, dict(zip("MNK", shape, strict=True)), grid, {"c": (exact, bound)})


def near(exact: np.ndarray, dtype: DType) -> np.ndarray:
    """One rounding of a store."""
    bits = {"f32": 24, "f16": 11, "bf16": 8}[dtype.name]
    return np.abs(exact) * 2.0**-bits + (2.0**-24 if dtype is f16 else 1e-30)


def attention(
    queries=37,
    keys=50,
    size=32,
    tiles=(16, 32),
    dtype: DType = f32,
    causal=True,
    simd=32,
    stages=0,
) -> Made:
    """Online softmax attention of one head, as the language page writes it."""
    bm, bn = tiles
    p = Tiles(1, simd)
    for name in "qkv":
        p.tensor(name, dtype, "in", 2)
    p.tensor("o", dtype, "out", 2)
    s, n = p.dim("S"), p.dim("L")
    scale = float(size) ** -0.5 * 1.4426950408889634
    row = p.times(p.group(0), bm)
    d = p.const(size)
    query = p.read("q", (bm, size), [row, 0], [s, d])
    first = p.emit("add", row, p.emit("sub", n, s))
    rows = p.emit("tile_iota", attrs=(bm, i32))
    rows = p.emit("add", rows, p.like(first, rows))

    def step(j, top, norm, acc):
        at = p.times(j, bn)
        key = p.read("k", (bn, size), [at, 0], [n, d])
        score = p.mma(query, p.turn(key), p.full(0, (bm, bn)))
        score = p.emit("mul", score, p.like(scale, score))
        cols = p.emit("tile_iota", attrs=(bn, i32))
        cols = p.row(p.emit("add", cols, p.like(at, cols)), score)
        keep = p.emit("lt", cols, p.like(n, cols))
        if causal:
            keep = p.emit("and", keep, p.emit("le", cols, p.column(rows, score)))
        score = p.emit("where", keep, score, p.like(-np.inf, score))
        peak = p.emit("max", top, p.sum(score, 1, "max"))
        none = p.emit("eq", peak, p.like(-np.inf, peak))
        safe = p.emit("where", none, p.like(0.0, peak), peak)
        weight = p.emit("exp2", p.emit("sub", score, p.column(safe, score)))
        decay = p.emit("exp2", p.emit("sub", top, safe))
        norm = p.emit("add", p.emit("mul", norm, decay), p.sum(weight, 1))
        value = p.read("v", (bn, size), [at, 0], [n, d])
        acc = p.emit("mul", acc, p.column(decay, acc))
        return [peak, norm, p.mma(p.to(weight, dtype), value, acc)]

    init = [p.full(-np.inf, (bm,)), p.full(0, (bm,)), p.full(0, (bm, size))]
    _, norm, acc = p.loop(p.cdiv(n, bn), init, step, stages)
    zero = p.column(p.emit("eq", norm, p.like(0.0, norm)), acc)
    out = p.emit("div", acc, p.column(norm, acc))
    out = p.emit("where", zero, p.like(0.0, out), out)
    p.write("o", p.to(out, dtype), [row, 0], [s, d])
    rng = np.random.default_rng(5)
    q, k, v = (random(rng, (x, size), dtype) for x in (queries, keys, keys))
    arrays = {"q": q, "k": k, "v": v, "o": unwritten((queries, size), dtype)}
    f = [x.astype(np.float64) for x in (q, k, v)]
    logits = f[0] @ f[1].T * float(size) ** -0.5
    if causal:
        mask = np.arange(keys)[None] > np.arange(queries)[:, None] + keys - queries
        logits = np.where(mask, -np.inf, logits)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    exact = weights @ f[2]
    step_of = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}[dtype.name]
    bound = (weights @ np.abs(f[2]) + np.abs(exact)) * step_of
    dims = {"S": queries, "L": keys}
    return Made(p.launched(("S", bm)), arrays, dims, (-(-queries // bm),), {"o": (exact, bound)})


def reductions(shape=(23, 41), tiles=(32, 64), dtype: DType = f32, simd=32) -> Made:
    """Row and column sums and extremes of one tile, and its total, normalised by all of them."""
    (m, n), (bm, bn) = shape, tiles
    p = Tiles(1, simd)
    p.tensor("x", dtype, "in", 2)
    for name, rank in (("y", 2), ("rows", 1), ("columns", 1), ("all", 1)):
        p.tensor(name, dtype, "out", rank)
    dm, dn = p.dim("M"), p.dim("N")
    x = p.read("x", (bm, bn), [0, 0], [dm, dn])
    top, low, left = p.sum(x, 1, "max"), p.sum(x, 0), p.sum(x, 1)
    p.write("rows", top, [0], [dm])
    p.write("columns", low, [0], [dn])
    both = p.emit("add", p.emit("sub", x, p.column(top, x)), p.row(low, x))
    p.write("y", both, [0, 0], [dm, dn])
    p.write("all", p.emit("tile_full", p.sum(left, 0), attrs=((1,),)), [0], [1])
    rng = np.random.default_rng(9)
    value = random(rng, shape, dtype)
    # Elements outside are 0 and count: the largest of a row is at least 0 when the tile is ragged.
    f = np.zeros(tiles)
    f[:m, :n] = value
    rows, columns = f.max(1)[:m], f.sum(0)[:n]
    arrays = {"x": value, "y": unwritten(shape, dtype), "rows": unwritten((m,), dtype)}
    arrays |= {"columns": unwritten((n,), dtype), "all": unwritten((1,), dtype)}
    exact = {"rows": rows, "columns": columns, "all": f.sum(keepdims=True).reshape(1)}
    exact["y"] = value - rows[:, None] + columns
    loose = 0.0 if dtype.is_integer else 1e-4
    wanted = {name: (w, np.full(w.shape, loose)) for name, w in exact.items()}
    return Made(p.done(), arrays, {"M": m, "N": n}, (1,), wanted)


def crossed(size=45, side=48, simd=32) -> Made:
    """The greatest of each row plus the sum of the column of its number: vectors that lie apart."""
    p = Tiles(1, simd)
    p.tensor("x", i32, "in", 2), p.tensor("y", i32, "out", 1)
    n = p.dim("N")
    x = p.read("x", (side, side), [0, 0], [n, n])
    p.write("y", p.emit("add", p.sum(x, 1, "max"), p.sum(x, 0)), [0], [n])
    value = random(np.random.default_rng(8), (size, size), i32)
    exact = np.maximum(value.max(1), 0) + value.sum(0)  # elements outside are 0
    arrays = {"x": value, "y": unwritten((size,), i32)}
    return Made(p.done(), arrays, {"N": size}, (1,), {"y": (exact, np.zeros(size))})


def turned(shape=(23, 41), tile_=(32, 64), simd=32) -> Made:
    """y = (2 x + its row numbers) transposed: what is computed goes through group memory."""
    (m, n) = shape
    p = Tiles(1, simd)
    p.tensor("x", f32, "in", 2), p.tensor("y", f32, "out", 2)
    dm, dn = p.dim("M"), p.dim("N")
    x = p.read("x", tile_, [0, 0], [dm, dn])
    rows = p.to(p.emit("tile_iota", attrs=(tile_[0], i32)), f32)
    x = p.emit("add", p.emit("add", x, x), p.column(rows, x))
    p.write("y", p.turn(x), [0, 0], [dn, dm])
    value = random(np.random.default_rng(2), shape, f32)
    exact = (value * 2 + np.arange(m, dtype=np.float32)[:, None]).T
    arrays = {"x": value, "y": unwritten((n, m), f32)}
    return Made(p.done(), arrays, {"M": m, "N": n}, (1,), {"y": (exact, np.zeros(exact.shape))})


def boxed(dtype: DType = f32, planar: bool = False, simd=32) -> Made:
    """y = x of a pixel one above and two to the right, times w: the rows of a tile are a box of
    2 x 4 x 8 pixels, and the box reaches beyond every edge. Planar images are read turned."""
    n, h, w, c, m = 3, 5, 9, 18, 12
    p = Tiles(3, simd)
    p.tensor("x", dtype, "in", 4), p.tensor("w", dtype, "in", 2)
    p.tensor("y", dtype, "out", 4), p.tensor("s", f32, "out", 3)
    box, image = (2, 4, 8), [p.dim(name) for name in "NHW"]
    corner = [p.times(p.group(i), side) for i, side in enumerate(box)]
    moved = [
        corner[0],
        *(p.emit("add", v, p.const(d)) for v, d in zip(corner[1:], (-1, 2), strict=True)),
    ]

    def step(turn, acc):
        at = p.times(turn, 16)
        if planar:
            x = p.turn(p.read("x", (16, box), [at, *moved], [c, *image]))
        else:
            x = p.read("x", (box, 16), [*moved, at], [*image, c])
        return [p.mma(x, p.read("w", (16, 16), [at, 0], [c, m]), acc)]

    (acc,) = p.loop(p.const(-(-c // 16)), [p.full(0, (64, 16))], step, 2)
    p.write("y", p.to(acc, dtype), [*corner, 0], [*image, m], shape=(box, 16))
    p.write("s", p.sum(acc, 1), corner, image, shape=(box,))
    rng = np.random.default_rng(6)
    x, by = random(rng, (n, h, w, c), dtype), random(rng, (c, m), dtype)
    wide = np.zeros((n, h, w, c))
    wide[:, 1:, : w - 2] = x[:, : h - 1, 2:]
    exact, size = wide @ by.astype(np.float64), np.abs(wide) @ np.abs(by.astype(np.float64))
    fine, loose = 1e-6 * size, {f32: 0, f16: 2.0**-10}.get(dtype, 2.0**-7)
    arrays = {
        "x": np.ascontiguousarray(np.moveaxis(x, -1, 0)) if planar else x, "w": by,
        "y": unwritten((n, h, w, m), dtype), "s": unwritten((n, h, w), f32),
    }  # fmt: skip
    wanted = {
        "y": (exact, fine + loose * np.abs(exact)), "s": (exact.sum(-1), fine.sum(-1) + 1e-6)
    }  # fmt: skip
    kernel = p.launched(*zip("NHW", box, strict=True))
    return Made(kernel, arrays, {"N": n, "H": h, "W": w}, (2, 2, 2), wanted)


def indexed(count=100, simd=32) -> Made:
    """A gather by computed indices, some outside, some not kept, scattered in reverse order."""
    p = Tiles(1, simd)
    p.tensor("x", f32, "in", 1), p.tensor("which", i32, "in", 1)
    p.tensor("y", f32, "out", 1)
    n, m = p.dim("N"), p.dim("M")
    at = p.times(p.group(0), 32)
    which = p.read("which", (32,), [at], [m])
    keep = p.emit("ne", which, p.like(5, which))
    many = p.emit("tile_gather", p.values["x"], p.const(0), which, n, keep, attrs=((0,), (1,), 0))
    places = p.emit("add", p.emit("tile_iota", attrs=(32, i32)), p.like(at, which))
    back = p.emit("sub", p.like(p.emit("sub", m, p.const(1)), which), places)
    every = p.emit("tile_full", p.const(True, bool_), attrs=((32,),))
    p.do("tile_scatter", p.values["y"], p.const(0), back, m, every, many, attrs=((0,), (1,)))
    rng = np.random.default_rng(4)
    x, which = random(rng, (37,), f32), rng.integers(-3, 42, count).astype(np.int32)
    legal = (which >= 0) & (which < 37) & (which != 5)
    exact = np.where(legal, x[np.clip(which, 0, 36)], 0)[::-1]
    arrays = {"x": x, "which": which, "y": unwritten((count,), f32)}
    wanted = {"y": (exact, np.zeros(count))}
    kernel = p.launched(("M", 32))
    return Made(kernel, arrays, {"N": 37, "M": count}, (-(-count // 32),), wanted)


def mixed(shape=(23, 41), tile_=(32, 64), simd=32) -> Made:
    """Thread code beside tiles: a staged tile is summed by a strided loop, stored once, and an
    array of the caller is changed in place and read again."""
    (m, n) = shape
    p = Tiles(1, simd)
    p.tensor("x", f32, "in", 2), p.tensor("z", f32, "inout", 1), p.tensor("y", f32, "out", 1)
    dm, dn = p.dim("M"), p.dim("N")
    x = p.read("x", tile_, [0, 0], [dm, dn])
    staged = p.emit("tile_stage", p.emit("add", x, x))
    first, step = p.thread(), p.emit("threads", attrs=(i32,))
    counter, total = Value(i32, None, "i"), Value(f32, None, "total")
    with p.b.block((counter, total)) as body:
        width = p.const(tile_[1])
        at = p.emit("floordiv", counter, width), p.emit("mod", counter, width)
        p.do("yield", p.emit("add", total, p.load(staged, *at)))
    bounds = first, p.const(tile_[0] * tile_[1]), step
    (own,) = p.do("for", *bounds, p.const(0.0, f32), attrs=(False, 0), regions=(body,))
    whole = p.emit("reduce", own, attrs=(0,), regions=(p.function("add", f32),))
    p.store(p.values["y"], p.const(0), whole)
    z = p.read("z", (64,), [0], [dn])
    p.write("z", p.emit("add", z, p.like(1.0, z)), [1], [dn])  # each element moves by one
    again = p.read("z", (64,), [0], [dn])
    p.store(p.values["y"], p.const(1), p.sum(again, 0))
    rng = np.random.default_rng(6)
    value, held = random(rng, shape, f32), random(rng, (n,), f32)
    moved = np.concatenate([held[:1], held[:-1] + 1]).astype(np.float64)
    exact = np.array([value.astype(np.float64).sum() * 2, moved.sum()])
    arrays = {"x": value, "z": held, "y": unwritten((2,), f32)}
    wanted = {"z": (moved, np.full(n, 1e-6)), "y": (exact, np.full(2, 1e-3))}
    return Made(p.done(), arrays, {"M": m, "N": n}, (1,), wanted)


def chosen(rows=32, simd=32) -> Made:
    """A uniform branch that leaves tiles, inside a loop that carries a matrix and its row sums."""
    p = Tiles(1, simd)
    p.tensor("x", f32, "in", 3), p.tensor("y", f32, "out", 2), p.tensor("s", f32, "out", 1)
    turns, m, n = p.dim("T"), p.dim("M"), p.dim("N")

    def step(turn, acc, sums):
        x = p.read("x", (rows, 16), [0, 0], [m, n], base=[turn, 0, 0], axes=(1, 2))
        odd = p.emit("eq", p.emit("mod", turn, p.const(2)), p.const(1))
        with p.b.block() as then:
            p.do("yield", p.emit("add", acc, x), p.emit("add", sums, p.sum(x, 1)))
        with p.b.block() as other:
            p.do("yield", p.emit("sub", acc, p.emit("mul", x, p.column(sums, x))), sums)
        return list(p.do("if", odd, regions=(then, other)))

    init = [p.full(0, (rows, 16)), p.full(1, (rows,))]
    acc, sums = p.loop(turns, init, step)
    p.write("y", acc, [0, 0], [m, n])
    p.write("s", sums, [0], [m])
    rng = np.random.default_rng(8)
    x = random(rng, (5, 27, 13), f32)
    y, s = np.zeros((27, 13)), np.ones(27)
    for turn in range(5):
        if turn % 2:
            y, s = y + x[turn], s + x[turn].astype(np.float64).sum(1)
        else:
            y = y - x[turn] * s[:, None]
    arrays = {"x": x, "y": unwritten((27, 13), f32), "s": unwritten((27,), f32)}
    wanted = {"y": (y, np.full(y.shape, 1e-4)), "s": (s, np.full(27, 1e-5))}
    return Made(p.done(), arrays, {"T": 5, "M": 27, "N": 13}, (1,), wanted)


def swapped(simd=32) -> Made:
    """A loop that exchanges two matrices at each turn, and one that runs not at all."""
    p = Tiles(1, simd)
    p.tensor("x", f32, "in", 2), p.tensor("y", f32, "out", 2), p.tensor("z", f32, "out", 2)
    turns, m = p.dim("T"), p.dim("M")
    x = p.read("x", (16, 32), [0, 0], [m, m])
    other = p.emit("mul", x, x)
    one, two = p.loop(turns, [x, other], lambda _, a, b: [p.emit("add", b, b), a])
    one, two = p.loop(p.const(0), [one, two], lambda _, a, b: [b, a])
    p.write("y", one, [0, 0], [m, m])
    p.write("z", two, [0, 0], [m, m])
    a = random(np.random.default_rng(1), (11, 11), f32)
    y, z = a, a * a
    for _ in range(3):
        y, z = z + z, y
    arrays = {"x": a, "y": unwritten((11, 11), f32), "z": unwritten((11, 11), f32)}
    wanted = {name: (w, np.zeros(w.shape)) for name, w in (("y", y), ("z", z))}
    return Made(p.done(), arrays, {"T": 3, "M": 11}, (1,), wanted)
