"""Tile vocabulary: products of tiles, pipelined loops, staging, and the order of groups.

A kernel whose `groups(...)` leaves `threads` out is a tile kernel where it uses tiles: the
compiler decides how many threads share the work of a group. Tiles themselves come from views
(`x.tiles(16, 16)[i, j]`, `x.gather(i, keep=k)`) and from `zeros`, `full` and `iota`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from iron.lang.place import outside
from iron.lang.value import Value, View

SCHEDULE_KEYS = ("CONSUMERS", "OVERLAP", "PERSISTENT", "PINGPONG", "TRANSPOSED")
"""Consts of a tile kernel that its lowering reads: they change speed, never what is computed."""


@dataclass(frozen=True, slots=True)
class GroupOrder:
    """The order in which groups start; see `grouped`."""

    size: int
    axis: int
    descending: bool


def grouped(size: int, axis: int = 0, descending: bool = False) -> GroupOrder:
    """An order for `groups(..., order=)`: `size` indices of `axis` are walked together.

    Of the first two extents, `size` neighbours along `axis` run through every index of the other
    one before the next `size` follow; size 0 is the plain order. `descending` starts with the
    highest index of the first extent. It changes which data groups share in a cache, and nothing
    that is computed.

    >>> grouped(8)
    GroupOrder(size=8, axis=0, descending=False)
    """
    return GroupOrder(size, axis, descending)


def mma(x: Value, y: Value, acc: Value, math: str = "strict") -> Value:
    """acc + x @ y of tiles [M, K], [K, N] and [M, N].

    Operands are both f32, f16 or bf16 with an f32 sum, or 8-bit integers with an i32 sum; the order
    of the sum is not stated. `math` is for f32 operands: "strict" multiplies them as they are,
    "tf32" may keep 10 bits of each fraction, "split" may take three bf16 products for one.

    >>> mma(full((2, 3), 1.0, f32), full((3, 1), 2.0, f32), zeros((2, 1), f32))
    array([[6.],
           [6.]], dtype=float32)
    """
    import numpy as np

    if math not in ("strict", "tf32", "split"):
        raise ValueError(f"no math is called {math!r}")
    total: Any = np.asarray(acc)
    wide: Any = np.int32 if total.dtype.kind == "i" else np.float32
    left, right = np.asarray(x).astype(wide), np.asarray(y).astype(wide)
    return total + np.matmul(left, right)


def pipelined(*bounds: int, stages: int = 1) -> Iterable[int]:
    """`range(*bounds)`, in which tile reads may start up to `stages` turns early.

    The meaning is that of the plain loop. Reads whose place depends only on the counter and on
    values from outside the loop may be early, so the loop must not write what it reads from
    outside (E0406); `break` is refused (E0104).

    >>> @kernel
    ... def row_sums(x: In[f32, 16, N], y: Out[f32, 16]):
    ...     (_,) = groups(1)
    ...     X, Y = x.tiles(16, 8), y.tiles(16)
    ...     total = zeros((16, 8), f32)
    ...     for k in pipelined(X.grid[1], stages=2):
    ...         total += X[0, k]
    ...     Y[0] = total.sum(axis=1)
    """
    raise outside("pipelined")


def stage(t: Value) -> View:
    """The tile as a new array of the group, which threads and tile reads share.

    `s[r, c]` reads an element, `s[r, c] = v` writes one, `s.tiles(..)` reads tiles of it. Barriers
    at its ends are included; between later writes of threads and tile reads stands `barrier()`.

    >>> @kernel
    ... def corner(x: In[f32, 16, 16], y: Out[f32, 16, 16]):
    ...     (_,) = groups(1)
    ...     s = stage(x.tiles(16, 16)[0, 0])
    ...     y.tiles(16, 16)[0, 0] = full((16, 16), s[15, 15], f32)
    """
    raise outside("stage")
