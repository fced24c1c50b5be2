"""Windows of tile accesses: where an element of a view lies in its buffer, and if it exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iron.dtypes import DType, bool_
from iron.ir.build import Builder
from iron.ir.core import Value
from iron.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class Window:
    """View axis j moves along buffer axis `axes[j]` by `steps[j]`; all values are of `index`.

    `first` is the view's element that the tile begins with, where the access has one.
    """

    buffer: Value
    bases: tuple[Value, ...]
    axes: tuple[int, ...]
    steps: tuple[int, ...]
    extent: tuple[Value, ...]
    first: tuple[Value, ...]
    index: DType

    @property
    def neighbours(self) -> bool:
        """True when neighbours along the view's last axis are neighbours in memory order."""
        held = self.buffer.type
        assert isinstance(held, Tensor)
        return self.axes[-1] == held.rank - 1 and self.steps[-1] == 1

    def place(self, b: Builder, offsets: Sequence[Value]) -> list[Value]:
        """The view's element at `offsets` from the window's first one."""
        return [b.emit("add", f, o) for f, o in zip(self.first, offsets, strict=True)]

    def indices(self, b: Builder, view: Sequence[Value]) -> list[Value]:
        """The buffer's indices of the view's element `view`."""
        out = list(self.bases)
        for axis, step, u in zip(self.axes, self.steps, view, strict=True):
            moved = u if step == 1 else b.emit("mul", u, b.const(step, self.index))
            out[axis] = b.emit("add", out[axis], moved)
        return out

    def exists(self, b: Builder, view: Sequence[Value]) -> Value:
        """Whether the view has an element `view`."""
        zero = b.const(0, self.index)
        out = b.const(True, bool_)
        for u, extent in zip(view, self.extent, strict=True):
            for known in (b.emit("ge", u, zero), b.emit("lt", u, extent)):
                out = b.emit("and", out, known)
        return out

    def whole(self, b: Builder, shape: Sequence[int]) -> Value:
        """Whether every element of a tile of `shape` exists."""
        zero = b.const(0, self.index)
        out = b.const(True, bool_)
        for first, size, extent in zip(self.first, shape, self.extent, strict=True):
            end = b.emit("add", first, b.const(size, self.index))
            for known in (b.emit("ge", first, zero), b.emit("le", end, extent)):
                out = b.emit("and", out, known)
        return out
