"""What drivers share whose kernels run in this process's memory and are finished on return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector of the processors Iron compiles for."""


class HostDriver:
    """Arrays are numpy arrays; time is that of the monotonic clock."""

    __slots__ = ()

    def upload(self, array: Array) -> Array:
        """A contiguous copy whose first element lies on a cache line."""
        memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
        first = -memory.__array_interface__["data"][0] % ALIGNMENT
        copy = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
        copy[...] = array
        return copy

    def download(self, array: Array) -> Array:
        """A copy."""
        return np.array(array)

    def elapsed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        """Runs the calls in order; the seconds each one took."""
        taken: list[float] = []
        for call in calls:
            started = perf_counter()
            call()
            taken.append(perf_counter() - started)
        return taken

    def synchronise(self) -> None:
        """Launches are finished when they return."""
