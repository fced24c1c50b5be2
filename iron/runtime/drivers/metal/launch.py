"""Kernels bound to buffers: offsets, the structure of values, and host arrays where they lie.

Arrays of the device are taken as they are. Host arrays come where the backend was chosen by name:
those that lie on whole pages are adopted without a copy, the others are staged between fences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.backends.cuda_code import Field
from iron.backends.msl_code import Code
from iron.errors import KernelError, error
from iron.ir.core import Kernel
from iron.ir.types import Tensor
from iron.runtime.arrays import Buffer
from iron.runtime.drivers.metal.memory import Held, Memory, adopted
from iron.runtime.drivers.metal.queue import Queue
from iron.runtime.drivers.staging import Image, image
from iron.targets.apple import MOST_GROUPS

Host = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """An argument's memory, the bytes from its begin to element 0, and strides in elements."""

    held: Held
    offset: int
    strides: tuple[int, ...]


class MetalExecutable:
    """A pipeline, and how its arguments are passed."""

    def __init__(self, kernel: Kernel, code: Code, pipeline: Any, queue: Queue) -> None:
        self.code, self.pipeline, self.queue = code, pipeline, queue
        self.written = frozenset(
            p.name for p in kernel.params if isinstance(p.type, Tensor) and p.type.space != "in"
        )

    def bind(
        self,
        arrays: Mapping[str, Any],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        """A launch, which returns when the work is enqueued; with host arrays, when it is done."""
        if math.prod(grid) <= 0:
            return _nothing
        hosts = {n: a for n, a in arrays.items() if isinstance(a, np.ndarray)}
        if hosts:
            return self._staged(hosts, scalars, dims, grid)
        places = {n: self._place(n, a) for n, a in arrays.items()}
        return self._launch(places, scalars, dims, grid)

    def resources(self) -> dict[str, int]:
        """Bytes of group memory, and the threads that a group may have at most."""
        return {
            "shared_bytes": int(self.pipeline.staticThreadgroupMemoryLength()),
            "most_threads": int(self.pipeline.maxTotalThreadsPerThreadgroup()),
        }

    def _place(self, name: str, array: Any) -> Place:
        seen = array.seen if isinstance(array, Buffer) else array
        held = array.memory if isinstance(array, Buffer) else array.owner
        if not isinstance(held, Memory):
            raise self._foreign(name)
        return Place(held, seen.pointer - held.address, seen.strides)

    def _foreign(self, name: str) -> KernelError:
        return error(
            "E0701",
            f"`{name}` is an array of another library's in Metal's memory",
            kernel=self.code.name,
            help='pass numpy arrays under `iron.use("metal")`; on whole pages they are not copied',
        )

    def _launch(
        self,
        places: Mapping[str, Place],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        code, groups = self.code, math.prod(grid)
        if groups > MOST_GROUPS:
            message = f"{groups} groups are more than a launch can have ({MOST_GROUPS})"
            raise error("E0301", message, kernel=code.name)

        def value(field: Field) -> int:
            match field.kind:
                case "stride":
                    return places[field.name].strides[field.axis]
                case "extent":
                    return grid[field.axis]
                case "dim":
                    return int(dims[field.name])
                case _:
                    raw = field.dtype.np.type(scalars[field.name]).tobytes()
                    return int.from_bytes(raw, "little")

        values = code.structure(value)
        buffers = [(places[n].held.buffer, places[n].offset) for n in code.buffers]

        def run() -> None:
            self.queue.launch(code.name, self.pipeline, buffers, values, groups, code.threads)

        return run

    def _staged(
        self,
        arrays: Mapping[str, Host],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        api = self.queue.api
        whole = self._adopted(arrays)
        layout = image({n: a for n, a in arrays.items() if n not in whole}, self.written)
        memory = Memory(api, layout.size)
        places = whole | {
            n: Place(memory, at, _strides(arrays[n])) for n, at in layout.places.items()
        }
        launch = self._launch(places, scalars, dims, grid)

        def run() -> None:
            self.queue.wait()
            before = layout.fill()
            memory.bytes[:] = before
            launch()
            self.queue.wait()
            layout.take(before, memory.bytes, self.code.name)

        return run

    def _adopted(self, arrays: Mapping[str, Host]) -> dict[str, Place]:
        """The arrays whose memory is used where it lies; those that overlap share a buffer."""
        found: dict[str, Place] = {}
        layout: Image = image(arrays, self.written)
        for region in layout.regions:
            held = adopted(self.queue.api, region.low, region.size)
            if held is None:
                continue
            for name in region.names:
                first = arrays[name].__array_interface__["data"][0]
                found[name] = Place(held, first - region.low, _strides(arrays[name]))
        return found


def _strides(array: Host) -> tuple[int, ...]:
    return tuple(s // array.itemsize for s in array.strides)


def _nothing() -> None:
    """A launch of no group."""
