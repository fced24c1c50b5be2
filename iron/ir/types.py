"""Types of IR values, interned so that equal types are one object and compare with `is`.

A scalar's type is its `DType`. This module knows no ops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iron.dtypes import DType

MAX_VECTOR = 64
MAX_TILE = 1 << 17  # elements
MAX_ODD = 15  # a tile side is a power of two times an odd number up to this

PARAMETER_SPACES = ("in", "out", "inout")
USES = ("a", "b", "acc")


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

    `space` is `in`, `out`, `inout`, `shared`, `table` or `registers` (an array of each thread).
    `shape` holds sizes for the last three and is empty for parameters, whose extents are run-time
    facts. `packed` says that the last axis of a parameter has stride 1.
    """

    elem: DType
    rank: int
    space: str
    shape: tuple[int, ...] = ()
    packed: bool = True

    def __repr__(self) -> str:
        axes = ", ".join(map(str, self.shape)) if self.shape else ", ".join("?" * self.rank)
        return f"{self.space} {self.elem}[{axes}]" + ("" if self.packed else " strided")


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """An immutable array of `elem` that a group holds together; where it lies is not said.

    A side is a power of two, or a power of two from 16 on times an odd number up to 15.
    """

    elem: DType
    shape: tuple[int, ...]

    def __repr__(self) -> str:
        return f"tile {self.elem}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A matrix that the lanes of a simdgroup hold together, in an order that no program sees.

    `use` is what it is in acc + a b: `a`, `b` or `acc`.
    """

    elem: DType
    rows: int
    columns: int
    use: str

    def __repr__(self) -> str:
        return f"matrix {self.elem}[{self.rows}, {self.columns}] {self.use}"


Type = DType | Vector | Tensor | Tile | Matrix

_VECTORS: dict[tuple[DType, int], Vector] = {}
_TENSORS: dict[tuple[DType, int, str, tuple[int, ...], bool], Tensor] = {}
_TILES: dict[tuple[DType, tuple[int, ...]], Tile] = {}
_MATRICES: dict[tuple[DType, int, int, str], Matrix] = {}


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


def tile(elem: DType, shape: tuple[int, ...]) -> Tile:
    """The tile type; ValueError for a side that is none or for too many elements."""
    if not shape:
        raise ValueError("a tile has at least one axis")
    for side in shape:
        if side != legal_side(side):
            raise ValueError(
                f"a tile side is a power of two, or 16, 32, .. times an odd number up to "
                f"{MAX_ODD}, not {side}"
            )
    if math.prod(shape) > MAX_TILE:
        raise ValueError(f"a tile has at most {MAX_TILE} elements, not {math.prod(shape)}")
    return _TILES.setdefault((elem, shape), Tile(elem, shape))


def matrix(elem: DType, rows: int, columns: int, use: str) -> Matrix:
    """The matrix type; ValueError for a use that there is not."""
    if use not in USES:
        raise ValueError(f"a matrix is used as one of {', '.join(USES)}, not {use}")
    return _MATRICES.setdefault((elem, rows, columns, use), Matrix(elem, rows, columns, use))


def legal_side(size: int) -> int:
    """The least legal tile side that is at least `size`."""
    side = max(1, size)
    while not _legal(side):
        side = side + 1 if side < 16 else side // 16 * 16 + 16
    return side


def _legal(side: int) -> bool:
    power = side & -side
    return side == power or (power >= 16 and side // power <= MAX_ODD)


def element(t: Type) -> DType:
    """The dtype of one element of `t`."""
    return t if isinstance(t, DType) else t.elem


def count(t: Type) -> int:
    """Elements of a vector type; 0 for a scalar."""
    return t.count if isinstance(t, Vector) else 0


def held(t: Type) -> tuple[int, ...]:
    """The axes that a value of type `t` has: none for a scalar."""
    if isinstance(t, Tile):
        return t.shape
    if isinstance(t, Matrix):
        return t.rows, t.columns
    return (t.count,) if isinstance(t, Vector) else ()


def like(t: Type, elem: DType) -> DType | Vector | Tile:
    """`t` with its elements replaced by `elem`."""
    if isinstance(t, Tile):
        return tile(elem, t.shape)
    return vector(elem, t.count) if isinstance(t, Vector) else elem
