"""What a kept tile value is made of, and the barriers between its writers and its readers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from iron.ir.build import Builder
from iron.ir.core import Value
from iron.tiles.grid import Kinds


@dataclass(frozen=True, slots=True)
class Spot:
    """A chunk along one axis of a tile of `size`: its number, a plain integer or a loop's counter,
    the coordinate of its first element, and its length."""

    kind: str
    size: int
    chunk: int | Value
    at: Value
    width: int


Place = tuple[Spot, ...]


@dataclass(frozen=True, slots=True)
class Registers:
    """Each thread's chunks by their numbers; a chunk is a scalar, or a vector along the last axis.

    A chunk that is the same for its whole length may be a scalar.
    """

    kinds: Kinds
    chunks: dict[tuple[int, ...], Value]


@dataclass(frozen=True, slots=True)
class Private:
    """An array of group memory in which a thread sees its own chunks alone: no barriers.

    Its axes are the numbers of the chunks, then the thread.
    """

    kinds: Kinds
    array: Value


@dataclass(frozen=True, slots=True)
class Shared:
    """An array of group memory with the tile's elements in order, seen by every thread.

    `turned` says that its two axes are exchanged. In `panels` the columns of a right operand lie
    chunk by chunk: the axes of the array are the chunk, the row, and the lane. In `words`
    neighbours along k of an operand share a word of 32 bits: the axes are its row (of a) or column
    (of b), then the word. With `slot` the array has a first axis, and the tile is there.
    """

    array: Value
    turned: bool = False
    panels: bool = False
    words: bool = False
    slot: Value | None = None

    def transpose(self) -> Shared:
        """The same array, read as the transposed tile."""
        return Shared(self.array, not self.turned, self.panels, self.words, self.slot)


@dataclass(frozen=True, slots=True)
class Opaque:
    """The matrices of each simdgroup, row by row; nothing but a product reads them."""

    matrices: tuple[Value, ...]


Kept = Registers | Private | Shared | Opaque


@dataclass(slots=True)
class Fence:
    """Arrays touched since the last barrier. `unknown` says that any array may have been: at the
    start of a loop's body, before its first barrier."""

    read: set[Value] = field(default_factory=set[Value])
    written: set[Value] = field(default_factory=set[Value])
    unknown: bool = False

    def reads(self, b: Builder, array: Value) -> None:
        """Call before threads read elements that others may have written."""
        if self.unknown or array in self.written:
            self.barrier(b)
        self.read.add(array)

    def writes(self, b: Builder, array: Value) -> None:
        """Call before threads write elements that others may have read or written."""
        if self.unknown or array in self.written or array in self.read:
            self.barrier(b)
        self.written.add(array)

    def barrier(self, b: Builder) -> None:
        """Emits a barrier; nothing is pending after it."""
        b.emit_all("barrier")
        self.read, self.written, self.unknown = set(), set(), False

    @contextmanager
    def loop(self) -> Generator[None]:
        """Around a loop's body, which may run not at all or follow itself."""
        before = self.read, self.written, self.unknown
        self.read, self.written, self.unknown = set(), set(), True
        yield
        if self.unknown and not self.read and not self.written:
            self.read, self.written, self.unknown = before
        else:
            self._join(*before)

    @contextmanager
    def side(self) -> Generator[None]:
        """Around a side of a branch, which may be skipped."""
        before = set(self.read), set(self.written), self.unknown
        yield
        self._join(*before)

    def _join(self, read: set[Value], written: set[Value], unknown: bool) -> None:
        self.read, self.written = self.read | read, self.written | written
        self.unknown = self.unknown or unknown
