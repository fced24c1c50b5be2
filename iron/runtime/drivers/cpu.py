"""The CPU driver: compiles lowered kernels, keeps their object code in the cache, launches them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from iron.backends.cpu.entry import Compiled, Field, compile_kernel
from iron.backends.cpu.machine import ENTRY, PIPELINE, Linked, host, link, object_code, version
from iron.ir.core import Kernel
from iron.runtime.cache import Cache
from iron.targets.target import Target

Array = np.ndarray[Any, Any]


class ObjectCache(Protocol):
    """Where object code is kept between processes."""

    def get(self, key: str) -> bytes | None:
        """The payload stored under `key`, or None."""
        ...

    def put(self, key: str, payload: bytes, meta: dict[str, Any]) -> Any:
        """Stores a payload."""
        ...


@dataclass(frozen=True, slots=True)
class CpuExecutable:
    """A kernel in memory, ready to be launched."""

    fields: tuple[Field, ...]
    entry: Callable[[int, int, int], None]
    linked: Linked

    def launch(
        self,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> None:
        """Runs every group of `grid` and returns when all are done; arguments are not checked.

        Arrays are numpy arrays aligned to their elements, by parameter name; outputs are written
        in place.
        """
        self.bind(arrays, scalars, dims, grid)()

    def bind(
        self,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        """A launch with its argument block written once."""
        groups = math.prod(grid)
        if groups <= 0:
            return _nothing
        block = np.empty(max(1, len(self.fields)), np.int64)
        for number, field in enumerate(self.fields):
            block[number] = _field(field, arrays, scalars, dims, grid)
        entry, address = self.entry, block.ctypes.data

        def run(keep: Any = (block, self)) -> None:
            entry(address, 0, groups)

        return run


def _nothing() -> None:
    """A launch of no group."""


def _field(
    field: Field,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, Any],
    dims: Mapping[str, int],
    grid: tuple[int, ...],
) -> int:
    if field.kind == "pointer":
        return arrays[field.name].ctypes.data
    if field.kind == "stride":
        array = arrays[field.name]
        return array.strides[field.axis] // array.itemsize
    if field.kind == "extent":
        return grid[field.axis]
    if field.kind == "dim":
        return int(dims[field.name])
    assert field.dtype is not None
    raw = field.dtype.np.type(scalars[field.name]).tobytes()
    return int.from_bytes(raw.ljust(8, b"\0"), "little", signed=True)


class CpuDriver:
    """Compiles for and launches on this machine's CPU."""

    name = "cpu"
    device = "cpu"

    def __init__(self, cache: ObjectCache | None = None, target: Target | None = None) -> None:
        self._cache = cache
        self._target = target

    def target(self) -> Target:
        """This machine's CPU. Raises E0603 when it lacks what the backend needs."""
        if self._target is None:
            self._target = host()
        return self._target

    def load(self, kernel: Kernel) -> CpuExecutable:
        """The kernel, lowered for `target()`, as code in memory."""
        target = self.target()
        compiled = compile_kernel(kernel, target)
        key = cache_key(compiled, target)
        linked = self._cached(key, compiled.symbol)
        if linked is None:
            code = object_code(compiled.text, target)
            if self._cache is not None:
                self._cache.put(key, code, {"kernel": kernel.name, "kind": "cpu-object"})
            linked = link(code, compiled.symbol)
        return CpuExecutable(compiled.fields, ENTRY(linked.address), linked)

    def synchronise(self) -> None:
        """Launches are finished when they return."""

    def _cached(self, key: str, symbol: str) -> Linked | None:
        code = self._cache.get(key) if self._cache is not None else None
        if code is None:
            return None
        try:
            return link(code, symbol)
        except RuntimeError:
            return None


def cache_key(compiled: Compiled, target: Target) -> str:
    """A digest of everything the object code depends on."""
    parts = [
        "cpu",
        PIPELINE,
        version(),
        target.triple,
        target.cpu,
        target.attributes,
        compiled.symbol,
        compiled.text,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def open_driver() -> CpuDriver:
    """The driver of this machine's CPU, with the user's cache of compiled code."""
    return CpuDriver(Cache())
