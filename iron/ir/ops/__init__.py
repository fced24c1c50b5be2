"""The table's rows by topic; importing this package fills and seals the table."""

from iron.ir.ops import (
    arith,
    control,
    convert,
    copy,
    elementary,
    fragment,
    group,
    matrix,
    memory,
    ring,
    tile,
)

__all__ = [
    "arith",
    "control",
    "convert",
    "copy",
    "elementary",
    "fragment",
    "group",
    "matrix",
    "memory",
    "ring",
    "tile",
]
