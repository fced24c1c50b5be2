"""Windows of tile accesses: where an element of a view lies in its buffer, and if it exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iron.dtypes import DType, bool_
from iron.ir.build import Builder
from iron.ir.core import Value
from iron.ir.ops.tile import Sides, parted
from iron.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class Window:
    """View axis j moves along buffer axis `axes[j]` by `steps[j]`; all values are of `index`.

    `first` is the view's element that the tile begins with and `sides` how far it reaches, where
    the access has them; a side that is a tuple joins axes of the view.
    """

    buffer: Value
    bases: tuple[Value, ...]
    axes: tuple[int, ...]
    steps: tuple[int, ...]
    extent: tuple[Value, ...]
    first: tuple[Value, ...]
    sides: Sides
    index: DType

    @property
    def neighbours(self) -> bool:
        """True when neighbours along the tile's last axis are neighbours in memory order."""
        held = self.buffer.type
        assert isinstance(held, Tensor)
        alone = not (self.sides and isinstance(self.sides[-1], tuple))
        return alone and self.axes[-1] == held.rank - 1 and self.steps[-1] == 1

    def place(self, b: Builder, offsets: Sequence[Value]) -> list[Value]:
        """The view's element at `offsets` in the tile."""
        along = [
            o for s, at in zip(self.sides, offsets, strict=True) for o in self._parts(b, s, at)
        ]
        return [b.emit("add", f, o) for f, o in zip(self.first, along, strict=True)]

    def _parts(self, b: Builder, side: int | tuple[int, ...], at: Value) -> list[Value]:
        """An offset along each of the axes that one of the tile joins."""
        if not isinstance(side, tuple):
            return [at]
        out: list[Value] = []
        for size in side[:0:-1]:
            by = b.const(size, self.index)
            out.append(b.emit("mod", at, by))
            at = b.emit("floordiv", at, by)
        return [at, *out[::-1]]

    def onward(
        self, b: Builder, offsets: Sequence[Value], view: Sequence[Value], count: int
    ) -> list[Value]:
        """The element `count` places after `view`, that at `offsets`, along the last axis."""
        by = b.const(count, self.index)
        if self.sides and isinstance(self.sides[-1], tuple):
            return self.place(b, [*offsets[:-1], b.emit("add", offsets[-1], by)])
        return [*view[:-1], b.emit("add", view[-1], by)]

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

    def whole(self, b: Builder) -> Value:
        """Whether every element of the tile exists."""
        zero = b.const(0, self.index)
        out = b.const(True, bool_)
        for first, size, extent in zip(self.first, parted(self.sides), self.extent, strict=True):
            end = b.emit("add", first, b.const(size, self.index))
            for known in (b.emit("ge", first, zero), b.emit("le", end, extent)):
                out = b.emit("and", out, known)
        return out


@dataclass(frozen=True, slots=True)
class Hint:
    """A tile of rows x columns elements that the next turn of a loop reads."""

    window: Window
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Coming:
    """A right operand of which two panels at a time are in group memory: a product reads one while
    the next is filled. `array` has a first axis of the panels that there is room for."""

    window: Window
    array: Value
    turned: bool
    depth: int
    side: int
