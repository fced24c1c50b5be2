"""A driver of one screen: runs each thread by itself, op by op, on numpy scalars.

It shares nothing with the interpreter but the table's `ref`, knows no collectives, and is here to
show that the driver protocol asks for nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from time import monotonic
from typing import Any

import numpy as np

from iron.ir import scalar
from iron.ir.core import Block, Kernel, Op, Value, carried, stop_flag
from iron.targets.target import Target


@dataclass
class OneThread:
    kernel: Kernel
    arrays: Mapping[str, Any]
    values: dict[Value, Any]
    group: tuple[int, ...]
    thread: int

    def block(self, block: Block) -> tuple[Any, ...]:
        for op in block.ops:
            results = getattr(self, f"do_{op.name}", self.elementwise)(op)
            self.values.update(zip(op.results, results, strict=True))
        return tuple(self.values[v] for v in block.yielded)

    def args(self, op: Op) -> list[Any]:
        return [self.values[a] for a in op.args]

    def elementwise(self, op: Op) -> tuple[Any, ...]:
        if op.row.ref is None:
            raise NotImplementedError(op.name)
        return (op.row.ref(*self.args(op), *op.attrs),)

    def do_const(self, op: Op) -> tuple[Any, ...]:
        return (op.attrs[0],)

    def do_splat(self, op: Op) -> tuple[Any, ...]:
        return (np.repeat(self.args(op)[0], op.attrs[0]),)

    def do_pack(self, op: Op) -> tuple[Any, ...]:
        return (np.array(self.args(op)),)

    def do_extract(self, op: Op) -> tuple[Any, ...]:
        return (self.args(op)[0][op.attrs[0]],)

    def do_thread(self, op: Op) -> tuple[Any, ...]:
        return (op.attrs[0].np.type(self.thread),)

    def do_group(self, op: Op) -> tuple[Any, ...]:
        return (op.attrs[1].np.type(self.group[op.attrs[0]]),)

    def do_yield(self, op: Op) -> tuple[Any, ...]:
        return ()

    def do_load(self, op: Op) -> tuple[Any, ...]:
        array, *index = self.args(op)
        return (array[self.place(index, op.attrs[0])],)

    def do_store(self, op: Op) -> tuple[Any, ...]:
        array, *index, value = self.args(op)
        array[self.place(index, np.size(value) if np.ndim(value) else 0)] = value
        return ()

    def place(self, index: list[Any], count: int) -> tuple[Any, ...]:
        at = [int(i) for i in index]
        return (*at[:-1], slice(at[-1], at[-1] + count) if count else at[-1])

    def do_if(self, op: Op) -> tuple[Any, ...]:
        return self.block(op.regions[0 if self.args(op)[0] else 1])

    def do_for(self, op: Op) -> tuple[Any, ...]:
        low, high, step, *state = self.args(op)
        body, i = op.regions[0], low
        while i < high:
            self.values.update(zip(body.params, (i, *state), strict=True))
            self.block(body)
            state, flag = [self.values[v] for v in carried(op)], stop_flag(op)
            if flag is not None and self.values[flag]:
                break
            i = i + step
        return tuple(state)


@dataclass(frozen=True)
class FakeExecutable:
    kernel: Kernel

    def bind(
        self,
        arrays: Mapping[str, Any],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        given = {**arrays, **scalars, **{n: self.kernel.index.np.type(d) for n, d in dims.items()}}
        values = (given[p.name] for p in self.kernel.params)
        start = dict(zip(self.kernel.body.params, values, strict=True))

        def run() -> None:
            for group in product(*(range(n) for n in grid)):
                for thread in range(self.kernel.threads):
                    with scalar.quiet():
                        one = OneThread(self.kernel, arrays, dict(start), group, thread)
                        one.block(self.kernel.body)

        return run


@dataclass(frozen=True)
class FakeDriver:
    name: str = "fake"
    device: str = "cpu"

    def target(self) -> Target:
        return Target("fake", "cpu", 32, 1024, 1 << 15)

    def load(self, kernel: Kernel) -> FakeExecutable:
        return FakeExecutable(kernel)

    def synchronise(self) -> None:
        pass

    def upload(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def download(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def elapsed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        stamps = [monotonic()]
        for call in calls:
            call()
            stamps.append(monotonic())
        return [later - earlier for earlier, later in pairwise(stamps)]
