"""What CUDA and HIP have alike, as the drivers use it, and memory of such a device."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class Api(Protocol):
    """One device of a vendor's driver interface: every result checked, addresses as ints."""

    ordinal: int
    lost: bool

    def most_groups(self, threads: int) -> int:
        """The groups of `threads` that one launch may have."""
        ...

    def function(self, code: bytes, symbol: str, shared: int) -> Any:
        """The kernel of a module, in memory; it may ask for `shared` bytes at a launch."""
        ...

    def launcher(
        self,
        function: Any,
        grid: tuple[int, int],
        threads: int,
        shared: int,
        parameters: int,
        stream: Callable[[], int],
    ) -> Callable[[], None]:
        """A launch on the stream that `stream()` names; `parameters` is the packed arguments."""
        ...

    def enter(self) -> None:
        """Makes the device the one of this thread."""
        ...

    def allocate(self, size: int) -> int:
        """The address of `size` new bytes, aligned to 256."""
        ...

    def free(self, address: int) -> None:
        """Gives memory back; the device finishes what uses it first."""
        ...

    def send(self, to: int, host: int, size: int) -> None:
        """Copies from host memory; earlier launches on the default stream come first."""
        ...

    def fetch(self, host: int, at: int, size: int) -> None:
        """Copies to host memory, after what was launched on the default stream."""
        ...

    def synchronise(self) -> None:
        """Waits for everything launched from this process on the device."""
        ...

    def event(self) -> Any:
        """A new event that keeps time."""
        ...

    def record(self, event: Any, stream: int) -> None:
        """Marks the end of what is on the stream so far."""
        ...

    def between(self, first: Any, last: Any) -> float:
        """Seconds between two events that have happened."""
        ...

    def drop(self, event: Any) -> None:
        """Gives an event back."""
        ...


class Memory:
    """Bytes of the device, given back with the last reference."""

    def __init__(self, api: Api, size: int) -> None:
        self._api, self.size = api, size
        self.address = api.allocate(size)
        self._end = weakref.finalize(self, _free, api, self.address)
        self._end.atexit = False

    def write(self, source: np.ndarray[Any, Any]) -> None:
        """Copies a contiguous host array to the start."""
        self._api.send(self.address, source.__array_interface__["data"][0], source.nbytes)

    def read(self) -> np.ndarray[Any, Any]:
        """All bytes, after what was launched before."""
        held = np.empty(self.size, np.uint8)
        self._api.fetch(held.__array_interface__["data"][0], self.address, self.size)
        return held


def _free(api: Api, address: int) -> None:
    api.free(address)
