"""Times of the same kernels through CUDA and through Vulkan, in one run on one GPU.

    python tools/device_bench_pair.py memory|matvec OUT

Each timed call follows a write of more than the L2 cache; times are the device's own, the median
of the rounds. The ceiling is the faster of Vulkan's buffer copy and the copy kernel through CUDA.
A record a line goes to OUT/bench.jsonl.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import iron
from iron.dtypes import DType, bf16, f16, f32
from iron.errors import KernelError
from iron.quant.tensor import QTensor
from iron.runtime.driver import driver

ELEMENTS = int(os.environ.get("DEVICE_ELEMENTS", str(64 << 20)))
FLUSH = ELEMENTS
ROUNDS = 11
Bound = Callable[[], Any]
Make = Callable[["Side"], Bound]


class Side:
    """One backend: arrays there, and times there."""

    def __init__(self, name: str) -> None:
        self.name, self.driver = name, driver(name)
        from iron.kernels.ops.unary import unary

        flushed = self.driver.upload(np.zeros(FLUSH, np.float32))
        self.flush = self.bind(unary, x=flushed, y=self.empty(FLUSH, dtype=f32), OP="neg")
        self._tiles: dict[Any, Any] = {}

    def empty(self, *shape: int, dtype: DType) -> Any:
        """An array on the device."""
        opened: Any = self.driver
        return opened.empty(shape, dtype)

    def random(self, *shape: int, dtype: DType, number: int = 0) -> Any:
        """Normally distributed numbers, a repeated block; `number` tells equal shapes apart."""
        key = (shape, dtype, number)
        if key not in self._tiles:
            count = int(np.prod(shape))
            block = np.random.default_rng(number).standard_normal(min(count, 1 << 20), np.float32)
            whole = np.resize(block.astype(dtype.np), count).reshape(shape)
            self._tiles[key] = self.driver.upload(whole)
        return self._tiles[key]

    def bind(self, kernel: Any, **arguments: Any) -> Bound:
        """A bound launch on this side."""
        with iron.use(self.driver):
            return kernel.bind(**arguments).launch

    def seconds(self, call: Bound) -> float:
        """The median of cold calls."""
        call()
        self.driver.synchronise()
        taken = self.driver.elapsed([self.flush, call] * ROUNDS)
        return median(taken[1::2])


class Pair:
    """Measures rows on both sides and records them."""

    def __init__(self, out: Path) -> None:
        self.path = out / "bench.jsonl"
        self.until = time.monotonic() + float(os.environ.get("DEVICE_SECONDS", "600"))
        self.sides = [s for name in ("cuda", "vulkan") if (s := self._open(name)) is not None]
        self.ceiling = self._copy_ceiling()

    def _open(self, name: str) -> Side | None:
        try:
            return Side(name)
        except KernelError as absent:
            self.record({"line": f"{name} is missing: {absent}"})
            return None

    def _copy_ceiling(self) -> float:
        from iron.kernels.ops.unary import unary

        found: dict[str, float] = {}
        for side in self.sides:
            x, y = side.random(ELEMENTS, dtype=f32), side.empty(ELEMENTS, dtype=f32)
            found[side.name] = side.seconds(side.bind(unary, x=x, y=y, OP="neg"))
            if side.name == "vulkan":
                found["buffer copy"] = side.seconds(_buffer_copy(side.driver, x, y))
        rates = {n: 8 * ELEMENTS / t / 1e12 for n, t in found.items()}
        told = ", ".join(f"{n} {r:.3f}" for n, r in rates.items())
        self.record({"line": f"copy ceiling TB/s: {told}", "seconds": found})
        return max(rates.values()) * 1e12

    def record(self, row: dict[str, Any]) -> None:
        """One line of the file."""
        with self.path.open("a") as log:
            log.write(json.dumps(row) + "\n")
        print(row["line"], flush=True)

    def row(self, name: str, moved: int, make: Make) -> None:
        """One kernel that moves `moved` bytes, on each side."""
        if time.monotonic() > self.until:
            return
        found: dict[str, float] = {}
        for side in self.sides:
            try:
                found[side.name] = side.seconds(make(side))
            except Exception as fault:
                self.record(
                    {"line": f"{name:32} {side.name} {type(fault).__name__}: {fault}"[:400]}
                )
        told = "  ".join(
            f"{n} {t * 1e6:8.1f} us {100 * moved / t / self.ceiling:5.1f}%"
            for n, t in found.items()
        )
        if len(found) == 2:
            told += f"  cuda/vulkan {found['cuda'] / found['vulkan']:.2f}"
        self.record({"line": f"{name:32} {told}", "name": name, "bytes": moved, "seconds": found})


def _buffer_copy(opened: Any, x: Any, y: Any) -> Bound:
    """Vulkan's own copy of one array to another."""
    queue = opened.opened.queue
    a, b = x.memory.range, y.memory.range
    with queue.recorded() as commands:
        queue.copy(
            commands, a.buffer.handle, a.offset, b.buffer.handle, b.offset, x.memory.range.size
        )
    return lambda: queue.enqueue(commands, (x, y))


def memory(pair: Pair) -> None:
    """Memory-bound operations at 64 Mi elements."""
    for dtype in (f32, bf16, f16):
        _memory_rows(pair, dtype)


