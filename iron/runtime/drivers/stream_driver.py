"""What the drivers of CUDA and HIP share: arrays of the device, waiting, and the device's clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from iron.dtypes import DType, of_numpy
from iron.errors import error
from iron.runtime.arrays import Array, Buffer
from iron.runtime.dlpack import row_major
from iron.runtime.drivers import stream
from iron.runtime.drivers.stream_api import StreamApi
from iron.runtime.drivers.stream_memory import Memory

Vendor = TypeVar("Vendor", bound=StreamApi)


class StreamDriver(Generic[Vendor]):
    """One GPU. `device` is the kind of memory its arrays live in."""

    device = ""
    stages = True

    def __init__(self, api: Vendor | None) -> None:
        self._api = api

    def open(self) -> Vendor:
        """The driver interface. E0603 says what is missing."""
        raise NotImplementedError

    @property
    def api(self) -> Vendor:
        """The driver interface, opened on first use. E0603 says what is missing."""
        if self._api is None:
            self._api = self.open()
        return self._api

    @property
    def lost(self) -> bool:
        """True after a fault that ends the use of the device in this process."""
        return self._api is not None and self._api.lost

    def synchronise(self) -> None:
        """Waits for the device; a fault of an earlier launch is raised here."""
        self.api.synchronise()

    def upload(self, array: np.ndarray[Any, Any]) -> Buffer:
        """A contiguous copy in the device's memory, aligned to 256 bytes."""
        held = np.ascontiguousarray(array)
        dtype = of_numpy(held.dtype)
        if dtype is None:
            raise error("E0701", f"an array of {array.dtype}: kernels have no such element type")
        made = self.empty(array.shape, dtype)
        made.memory.write(held)
        return made

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """New memory of the device, uninitialised."""
        memory = Memory(self.api, math.prod(shape) * dtype.bytes)
        strides = row_major(shape)
        seen = Array(dtype, shape, strides, self.device, memory.address, True, None, None)
        return Buffer(seen, memory, self.empty)

    def download(self, array: Buffer) -> np.ndarray[Any, Any]:
        """A host copy, after everything launched has finished."""
        self.synchronise()
        seen, whole = array.seen, array.memory.read()
        first = seen.pointer - array.memory.address
        elements = whole[first % seen.dtype.bytes :]
        elements = elements[: len(elements) // seen.dtype.bytes * seen.dtype.bytes]
        at = elements.view(seen.dtype.np)[first // seen.dtype.bytes :]
        steps = tuple(s * seen.dtype.bytes for s in seen.strides)
        return np.array(np.lib.stride_tricks.as_strided(at, seen.shape, steps))

    def elapsed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        """Runs the calls in order on the caller's stream; the seconds between their ends."""
        api, current = self.api, stream.of({}, self.api.ordinal)
        api.enter()
        marks = [api.event() for _ in range(len(calls) + 1)]
        try:
            api.record(marks[0], current())
            for call, mark in zip(calls, marks[1:], strict=True):
                call()
                api.record(mark, current())
            api.synchronise()
            return [api.between(a, b) for a, b in pairwise(marks)]
        finally:
            for mark in marks:
                api.drop(mark)
