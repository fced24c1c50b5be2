"""Random tile programs on integers: as tiles and as threads they agree exactly.

More seeds: `differing(seed, name)` for each of `TARGETS`; 150 seeds take two minutes.
"""

from dataclasses import replace

import numpy as np
import pytest

from iron.dtypes import bool_, i8, i32
from iron.ir.core import Kernel, Value
from iron.ir.interp import run
from iron.ir.types import element
from iron.ir.verify import verify
from iron.targets.amd import GFX942
from iron.targets.cpu import X86_64_V4
from iron.targets.nvidia import SM_80
from iron.tiles import compute
from iron.tiles.lower import threads
from tests.unit.tiles.programs import Tiles

SIDES = (1, 4, 16, 32, 48)
SEEDS = range(12)
ROWS, COLUMNS = 21, 37
OUTPUTS = 5
TARGETS = {
    "gpu": (None, 8),
    "cpu": (X86_64_V4, 32),
    "sm_80": (SM_80, 32),
    "gfx942": (GFX942, 64),
}


class Random(Tiles):
    """A program of some ops on tiles made before, ending with writes of the last of them."""

    def __init__(self, seed: int) -> None:
        super().__init__(1, 32)
        self.rng = np.random.default_rng(seed)
        self.tensor("x", i32, "in", 2), self.tensor("n", i8, "in", 2)
        self.tensor("v", i32, "inout", 1)
        for i in range(OUTPUTS):
            self.tensor(f"y{i}", i32, "out", 2)
        self.m, self.k = self.dim("M"), self.dim("K")

    def one(self, items):
        return items[int(self.rng.integers(len(items)))]

    def of(self, pool: list[Value], rank: int) -> Value | None:
        found = [v for v in pool if len(v.type.shape) == rank and element(v.type) is i32]
        return self.one(found) if found else None

    def fresh(self) -> Value:
        kind = self.one(["read", "vector", "iota", "full"])
        a, b = self.one(SIDES), self.one(SIDES)
        at = [int(self.rng.integers(-3, 9)) for _ in range(2)]
        if kind == "read":
            return self.read("x", (a, b), at, [self.m, self.k])
        if kind == "vector":
            return self.read("v", (b,), at[:1], [self.k])
        if kind == "iota":
            return self.emit("tile_iota", attrs=(b, i32))
        return self.full(int(self.rng.integers(-5, 5)), (a, b), i32)

    def step(self, pool: list[Value]) -> None:
        kind = self.one(["fresh", "pair", "pair", "where", "sum", "expand", "turn", "mma", "more"])
        x, y = self.of(pool, 2), self.of(pool, 1)
        if kind == "fresh" or x is None or y is None:
            pool.append(self.fresh())
        elif kind == "pair":
            x = self.one([x, y])
            pool.append(self.emit(self.one(["add", "sub", "mul", "max"]), x, self.fit(x, pool)))
        elif kind == "where":
            test = self.emit(self.one(["lt", "eq"]), x, self.fit(x, pool))
            pool.append(self.emit("where", test, x, self.fit(x, pool)))
        elif kind == "sum":
            pool.append(self.sum(x, self.one([0, 1]), self.one(["add", "max", "min", "or"])))
        elif kind == "expand":
            pool.append(self.emit("tile_expand", y, attrs=(self.one([0, 1]),)))
        elif kind == "turn":
            pool.append(self.turn(x))
        elif kind == "mma":
            a = self.read("n", (self.one((16, 32)), 32), [0, 1], [self.m, self.k])
            b = self.read("n", (self.one((16, 32)), 32), [2, 0], [self.m, self.k])
            acc = self.full(3, (a.type.shape[0], b.type.shape[0]), i32)
            pool.append(self.mma(a, self.turn(b), acc))
        else:
            pool.append(self.region(pool))

    def fit(self, x: Value, pool: list[Value]) -> Value:
        """Some value of x's shape: of the pool, repeated to it, or its own sum."""
        shape = x.type.shape
        same = [v for v in pool if v.type.shape == shape and element(v.type) is i32]
        if len(shape) == 2:
            for v in pool[::-1]:
                narrow = len(v.type.shape) == 2 and all(
                    have in (1, want) for have, want in zip(v.type.shape, shape, strict=True)
                )
                if narrow and element(v.type) is i32:
                    same.append(self.like(v, x))
            for axis in (0, 1):
                rest = self.emit("tile_expand", self.sum(x, axis), attrs=(axis,))
                same.append(self.like(rest, x))
        return self.one(same)

    def region(self, pool: list[Value]) -> Value:
        """A loop or a branch that changes two values."""
        first, second = self.one(pool), self.one(pool)
        if self.one([True, False]):
            return self.loop(self.const(3), [first, second], self.turns)[int(self.rng.integers(2))]
        test = self.emit("lt", self.m, self.const(int(self.rng.integers(10, 30))))
        sides = []
        for _ in range(2):
            with self.b.block() as side:
                self.do("yield", *self.turns(self.m, first, second))
            sides.append(side)
        return self.do("if", test, regions=tuple(sides))[0]

    def turns(self, turn: Value, a: Value, b: Value) -> list[Value]:
        if a.type is b.type and self.one([True, False]):
            a, b = b, a  # they change places
        grown = self.emit("add", a, self.like(turn, a))
        if self.one([True, False]):
            self.write("v", self.full(2, (16,), i32), [5], [self.k])
            b = self.emit("max", b, self.like(self.sum(self.read("v", (16,), [3], [self.k]), 0), b))
        return [grown, b]

    def made(self) -> Kernel:
        pool = [self.fresh() for _ in range(3)]
        pool.append(self.read("x", (16, 32), [0, 0], [self.m, self.k]))
        pool.append(self.read("v", (32,), [0], [self.k]))
        for _ in range(10):
            self.step(pool)
        for i, value in enumerate(pool[-OUTPUTS:]):
            if element(value.type) is bool_:
                value = self.to(value, i32)
            if len(value.type.shape) == 1:
                value = self.emit("tile_expand", value, attrs=(0,))
            self.write(f"y{i}", value, [0, 0], [self.m, self.k])
        return self.done()


