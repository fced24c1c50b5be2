"""Matrix rows: products that the lanes of a simdgroup compute together from registers.

They are ops of threads, made by `iron.tiles` for targets that have them.
"""

from collections.abc import Sequence
from typing import Any

from iron.dtypes import f32, i32, u32
from iron.ir.core import Block, Value
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import Type, count, element

TOTALS = {"f16": f32, "bf16": f32, "tf32": f32, "i8": i32, "u8": i32}
"""The number formats of operands, and the dtype of their sums."""
SUMS = {(8, 6): 4, (16, 4): 4, (16, 8): 8}
"""Columns of a product and words of both operands, to the sums of a lane."""


def words_of(args: Sequence[Value]) -> int:
    """How many operands are words."""
    return sum(a.type is u32 for a in args)


def _product(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    elem, columns = attrs
    if elem not in TOTALS:
        raise OpTypeError(f"no product of {elem}")
    many = words_of(args)
    words, sums = args[:many], args[many:]
    if (columns, many) not in SUMS or any(w.type is not u32 for w in words):
        raise OpTypeError(f"no product of {columns} columns takes {many} words")
    held, total, wanted = (
        sum(max(1, count(s.type)) for s in sums),
        TOTALS[elem],
        SUMS[columns, many],
    )
    if held != wanted or any(element(s.type) is not total for s in sums):
        raise OpTypeError(f"takes {wanted} sums of {total}, got {[str(s.type) for s in sums]}")
    return tuple(s.type for s in sums)


simd_mma = defop(
    "simd_mma",
    "word* sum*",
    attrs="elem columns",
    infer=_product,
    traits=Trait.COLLECTIVE,
    doc="sums + a @ b by a simdgroup: a is 16 x k, b is k x columns, k the elements of 8 words. "
    "Of 8 columns, by 32 lanes: let g = lane // 4 and t = lane % 4; a lane gives words t and t + 4 "
    "of rows g and g + 8 of a (word t of both rows first), then words t and t + 4 of column g of "
    "b, and holds columns 2t and 2t + 1 of the sums of row g, then of row g + 8. Of 16 columns, by "
    "16 n lanes, n 4 or 2: let g = lane % 16 and t = lane // 16; a lane gives 8 / n words of row g "
    "of a and of column g of b, from word 8 t / n on, and holds 16 / n columns of the sums of row "
    "g, from column 16 t / n on. Floats are summed in no stated order.",
)
