"""What a name can stand for while a kernel is read, and how nested values come apart.

A name is an IR value, one of the records below, or an ordinary Python object.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iron.ir.core import Value
from iron.ir.ops.tile import Sides, joined

if TYPE_CHECKING:
    from iron.front.state import Frame


@dataclass(frozen=True, slots=True)
class Weak:
    """An integer made of dims and literals: it takes the dtype of what it meets."""

    value: Value


@dataclass(frozen=True, slots=True)
class Broken:
    """A name without a single value here; reading it is E0203 with this reason."""

    why: str


@dataclass(frozen=True, slots=True)
class Span:
    """A free axis of a view: element i of it is `offset + i * step` of the buffer's axis.

    `offset` and `length` are ints, `Weak` or integer values; `step` is a nonzero int.
    """

    offset: object
    step: int
    length: object


@dataclass(frozen=True, slots=True)
class View:
    """A part of a tensor: for each axis of the buffer a fixed index or a `Span`."""

    buffer: Value
    axes: tuple[object, ...]

    @property
    def elem(self) -> Any:
        """The dtype of one element."""
        return self.buffer.type.elem  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def spans(self) -> tuple[Span, ...]:
        """The free axes, in order."""
        return tuple(a for a in self.axes if isinstance(a, Span))


@dataclass(frozen=True, slots=True)
class Tiling:
    """A view cut into tiles: a side for each of its free axes; a tuple of sides joins axes.

    Element (r, ..) of tile (i, ..) is element `i * side + r` of the view.
    """

    view: View
    sides: Sides

    @property
    def shape(self) -> tuple[int, ...]:
        """The sides of a tile."""
        return joined(self.sides)


@dataclass(frozen=True, slots=True)
class Range:
    """`range(low, high, step)`; a run-time loop when it is the target of a `for`.

    `stages` counts the turns that tile reads may be early; 0 for a plain loop.
    """

    low: object
    high: object
    step: object
    stages: int = 0

    @property
    def parts(self) -> tuple[object, object, object]:
        """Low, high and step."""
        return (self.low, self.high, self.step)


@dataclass(frozen=True, slots=True)
class Method:
    """`owner.name`, to be called."""

    owner: object
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A lambda written in a kernel, with the frame whose names it sees."""

    tree: ast.Lambda
    frame: Frame


@dataclass(frozen=True, slots=True)
class Mask:
    """The lanes for which a ballot held, as a u64 value."""

    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class PackedView:
    """A packed parameter: its format and a view of each plane."""

    name: str
    format: Any
    planes: dict[str, View]
    shape: tuple[object, ...]


class Aliased(list[Any]):
    """A list that may have a second name: element assignment would be seen by neither."""


class Specialise(Exception):
    """A compile-time integer is needed of these dims: start again with their values."""

    def __init__(self, dims: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(dims)))
        self.dims = dims


class Returned(Exception):
    """Control leaves the function that is being read with this object."""

    def __init__(self, result: object) -> None:
        super().__init__()
        self.result = result


RUNTIME = (Value, Weak, View, Mask)


def dynamic(x: object) -> bool:
    """True when `x` is, or holds, something that exists only at run time."""
    if isinstance(x, list | tuple):
        return any(dynamic(y) for y in x)
    return isinstance(x, (*RUNTIME, PackedView, Tiling, Method))


def leaves(x: object) -> Iterator[object]:
    """The objects in nested lists and tuples, from left to right."""
    if isinstance(x, list | tuple):
        for y in x:
            yield from leaves(y)
    else:
        yield x


def replaced(x: object, fresh: Iterator[object], second_names: Iterator[bool]) -> Any:
    """`x` with its leaves taken from `fresh`; a list that had a second name stays marked."""
    if isinstance(x, list):
        mark = next(second_names) or isinstance(x, Aliased)
        inside = [replaced(y, fresh, second_names) for y in x]
        return Aliased(inside) if mark else inside
    if isinstance(x, tuple):
        inside = [replaced(y, fresh, second_names) for y in x]
        return type(x)(*inside) if hasattr(x, "_fields") else tuple(inside)
    return next(fresh)


def references(to: object, held: object) -> int:
    """How often `held` is, or holds, the very object `to`."""
    if held is to:
        return 1
    if isinstance(held, list | tuple):
        return sum(references(to, x) for x in held)
    return 0


def same_shape(a: object, b: object) -> bool:
    """True when both are built of lists and tuples in the same way."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        alike = isinstance(a, list) == isinstance(b, list) and len(a) == len(b)
        return alike and all(same_shape(x, y) for x, y in zip(a, b, strict=True))
    return not isinstance(a, list | tuple) and not isinstance(b, list | tuple)
