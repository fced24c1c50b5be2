"""Products of 8-bit floats as products of f16, for units that have no others: widen.

Every such float is an f16, so the products and their sums stay what they are.
"""

from __future__ import annotations

from iron.dtypes import DType, f16, f32, u8, u16
from iron.ir.build import Builder
from iron.ir.core import Kernel, Op, Value
from iron.ir.floats8 import FLOATS8
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.types import Tile


def widen(kernel: Kernel) -> Kernel:
    """`kernel` with the bytes of its `mma`s that are floats decoded before they are multiplied."""
    if not any(op.name == "mma" and op.attr("math") in FLOATS8 for op in kernel.body.walk()):
        return kernel
    return replace_blocks(kernel, body=Sweep({"mma": _product}).block(kernel.body))


def _product(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
    math, site = op.attrs
    if math not in FLOATS8:
        return None
    x, y = (_decoded(b, a, math) for a in args[:2])
    return b.emit_all("mma", (x, y, args[2]), ("strict", site), (), op.surface)


def _decoded(b: Builder, codes: Value, math: str) -> Value:
    """The f16 of each byte of a tile; as `ir.floats8.decoded`."""
    assert isinstance(codes.type, Tile)
    shape = codes.type.shape

    def all_of(value: object, dtype: DType) -> Value:
        return b.emit("tile_full", b.const(value, dtype), attrs=(shape,))

    wide = b.emit("cast", codes, attrs=(u16,))
    if math == "e5m2":
        return b.emit("bitcast", b.emit("shl", wide, all_of(8, u16)), attrs=(f16,))
    magnitude = b.emit("and", wide, all_of(0x7F, u16))
    sign = b.emit("shl", b.emit("and", wide, all_of(0x80, u16)), all_of(8, u16))
    bits = b.emit("or", b.emit("shl", magnitude, all_of(7, u16)), sign)
    half = b.emit("cast", b.emit("bitcast", bits, attrs=(f16,)), attrs=(f32,))
    made = b.emit("cast", b.emit("mul", half, all_of(256.0, f32)), attrs=(f16,))
    none = b.emit("eq", b.emit("and", codes, all_of(0x7F, u8)), all_of(0x7F, u8))
    return b.emit("where", none, all_of(float("nan"), f16), made)
