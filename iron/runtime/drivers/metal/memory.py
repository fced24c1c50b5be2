"""Memory that the CPU and the GPU share: new, or whole pages of the caller's."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.runtime.drivers.metal.api import Api
from iron.runtime.drivers.metal.faults import full

PAGE = mmap.PAGESIZE
"""What adopted memory begins at and its size are multiples of."""


class Memory:
    """A buffer and its bytes; `address` is where the CPU sees it."""

    def __init__(self, api: Api, size: int) -> None:
        self.buffer = api.buffer(max(1, size))
        if self.buffer is None:
            raise full()
        self.bytes = np.frombuffer(api.contents(self.buffer, max(1, size)), np.uint8)[:size]
        self.address = _address(self.bytes)


@dataclass(frozen=True, slots=True)
class Adopted:
    """The caller's pages from `address` on; the caller keeps them alive."""

    buffer: Any
    address: int


Held = Memory | Adopted


def adopted(api: Api, address: int, size: int) -> Adopted | None:
    """The pages that hold `size` bytes from a page's begin on; None where that cannot be.

    What Metal gives is looked at: where it is not the caller's own memory, nothing is adopted.
    """
    if address % PAGE or size < PAGE:
        return None
    whole = -(-size // PAGE) * PAGE
    pages = (ctypes.c_char * whole).from_address(address)
    buffer = api.adopted(memoryview(pages).cast("B"), whole)
    if buffer is None or _address(np.frombuffer(api.contents(buffer, whole), np.uint8)) != address:
        return None
    return Adopted(buffer, address)


def _address(held: np.ndarray[Any, Any]) -> int:
    return held.__array_interface__["data"][0]
