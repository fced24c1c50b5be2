"""The arrays of a group: declared one by one, or as places in one array that a launch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from iron.backends.clike.dialect import Dialect
from iron.dtypes import DType

POOL = "group_memory"
POOL_ALIGN = 16
WIDEST = 128
"""Bytes that rows of matrices, which move as one, begin after."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a group: where its elements begin is a multiple of `align` bytes."""

    dtype: DType
    name: str
    size: int
    align: int = POOL_ALIGN


def declared(arrays: Sequence[Array], dialect: Dialect) -> tuple[list[str], int]:
    """The declarations of a group's arrays; when they are too much to declare, places in one array
    whose bytes the launch is asked for."""
    most, shared = dialect.most_declared, dialect.shared
    arrays = sorted(arrays, key=lambda a: -a.align)  # so that no gaps lie between
    spans = [-(-a.size * a.dtype.bytes // a.align) * a.align for a in arrays]
    if not most or sum(spans) <= most:
        return [f"  {_aligned(shared, a)} {a.dtype} {a.name}[{a.size}];" for a in arrays], 0
    starts = accumulate(spans, initial=0)
    return [
        f"  extern {shared} __align__({arrays[0].align}) u8 {POOL}[];",
        *(
            f"  {a.dtype}* const {a.name} = ({a.dtype}*)({POOL} + {start});"
            for a, start in zip(arrays, starts, strict=False)
        ),
    ], sum(spans)


def _aligned(shared: str, array: Array) -> str:
    return shared if array.align == POOL_ALIGN else f"{shared} __align__({array.align})"