def outputs(kernel: Kernel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = (ROWS, COLUMNS)
    arrays = {"x": rng.integers(-99, 99, shape).astype(np.int32)}
    arrays["n"] = rng.integers(-9, 9, shape).astype(np.int8)
    arrays["v"] = rng.integers(-99, 99, COLUMNS).astype(np.int32)
    arrays |= {f"y{i}": np.full(shape, 12345, np.int32) for i in range(OUTPUTS)}
    partial = frozenset(f"y{i}" for i in range(OUTPUTS))
    run(kernel, arrays, {}, {"M": ROWS, "K": COLUMNS}, (1,), partial=partial)
    return arrays


def differing(seed: int, name: str) -> list[str]:
    target, simd = TARGETS[name]
    kernel = Random(seed).made()
    verify(kernel)
    wanted = outputs(kernel)
    made = threads(replace(kernel, simd=simd), target)
    verify(made)
    found = outputs(made)
    return [n for n, held in wanted.items() if (held != found[n]).any()]


@pytest.mark.fuzz
@pytest.mark.parametrize("name", TARGETS)
def test_tiles_and_threads_agree(name: str):
    found = {seed: differing(seed, name) for seed in SEEDS}
    assert {seed: names for seed, names in found.items() if names} == {}


def test_programs_hold_every_kind_of_op():
    seen = {op.name for seed in SEEDS for op in Random(seed).made().body.walk()}
    wanted = {"for", "if", "mma", "where", "tile_reduce", "tile_transpose", "tile_broadcast"}
    assert wanted <= seen


def test_vectors_on_the_wrong_axis_are_seen(monkeypatch):
    """A control: without a copy, a vector that lies across is read as if it lay down."""

    def careless(e, value, at):
        kept = e.kept.get(value)
        if isinstance(kept, compute.Registers) and len(at) == 1:
            return next(iter(kept.chunks.values()))
        return real(e, value, at)

    real = compute.chunk
    monkeypatch.setattr(compute, "chunk", careless)
    assert any(differing(seed, "gpu") for seed in SEEDS)
