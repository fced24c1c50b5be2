"""Products of the bytes of two words: one instruction where the device has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv.words import BYTES_OF_A_WORD, Capability, Code
from iron.dtypes import DType, i32
from iron.ir.core import Op

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder
    from iron.backends.spirv.module import Module

EXTENSION = "SPV_KHR_integer_dot_product"


def dot4(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """c plus the sum of the products of the bytes of a and b; those of an i32 are signed."""
    m, (a, b, c) = e.m, args
    signed = [arg.type is i32 for arg in op.args[:2]]
    if e.target.has("integer_dot"):
        return m.op(Code.IAdd, _dot(m, (a, b), signed), c)
    for byte in range(4):
        factors = [_byte(m, w, s, byte) for w, s in zip((a, b), signed, strict=True)]
        c = m.op(Code.IAdd, m.op(Code.IMul, *factors), c)
    return c


def _dot(m: Module, words: tuple[int, int], signed: Sequence[bool]) -> int:
    m.need(Capability.DotProduct, Capability.DotProductInput4x8BitPacked)
    m.extend(EXTENSION)
    code = Code.SUDot
    if signed[0] == signed[1]:
        code = Code.SDot if signed[0] else Code.UDot
    elif signed[1]:
        words = words[1], words[0]
    return m.put(code, m.u32, *words, BYTES_OF_A_WORD)


def _byte(m: Module, word: int, signed: bool, number: int) -> int:
    if signed:
        return m.put(Code.BitFieldSExtract, m.u32, word, m.number(8 * number), m.number(8))
    moved = m.put(Code.ShiftRightLogical, m.u32, word, m.number(8 * number))
    return m.op(Code.BitwiseAnd, moved, m.number(0xFF))
