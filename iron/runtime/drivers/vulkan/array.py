"""Arrays in the memory of a Vulkan device: buffers of ours, never touched by the host directly."""

from __future__ import annotations

import itertools
import math
import weakref
from typing import Any

import numpy as np

from iron.dtypes import DType, of_numpy
from iron.errors import error
from iron.runtime.arrays import Array, Buffer
from iron.runtime.dlpack import row_major
from iron.runtime.drivers.vulkan.memory import Heap

_STARTS = itertools.count(1)


class Held:
    """Memory of a device that arrays share, given back after the last of them.

    `start` stands for its address: every memory has a span of numbers of its own, so that
    overlaps of arrays are seen.
    """

    def __init__(self, heap: Heap, size: int) -> None:
        self.heap, self.range = heap, heap.take(size)
        self.start = next(_STARTS) << 40
        weakref.finalize(self, heap.release, self.range).atexit = False


def empty(heap: Heap, shape: tuple[int, ...], dtype: DType) -> Buffer:
    """A new array, uninitialised."""
    held = Held(heap, math.prod(shape) * dtype.bytes)
    strides = row_major(shape)
    seen = Array(dtype, shape, strides, "vulkan", held.start, True, None, None)
    return Buffer(seen, held, lambda shape, dtype: empty(heap, shape, dtype))


def upload(heap: Heap, array: np.ndarray[Any, Any]) -> Buffer:
    """A contiguous copy of a host array. E0701 for elements that kernels do not have."""
    dtype = of_numpy(array.dtype)
    if dtype is None:
        raise error("E0701", f"an array of {array.dtype}: kernels have no such element type")
    packed = np.ascontiguousarray(array)
    made = empty(heap, array.shape, dtype)
    heap.write(made.memory.range, packed.__array_interface__["data"][0], packed.nbytes)
    return made


def write(array: Buffer, values: np.ndarray[Any, Any]) -> None:
    """Sets all elements after everything launched so far. E0701 for others of another kind.

    The array is contiguous.
    """
    seen, held = array.seen, array.memory
    packed = np.ascontiguousarray(values, seen.dtype.np)
    if packed.shape != seen.shape or seen.strides != row_major(seen.shape):
        raise error("E0701", f"an array of {packed.shape} for {seen.shape} in steps {seen.strides}")
    if held.heap.direct:
        held.heap.queue.wait()
    at = packed.__array_interface__["data"][0]
    held.heap.write(held.range, at, packed.nbytes, seen.pointer - held.start)


def download(array: Buffer) -> np.ndarray[Any, Any]:
    """A copy on the host, after everything launched has finished."""
    seen, held = array.seen, array.memory
    low, high = seen.span
    raw = np.empty(high - low, np.uint8)
    at = raw.__array_interface__["data"][0]
    held.heap.read(held.range, at, high - low, low - held.start)
    steps = tuple(s * seen.dtype.bytes for s in seen.strides)
    view = np.ndarray(seen.shape, seen.dtype.np, raw, seen.pointer - low, steps)
    return np.array(view)


def located(value: Any) -> tuple[Array, Held]:
    """What a launch sees of a device array, and its memory. E0705 for anything else."""
    seen, memory = value, getattr(value, "owner", None)
    if isinstance(value, Buffer):
        seen, memory = value.seen, value.memory
    if not isinstance(memory, Held):
        raise error(
            "E0705",
            f"a {type(value).__name__} is not in the memory of this Vulkan device",
            help="copy it with the driver's `upload`, or pass a numpy array",
        )
    return seen, memory
