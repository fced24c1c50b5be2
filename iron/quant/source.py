"""A file of weights as mapped bytes, with one way to say what is wrong and where.

Nothing is copied: arrays taken from a `Source` are read-only views of the mapping, which stays
alive as long as one of them does.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iron.errors import KernelError, error

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The bytes of one file, read-only."""

    path: Path
    data: Array

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.data.size

    def fault(self, offset: int, message: str, tensor: str = "", help: str = "") -> KernelError:
        """E0801 that names the file, the tensor if any, and the byte offset."""
        where = f" tensor {tensor}," if tensor else ""
        return error("E0801", f"{self.path}:{where} byte {offset}: {message}", help=help)

    def bytes(self, offset: int, size: int, tensor: str = "") -> Array:
        """`size` bytes from `offset`, as a view; E0801 when they are not all in the file."""
        if offset < 0 or size < 0 or offset + size > self.size:
            missing = f"needs {size} bytes, the file ends at {self.size}"
            raise self.fault(offset, missing, tensor, "the file is truncated, fetch it again")
        return self.data[offset : offset + size]


def open_source(path: str | Path) -> Source:
    """Maps `path`; E0801 when it cannot be opened."""
    path = Path(path)
    try:
        with path.open("rb") as handle:
            if path.stat().st_size == 0:
                raise error("E0801", f"{path}: byte 0: the file is empty")
            mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as problem:
        raise error("E0801", f"{path}: {problem.strerror or problem}") from None
    return Source(path, np.frombuffer(mapped, np.uint8))


class Cursor:
    """Reads little-endian values one after the other from a `Source`."""

    __slots__ = ("at", "source")

    def __init__(self, source: Source, at: int = 0) -> None:
        self.source = source
        self.at = at

    def scalar(self, code: str) -> Any:
        """One value of the `struct` code `code`."""
        size = struct.calcsize(code)
        raw = self.source.bytes(self.at, size).tobytes()
        self.at += size
        return struct.unpack(f"<{code}", raw)[0]

    def array(self, dtype: str, count: int) -> Array:
        """`count` values of a numpy dtype, as a view."""
        size = np.dtype(dtype).itemsize * count
        raw = self.source.bytes(self.at, size)
        self.at += size
        return raw.view(np.dtype(dtype).newbyteorder("<"))

    def text(self) -> str:
        """A u64 length and that many bytes of UTF-8; E0801 for any other bytes."""
        start = self.at
        size = self.scalar("Q")
        raw = self.source.bytes(self.at, size).tobytes()
        self.at += size
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as problem:
            raise self.source.fault(start, f"a string that is not UTF-8 ({problem})") from None
