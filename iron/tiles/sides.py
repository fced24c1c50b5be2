"""The sides of an access: of which axes of its view each axis of its tile is made."""

from __future__ import annotations

from typing import Any

from iron.ir.core import Op
from iron.ir.types import Tile

Groups = tuple[tuple[int, ...], ...]


def sides(op: Op) -> Groups:
    """The sides along the axes of its view that each axis of the tile of a read or write has."""
    held = op.results[0].type if op.results else op.args[-1].type
    assert isinstance(held, Tile)
    shape: tuple[Any, ...] = op.attr("shape") if "shape" in op.row.attrs else held.shape
    return tuple(side if isinstance(side, tuple) else (side,) for side in shape)