def _memory_rows(pair: Pair, T: DType) -> None:
    from iron.kernels.norm.layer_norm import layer_norm
    from iron.kernels.norm.rms_norm import rms_norm
    from iron.kernels.ops.binary import binary
    from iron.kernels.ops.cast import cast
    from iron.kernels.ops.copy import copy
    from iron.kernels.ops.gated_activation import gated_activation
    from iron.kernels.ops.unary import unary
    from iron.kernels.rope.rope import rope, turns
    from iron.kernels.sampling.softmax import softmax

    size, rows = T.bytes, ELEMENTS // 8192

    def matrix(s: Side, number: int = 0, n: int = 8192) -> Any:
        return s.random(ELEMENTS // n, n, dtype=T, number=number)

    def out(s: Side, n: int = 8192) -> Any:
        return s.empty(ELEMENTS // n, n, dtype=T)

    flat = {"dtype": T}
    pair.row(f"unary silu {T}", 2 * size * ELEMENTS, lambda s: s.bind(
        unary, x=s.random(ELEMENTS, **flat), y=s.empty(ELEMENTS, **flat), OP="silu"))  # fmt: skip
    pair.row(f"binary add {T}", 3 * size * ELEMENTS, lambda s: s.bind(
        binary, a=matrix(s), b=matrix(s, 1), z=out(s), OP="add"))  # fmt: skip
    pair.row(f"copy {T}", 2 * size * ELEMENTS, lambda s: s.bind(copy, x=matrix(s), y=out(s)))
    to = f16 if T is f32 else f32
    pair.row(f"cast {T} to {to}", (size + to.bytes) * ELEMENTS, lambda s: s.bind(
        cast, x=s.random(ELEMENTS, **flat), y=s.empty(ELEMENTS, dtype=to)))  # fmt: skip
    shape = (ELEMENTS // 14336, 14336)
    pair.row(f"swiglu {shape[0]}x14336 {T}", 3 * size * shape[0] * shape[1], lambda s: s.bind(
        gated_activation, g=s.random(*shape, dtype=T), u=s.random(*shape, dtype=T, number=1),
        gate_bias=None, up_bias=None, row_scale=None, y=s.empty(*shape, dtype=T),
        limit=0.0, alpha=0.0))  # fmt: skip
    pair.row(f"rms_norm {rows}x8192 {T}", 2 * size * ELEMENTS, lambda s: s.bind(
        rms_norm, x=matrix(s), w=s.random(8192, dtype=T), residual=None, y=out(s),
        eps=1e-5))  # fmt: skip
    pair.row(f"layer_norm {rows}x8192 {T}", 2 * size * ELEMENTS, lambda s: s.bind(
        layer_norm, x=matrix(s), w=s.random(8192, dtype=T), b=s.random(8192, dtype=T, number=1),
        y=out(s), eps=1e-5))  # fmt: skip
    pair.row(f"softmax {rows}x8192 {T}", 2 * size * ELEMENTS, lambda s: s.bind(
        softmax, x=matrix(s), mask=None, y=out(s), scale=1.0))  # fmt: skip
    heads = (ELEMENTS // 4096, 32, 128)
    steps = np.asarray(turns([1e4 ** (-i / 64) for i in range(64)]))
    numbers = np.arange(heads[0], dtype=np.uint32)
    pair.row(f"rope {heads[0]}x32x128 {T}", 2 * size * ELEMENTS, lambda s: s.bind(
        rope, x=s.random(*heads, dtype=T), position=s.driver.upload(numbers),
        frequency=s.driver.upload(steps), y=s.empty(*heads, dtype=T), scale=1.0))  # fmt: skip


def matvec(pair: Pair) -> None:
    """Matrix times vector, dense and packed."""
    from iron.kernels.gemm.gemv import gemv
    from iron.kernels.gemm.qmv import qmv
    from iron.quant.encode import quantize
    from iron.quant.format import by_name

    n, k = 14336, 4096
    pair.row(f"gemv bf16 {n}x{k}", 2 * n * k, lambda s: s.bind(
        gemv, x=s.random(1, k, dtype=bf16), w=s.random(n, k, dtype=bf16), bias=None,
        y=s.empty(1, n, dtype=bf16)))  # fmt: skip
    dense = np.random.default_rng(0).standard_normal((256, k), np.float32)
    for name in ("mlx_int4_g64", "gguf_q4_1", "gguf_q8_0", "mlx_int8_g64"):
        part = quantize(dense, by_name(name))

        def make(s: Side, part: QTensor = part) -> Bound:
            tiled = {key: np.tile(p, (n // 256, 1)) for key, p in part.planes.items()}
            planes = {key: s.driver.upload(p) for key, p in tiled.items()}
            w = QTensor(part.fmt, planes, (n, k))
            x, y = s.random(1, k, dtype=bf16), s.empty(1, n, dtype=bf16)
            return s.bind(qmv, x=x, w=w, bias=None, residual=None, y=y)

        pair.row(f"qmv {name} {n}x{k}", part.nbytes * (n // 256), make)


def main() -> int:
    """One group of rows."""
    kind, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    {"memory": memory, "matvec": matvec}[kind](Pair(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
