"""The Metal driver: kernels as Apple's compiler makes them of text, on memory that is shared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from iron.backends.msl_code import Code, code_of
from iron.dtypes import DType, of_numpy
from iron.errors import error
from iron.ir.core import Kernel
from iron.runtime.arrays import Array, Buffer
from iron.runtime.dlpack import row_major
from iron.runtime.drivers.metal.api import Api, bindings
from iron.runtime.drivers.metal.faults import refused
from iron.runtime.drivers.metal.launch import MetalExecutable
from iron.runtime.drivers.metal.memory import Memory
from iron.runtime.drivers.metal.queue import Queue
from iron.targets.apple import LEVELS, SIMD
from iron.targets.target import Target


class MetalDriver:
    """Compiles for and launches on the GPU of a Mac.

    Text is compiled when a kernel is loaded; macOS keeps what its compiler made.
    """

    name = "metal"
    device = "metal"
    stages = True

    def __init__(self, api: Api | None = None) -> None:
        self._queue = Queue(api) if api is not None else None
        self._target: Target | None = None

    @property
    def queue(self) -> Queue:
        """The device's queue, opened on first use. E0603 says what is missing."""
        if self._queue is None:
            self._queue = Queue(Api(*bindings()))
        return self._queue

    def target(self) -> Target:
        """The GPU's family. Raises E0603 without one of Apple's own, M1 or later."""
        if self._target is None:
            api = self.queue.api
            best = [t for name, t in LEVELS.items() if api.supports(name.capitalize())]
            if not best:
                help = "the Metal backend needs an Apple GPU: M1, A14 or later"
                raise error("E0603", f"this GPU is a {api.name()}", help=help)
            self._target = best[-1]
        return self._target

    def facts(self) -> dict[str, Any]:
        """The GPU, and the bytes it works with at full speed."""
        api = self.queue.api
        self.target()
        return {"gpu": api.name(), "memory": api.memory()}

    def load(self, kernel: Kernel) -> MetalExecutable:
        """The kernel, compiled. E0301 and E0501 when a group of it is too large for the GPU."""
        self.target()
        code = code_of(kernel)
        return MetalExecutable(kernel, code, self._pipeline(code), self.queue)

    def _pipeline(self, code: Code) -> Any:
        api = self.queue.api
        library, fault = api.library(code.source)
        if library is None:
            raise refused(code, fault)
        made, fault = api.pipeline(library, code.symbol)
        if made is None:
            raise refused(code, fault)
        if int(made.threadExecutionWidth()) != SIMD:
            found = f"simdgroups of {made.threadExecutionWidth()} threads, not of {SIMD}"
            raise error("E0602", f"this GPU runs {found}", kernel=code.name)
        most = int(made.maxTotalThreadsPerThreadgroup())
        if code.threads > most:
            message = f"a group of {code.threads} threads needs more registers than there are"
            raise error("E0301", message, kernel=code.name, help=f"it may have {most} threads")
        taken, room = int(made.staticThreadgroupMemoryLength()), api.group_memory()
        if taken > room:
            message = f"{taken} bytes of group memory are more than this GPU's {room}"
            raise error("E0501", message, kernel=code.name)
        return made

    def synchronise(self) -> None:
        """Waits for what was launched; a fault of a launch is raised here."""
        self.queue.wait()

    def upload(self, array: np.ndarray[Any, Any]) -> Buffer:
        """A contiguous copy in memory that the GPU shares, aligned to a page."""
        held = np.ascontiguousarray(array)
        dtype = of_numpy(held.dtype)
        if dtype is None:
            raise error("E0701", f"an array of {array.dtype}: kernels have no such element type")
        made = self.empty(array.shape, dtype)
        made.memory.bytes[:] = np.frombuffer(held.tobytes(), np.uint8)
        return made

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """New memory, uninitialised."""
        memory = Memory(self.queue.api, math.prod(shape) * dtype.bytes)
        strides = row_major(shape)
        seen = Array(dtype, shape, strides, self.device, memory.address, True, None, None)
        return Buffer(seen, memory, self.empty)

    def download(self, array: Buffer) -> np.ndarray[Any, Any]:
        """A copy, after everything launched has finished."""
        self.queue.wait()
        seen, memory = array.seen, array.memory
        first = seen.pointer - memory.address
        steps = tuple(s * seen.dtype.bytes for s in seen.strides)
        raw = memory.bytes
        view = np.ndarray(seen.shape, seen.dtype.np, raw.data, first, steps) if raw.size else None
        return np.array(view) if view is not None else np.empty(seen.shape, seen.dtype.np)

    def elapsed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        """Runs the calls in order; the GPU's seconds for each."""
        return self.queue.elapsed(calls)


def open_driver() -> MetalDriver:
    """The driver of this Mac's GPU."""
    return MetalDriver()
