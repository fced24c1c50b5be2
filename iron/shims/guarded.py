"""Copies of a launch's arrays between pages that cannot be touched.

The copy of an array lies in memory of its own with the same strides. What it does not hold there
(gaps of a strided view, the rest to a multiple of 16 bytes) is ones, and must be afterwards.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.shims.fibres import Fibres

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Guarded:
    """The copy of one array: `view` has its shape and strides within the bytes `raw`."""

    source: Array
    view: Array
    raw: Array
    first: int
    mapping: tuple[int, int]

    @property
    def address(self) -> int:
        """Where element 0 lies."""
        return self.raw.ctypes.data + self.first

    @property
    def straight(self) -> bool:
        """True when neighbours along the last axis are neighbours in memory."""
        view = self.view
        return view.shape[-1] < 2 or view.strides[-1] == view.itemsize

    def aligned(self, size: int) -> bool:
        """True when every row along the last axis begins at a multiple of `size` bytes."""
        rows = zip(self.view.shape[:-1], self.view.strides[:-1], strict=True)
        return self.address % size == 0 and all(n == 1 or s % size == 0 for n, s in rows)

    def back(self) -> None:
        """What the kernel wrote goes to the array."""
        self.source[...] = self.view

    def spoilt(self) -> int | None:
        """The distance from element 0 to the first byte written outside the array, if any."""
        held = np.zeros(self.raw.size, bool)
        if self.source.size:
            shape = (*self.view.shape, self.view.itemsize)
            np.ndarray(shape, bool, held.data, self.first, (*self.view.strides, 1))[...] = True
        bad = np.flatnonzero(~held & (self.raw != 0xFF))
        return int(bad[0]) - self.first if bad.size else None

    def near(self, address: int) -> bool:
        """True for an address in the mapping, the pages on either side included."""
        return self.mapping[0] <= address < self.mapping[0] + self.mapping[1]


def guard(fibres: Fibres, source: Array) -> Guarded:
    """A copy of `source`; `fibres.unmap(*mapping)` gives its memory back."""
    reach = [(n - 1) * s for n, s in zip(source.shape, source.strides, strict=True)]
    low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)
    size = high - low + source.itemsize if source.size else 0
    at, begin, whole, whole_size = fibres.map(size)
    end = whole + whole_size - (begin - whole)
    raw = np.ctypeslib.as_array((ctypes.c_uint8 * (end - begin)).from_address(begin))
    first = at - begin - low
    if not source.size:
        return Guarded(source, np.empty_like(source), raw, first, (whole, whole_size))
    view = np.ndarray(source.shape, source.dtype, raw.data, first, source.strides)
    view[...] = source
    return Guarded(source, view, raw, first, (whole, whole_size))
