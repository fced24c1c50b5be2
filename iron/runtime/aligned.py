"""Memory of this process for large arrays: from the start of a cache line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector of the processors Iron compiles for."""

LARGE = 1 << 20
"""Bytes from which an array has pages of its own, which begin with 16 bytes of the C library."""


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An uninitialised array in row-major order whose first element lies on a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    first = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[first : first + size].view(dtype).reshape(shape)


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An uninitialised array; a large one lies on a cache line, for stores past the caches."""
    if math.prod(shape) * np.dtype(dtype).itemsize < LARGE:
        return np.empty(shape, dtype)
    return aligned(shape, dtype)
