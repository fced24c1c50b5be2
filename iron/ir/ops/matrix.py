"""Matrix rows: products that the lanes of a simdgroup compute together, from registers or memory.

They are ops of threads, made by `iron.tiles` for targets that have them.
"""

from collections.abc import Sequence
from typing import Any

from iron.dtypes import DType, bf16, f32, i32, u32
from iron.ir.core import Block, Value
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import Tensor, Type, count, element

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


ROWS, ROW_BYTES = 8, 16
"""A matrix that `simd_load` gives: rows, and bytes of each."""


def _load(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    (t, (count_, turned)) = args[0].type, attrs
    if not isinstance(t, Tensor) or t.space != "shared" or len(args) != 1 + t.rank:
        raise OpTypeError(f"loads at the indices of an array of group memory, got {t}")
    if count_ not in (2, 4) or t.elem.bytes > 4 or (turned and t.elem.bytes != 2):
        raise OpTypeError(f"no load of {count_} matrices of {t.elem}")
    if any(not isinstance(a.type, DType) or not a.type.is_integer for a in args[1:]):
        raise OpTypeError("an index is an integer scalar")
    return (u32,) * count_


simd_load = defop(
    "simd_load",
    "array place*",
    attrs="count turned",
    infer=_load,
    traits=Trait.READS | Trait.COLLECTIVE,
    doc="`count` matrices of 8 rows of 16 bytes, by 32 lanes: lane 8 i + r gives the place of row "
    "r of matrix i, a multiple of 16 bytes. Lane 4 g + t gets of each the word t of row g; "
    "`turned`, of elements of 16 bits, the two of rows 2t and 2t + 1 in column g.",
)
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


def _panel(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    acc, a, b = (_array(v) for v in args[:3])
    indices = [v.type for v in args[3:]]
    if len(indices) != 2 or any(not isinstance(t, DType) or not t.is_integer for t in indices):
        raise OpTypeError("takes three arrays, a row and a column")
    if (acc.elem, a.elem, b.elem) != (f32, bf16, u32):
        raise OpTypeError(f"sums bf16 and words in f32, got {a.elem} and {b.elem} in {acc.elem}")
    if (acc.rank, a.rank) != (3, 2) or a.shape[1] % 2:
        raise OpTypeError(f"{acc} and {a} are no sums and left operand")
    (rows, columns, lanes), (held, depth) = acc.shape, a.shape
    if held != rows or b.shape != (columns, depth // 2, lanes):
        raise OpTypeError(f"{a} and {b} are no operands of {acc}")
    if attrs[0] < 1 or rows % attrs[0]:
        raise OpTypeError(f"{rows} rows are no blocks of {attrs[0]}")
    return ()


def _array(value: Value) -> Tensor:
    if not isinstance(value.type, Tensor) or value.type.space != "shared":
        raise OpTypeError(f"takes arrays of group memory, got {value.type}")
    return value.type


panel_mma = defop(
    "panel_mma",
    "acc a b row column",
    attrs="rows",
    infer=_panel,
    traits=Trait.COLLECTIVE | Trait.READS | Trait.WRITES,
    doc="acc[i, column, n] += sum over k of a[i, k] b[k, n] by a simdgroup, for `rows` rows i from "
    "`row` on. Operands are bf16; b[2 k, n] and b[2 k + 1, n] are the halves of word b[column, k, "
    "n], the low one first. Sums are f32 in no stated order; subnormal numbers may count as 0.",
)
