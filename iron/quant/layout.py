"""A weight file before its data: the header's bytes and the place of every piece behind it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """One contiguous run of data: which tensor, which plane of it, where and how long."""

    tensor: str
    plane: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class FileLayout:
    """A header and the pieces it describes; bytes between pieces are zero. `size` is the file's."""

    header: bytes
    pieces: tuple[Piece, ...]
    size: int

    def of(self, tensor: str) -> dict[str, Piece]:
        """The pieces of one tensor, by plane."""
        return {p.plane: p for p in self.pieces if p.tensor == tensor}
