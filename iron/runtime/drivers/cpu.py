"""The CPU driver: kernels as code in memory, launched inline or on the process's thread pool."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.analysis.uniform import uniformity
from iron.backends.cpu import cost
from iron.backends.cpu.entry import Field, compile_kernel, layout, symbol_of
from iron.backends.cpu.launcher import HEADER
from iron.backends.cpu.machine import Linked, host
from iron.ir.core import Kernel
from iron.ir.text import digest
from iron.runtime.cache import Cache
from iron.runtime.drivers.cpu_objects import ObjectCache, ObjectStore
from iron.runtime.drivers.cpu_pool import Pool, pool
from iron.runtime.drivers.host import HostDriver
from iron.targets.target import Target

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class CpuExecutable:
    """A kernel in memory; `each` is the guessed time of one group in nanoseconds."""

    fields: tuple[Field, ...]
    linked: Linked
    symbol: str
    each: float
    pool: Pool

    def bind(
        self,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        """A launch with these arguments, whose memory is read afresh at each call.

        The result is a built-in function; `__self__` holds the job's address and the job.
        """
        groups = math.prod(grid)
        if groups <= 0:
            return _nothing
        size = cost.chunk(groups, self.each, self.pool.threads)
        if size < groups:
            self.pool.start()
        job = np.zeros(HEADER + len(self.fields), np.int64)
        job[:HEADER] = (
            self.linked[self.symbol],
            groups,
            max(1, size),
            groups * self.each > cost.INLINE,
        )
        for number, field in enumerate(self.fields, HEADER):
            job[number] = _field(field, arrays, scalars, dims, grid)
        address = job.__array_interface__["data"][0]
        return self.pool.callable(address, (job, *arrays.values(), self.linked, self.pool))


def _nothing() -> None:
    """A launch of no group."""


def _field(
    field: Field,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, Any],
    dims: Mapping[str, int],
    grid: tuple[int, ...],
) -> int:
    match field.kind:
        case "pointer":
            return arrays[field.name].__array_interface__["data"][0]
        case "stride":
            array = arrays[field.name]
            return array.strides[field.axis] // array.itemsize
        case "extent":
            return grid[field.axis]
        case "dim":
            return int(dims[field.name])
        case "streams":
            return sum(arrays[name].nbytes for name in field.name.split()) >= field.least
        case _:
            assert field.dtype is not None
            raw = field.dtype.np.type(scalars[field.name]).tobytes()
            return int.from_bytes(raw.ljust(8, b"\0"), "little", signed=True)


class CpuDriver(HostDriver):
    """Compiles for and launches on this machine's CPU."""

    name = "cpu"
    device = "cpu"

    def __init__(self, cache: ObjectCache | None = None, target: Target | None = None) -> None:
        self._cache = cache
        self._target = target
        self._store: ObjectStore | None = None

    def target(self) -> Target:
        """This machine's CPU. Raises E0603 when it lacks what the backend needs."""
        if self._target is None:
            self._target = host()
        return self._target

    def load(self, kernel: Kernel) -> CpuExecutable:
        """The kernel, lowered for `target()`, as code in memory."""
        target = self.target()
        if self._store is None:
            self._store = ObjectStore(target, self._cache)
        symbol = symbol_of(kernel)
        linked = self._store.linked(
            digest(kernel), kernel.name, lambda: compile_kernel(kernel, target).text, symbol
        )
        each = cost.nanoseconds(kernel, uniformity(kernel))
        return CpuExecutable(layout(kernel), linked, symbol, each, pool(target))


def open_driver() -> CpuDriver:
    """The driver of this machine's CPU, with the user's cache of compiled code."""
    return CpuDriver(Cache())
