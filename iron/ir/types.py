"""Types of IR values, interned so that equal types are one object and compare with `is`.

A scalar's type is its `DType`. This module knows no ops.
"""

from __future__ import annotations

from dataclasses import dataclass

from iron.dtypes import DType

MAX_VECTOR = 64

PARAMETER_SPACES = ("in", "out", "inout")


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """`count` neighbours of one dtype, held by one thread."""

    elem: DType
    count: int

    def __repr__(self) -> str:
        return f"{self.elem}x{self.count}"


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A place in memory: a parameter, a group's shared array, or a constant table.

    `space` is `in`, `out`, `inout`, `shared` or `table`. `shape` holds sizes for `shared` and
    `table` and is empty for parameters, whose extents are run-time facts. `packed` says that the
    last axis of a parameter has stride 1.
    """

    elem: DType
    rank: int
    space: str
    shape: tuple[int, ...] = ()
    packed: bool = True

    def __repr__(self) -> str:
        axes = ", ".join(map(str, self.shape)) if self.shape else ", ".join("?" * self.rank)
        return f"{self.space} {self.elem}[{axes}]" + ("" if self.packed else " strided")


Type = DType | Vector | Tensor

_VECTORS: dict[tuple[DType, int], Vector] = {}
_TENSORS: dict[tuple[DType, int, str, tuple[int, ...], bool], Tensor] = {}


def vector(elem: DType, count: int) -> Vector:
    """The vector type of `count` elements (1 to 64)."""
    if not 1 <= count <= MAX_VECTOR:
        raise ValueError(f"a vector has 1 to {MAX_VECTOR} elements, not {count}")
    return _VECTORS.setdefault((elem, count), Vector(elem, count))


def tensor(
    elem: DType, rank: int, space: str, shape: tuple[int, ...] = (), packed: bool = True
) -> Tensor:
    """The tensor type with these facts."""
    key = (elem, rank, space, shape, packed)
    return _TENSORS.setdefault(key, Tensor(*key))


def element(t: Type) -> DType:
    """The dtype of one element of `t`."""
    return t if isinstance(t, DType) else t.elem


def count(t: Type) -> int:
    """Elements of a vector type; 0 for a scalar."""
    return t.count if isinstance(t, Vector) else 0


def like(t: Type, elem: DType) -> DType | Vector:
    """`t` with its elements replaced by `elem`."""
    return vector(elem, t.count) if isinstance(t, Vector) else elem
