"""What drivers share whose kernels run in this process's memory and are finished on return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from iron.runtime.aligned import aligned

Array = np.ndarray[Any, Any]


class HostDriver:
    """Arrays are numpy arrays; time is that of the monotonic clock."""

    __slots__ = ()

    def upload(self, array: Array) -> Array:
        """A contiguous copy whose first element lies on a cache line."""
        copy = aligned(array.shape, array.dtype)
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
