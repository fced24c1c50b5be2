"""How bulk copies see the views of a program: boxes of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from iron.analysis.ranges import Ranges, ranges
from iron.ir.core import Kernel, Op, Value, const_of, is_const
from iron.ir.types import Tensor
from iron.tiles.sides import sides

MOST_SIDE = 256
"""Elements of a box along an axis of a tensor map, whose rank is at most `MOST_AXES`."""
MOST_AXES = 5


class Refused(Exception):
    """Why this road does not take a kernel; another one does."""


@dataclass(frozen=True, slots=True)
class Box:
    """A matrix of `buffer`: its rows and columns move along `axes`.

    `turned`: the rows are the tile's columns. `axes`, `sides`, `extents` and `ended` as in the row
    `ring_copy`; `whole` are the sides of all rows of the tile, of which a copy may be a part.
    """

    buffer: Value
    axes: tuple[int, ...]
    sides: tuple[int, ...]
    whole: tuple[int, ...]
    turned: bool
    extents: tuple[str | int, ...]
    ended: bool

    @property
    def attrs(self) -> tuple[Any, ...]:
        """Of a copy."""
        return (self.axes, self.sides, self.extents, self.ended)


class Boxes:
    """The boxes of a program that was made from `source`, whose reads it has, by their sites."""

    def __init__(self, source: Kernel, program: Kernel) -> None:
        self.source = source
        self.program = program
        self._known: dict[Kernel, Ranges] = {}

    @staticmethod
    def turned(op: Op) -> bool:
        """True when the rows of an access of two axes are neighbours in memory."""
        t = op.args[0].type
        assert isinstance(t, Tensor)
        return op.attr("axes")[0] == t.rank - 1

    def of(self, op: Op, rows: int = 0) -> Box:
        """The box of `rows` rows of an access, of all of them for 0. Raises Refused."""
        t = op.args[0].type
        assert isinstance(t, Tensor)
        axes, steps, groups = op.attr("axes"), op.attr("steps"), sides(op)
        if len(groups) != 2 or not 2 <= t.rank <= MOST_AXES:
            raise Refused(f"a view of {len(groups)} axes of {t.rank}")
        if not t.packed or t.rank - 1 not in axes or any(s != 1 for s in steps):
            raise Refused("the rows of a view are not neighbours in memory")
        turned = self.turned(op)
        whole, cut = groups[1 if turned else 0], len(groups[0])
        split = (axes[:cut], axes[cut:])
        down, across = split[::-1] if turned else split
        if across != (t.rank - 1,) or list(down) != sorted(down):
            raise Refused("the rows of a view are not neighbours in memory")
        extents, ended = self._ends(op, t)
        if ended and (t.rank == MOST_AXES or len(down) != 1):
            raise Refused(f"a view with an end of its own of {t.rank} axes")
        taken = _taken(whole, rows or prod(whole))
        if max(taken) > MOST_SIDE:
            raise Refused(f"a copy of {taken} rows")
        return Box(op.args[0], (*down, *across), taken, whole, turned, extents, ended)

    def _ends(self, op: Op, t: Tensor) -> tuple[tuple[str | int, ...], bool]:
        """The sizes of the tensor's axes, and whether the view's rows have an end of their own."""
        axes = op.attr("axes")
        extent = op.args[1 + t.rank + len(axes) : 1 + t.rank + 2 * len(axes)]
        sizes: list[str | int] = [""] * t.rank
        ended = False
        for j, (axis, size) in enumerate(zip(axes, extent, strict=True)):
            base, known = op.args[1 + axis], _size(self.program, size)
            if is_const(base) and const_of(base) == 0 and known is not None:
                sizes[axis] = known
            elif axis == t.rank - 1:
                raise Refused("a view of parts of rows")
            else:
                ended = True
                self._inside(op, 1 + t.rank + j)
        return tuple(sizes), ended

    def _inside(self, op: Op, operand: int) -> None:
        """A copy knows where a view ends; it is never asked for what lies before its begin.

        A read is looked up as it was written: its copies have its places, under other names.
        """
        kernel = self.program
        if op.name == "tile_read":
            kernel, site = self.source, op.attr("site")
            reads = (o for o in kernel.body.walk() if o.name == "tile_read")
            op = next(o for o in reads if o.attr("site") == site)
        if kernel not in self._known:
            self._known[kernel] = ranges(kernel)
        found = self._known[kernel].at(op, operand)
        if found is None or found.low < 0:
            raise Refused("a view with an end of its own may be read before its begin")


def _taken(whole: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """The sides of the first `rows` of the rows of a tile. Raises Refused where they are no box."""
    out: list[int] = []
    for side in reversed(whole):
        taken = min(side, rows)
        if side % taken or rows % taken:
            raise Refused(f"{rows} rows of {whole} are no box")
        out.insert(0, taken)
        rows //= taken
    if rows != 1:
        raise Refused(f"{rows} times the rows of {whole}")
    return tuple(out)


def _size(kernel: Kernel, value: Value) -> str | int | None:
    if is_const(value):
        return int(const_of(value))
    for param, held in zip(kernel.params, kernel.body.params, strict=True):
        if held is value and param.role == "dim":
            return param.name
    return None
