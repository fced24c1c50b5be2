"""Outputs that betray a kernel: poisoned so that an unwritten element shows, fenced by canaries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.check.tolerance import Array
from iron.dtypes import DType

FENCE = 256  # bytes on either side
ALIGNMENT = 64
CANARY = 0xA5
PATTERNS = (0xFF, 0x7F, 0x6B, 0x35, 0xD3)  # 0xFF.. is a NaN in every float type


@dataclass(frozen=True, slots=True)
class Fenced:
    """`array` inside `buffer`, at byte `start`, between two fences."""

    array: Array
    buffer: Array
    start: int

    def overrun(self) -> str:
        """What was written outside the array, as a phrase; empty when nothing was."""
        end = self.start + self.array.nbytes
        before = np.flatnonzero(self.buffer[: self.start] != CANARY)
        if before.size:
            return f"wrote {self.start - before[0]} bytes before its start"
        after = np.flatnonzero(self.buffer[end:] != CANARY)
        if after.size:
            return f"wrote {after[-1] + 1} bytes past its end"
        return ""


def fenced(shape: tuple[int, ...], dtype: DType, fill: int | Array) -> Fenced:
    """A fenced array filled with the byte `fill`, or with a copy of the array `fill`."""
    size = math.prod(shape) * dtype.bytes
    buffer = np.full(size + 2 * FENCE + ALIGNMENT, CANARY, np.uint8)
    start = FENCE + -(buffer.ctypes.data + FENCE) % ALIGNMENT
    inside = buffer[start : start + size]
    array: Array = inside.view(dtype.np).reshape(shape)
    if isinstance(fill, int):
        inside[:] = fill
    else:
        array[...] = fill
    return Fenced(array, buffer, start)


def poison(want: Array, dtype: DType) -> int:
    """A fill byte whose element does not occur in the expected output, if there is one."""
    patterns = PATTERNS if dtype.is_float else PATTERNS[1:]
    flat = np.ascontiguousarray(want).reshape(-1)
    for byte in patterns:
        element: Any = np.full(dtype.bytes, byte, np.uint8).view(dtype.np)[0]
        taken = (flat != flat).any() if element != element else (flat == element).any()
        if not taken:
            return byte
    return patterns[0]
