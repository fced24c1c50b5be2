"""Matrix rows: products that the lanes of a simdgroup compute together from registers.

They are ops of threads, made by `iron.tiles` for targets that have them.
"""

from collections.abc import Sequence
from typing import Any

from iron.dtypes import DType, f32, i32, u32
from iron.ir.core import Block, Value
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import Type, count, element

WORDS = 6
"""Words of an operand a (4) and b (2)."""
SUMS = 4
TOTALS = {"f16": f32, "bf16": f32, "tf32": f32, "i8": i32, "u8": i32}
"""The number formats of operands, and the dtype of their sums."""
LANES = 32


def _product(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    (elem,) = attrs
    if elem not in TOTALS:
        raise OpTypeError(f"no product of {elem}")
    words, sums = args[:WORDS], args[WORDS:]
    if len(words) != WORDS or any(w.type is not u32 for w in words):
        raise OpTypeError(f"takes {WORDS} words (u32), got {[str(w.type) for w in words]}")
    held = sum(max(1, count(s.type)) for s in sums)
    total = TOTALS[elem]
    if held != SUMS or any(element(s.type) is not total for s in sums):
        raise OpTypeError(f"takes {SUMS} sums of {total}, got {[str(s.type) for s in sums]}")
    types = [s.type for s in sums]
    return tuple(t for t in types if isinstance(t, DType) or count(t))


simd_mma = defop(
    "simd_mma",
    "word* sum*",
    attrs="elem",
    infer=_product,
    traits=Trait.COLLECTIVE,
    doc="sums + a @ b by a simdgroup of 32: a is 16 x k, b is k x 8, k the elements of 8 words. "
    "Let g = lane // 4 and t = lane % 4. A lane gives words t and t + 4 of rows g and g + 8 of a "
    "(word t of both rows first), then words t and t + 4 of column g of b, and holds columns 2t "
    "and 2t + 1 of the sums of row g, then of row g + 8. Floats are summed in no stated order.",
)
