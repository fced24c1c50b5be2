"""Memory of a device of CUDA or HIP."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from iron.runtime.drivers.stream_api import StreamApi


class Memory:
    """Bytes of the device, given back with the last reference."""

    def __init__(self, api: StreamApi, size: int) -> None:
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


def _free(api: StreamApi, address: int) -> None:
    api.free(address)
