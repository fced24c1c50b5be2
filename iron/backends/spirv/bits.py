"""Shifts, counts and high products: Vulkan's bit instructions take 32-bit words only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv.register import halves, joined, unsigned, wrapped
from iron.backends.spirv.words import Code, Glsl
from iron.dtypes import DType
from iron.ir.core import Op, const_of, is_const

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder
    from iron.backends.spirv.module import Module


def _count(e: Encoder, dtype: DType, op: Op, count: int) -> int:
    """The shift count modulo the width."""
    if is_const(op.args[1]):
        return e.constant(int(const_of(op.args[1])) & dtype.bits - 1, dtype)
    return e.m.op(Code.BitwiseAnd, count, e.constant(dtype.bits - 1, dtype))


def shl(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """a shifted left by b modulo the width."""
    by = _count(e, dtype, op, args[1])
    return wrapped(e.m, dtype, e.m.put(Code.ShiftLeftLogical, e.held(dtype), args[0], by))


def shr(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """a shifted right by b modulo the width; an extended register shifts in the right bits."""
    code = Code.ShiftRightArithmetic if dtype.kind == "i" else Code.ShiftRightLogical
    return e.m.put(code, e.held(dtype), args[0], _count(e, dtype, op, args[1]))


def popcount(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """The number of one bits."""
    m, (x,) = e.m, args
    if dtype.bits == 64:
        low, high = (m.op(Code.BitCount, half) for half in halves(m, x))
        return m.put(Code.UConvert, m.u64, m.op(Code.IAdd, low, high))
    return m.op(Code.BitCount, unsigned(m, dtype, x))


def _leading(m: Module, word: int) -> int:
    """Zero bits above the highest one of a word: the instruction gives -1 for 0."""
    return m.op(Code.ISub, m.number(31), m.glsl(Glsl.FindUMsb, word))


def clz(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """Zero bits above the highest one; the width for 0."""
    m, (x,) = e.m, args
    if dtype.bits == 64:
        low, high = halves(m, x)
        below = m.op(Code.IAdd, _leading(m, low), m.number(32))
        empty = m.test(Code.IEqual, high, m.number(0))
        return m.put(Code.UConvert, m.u64, m.select(empty, below, _leading(m, high)))
    whole = _leading(m, unsigned(m, dtype, x))
    return whole if dtype.bits == 32 else m.op(Code.ISub, whole, m.number(32 - dtype.bits))


def _trailing(m: Module, word: int, none: int) -> int:
    empty = m.test(Code.IEqual, word, m.number(0))
    return m.select(empty, none, m.glsl(Glsl.FindILsb, word))


def ctz(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """Zero bits below the lowest one; the width for 0."""
    m, (x,) = e.m, args
    if dtype.bits == 64:
        low, high = halves(m, x)
        above = m.op(Code.IAdd, _trailing(m, high, m.number(32)), m.number(32))
        return m.put(Code.UConvert, m.u64, _trailing(m, low, above))
    return _trailing(m, unsigned(m, dtype, x), m.number(dtype.bits))


def reverse(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """The bits in opposite order."""
    m, (x,) = e.m, args
    if dtype.bits == 64:
        low, high = (m.op(Code.BitReverse, half) for half in halves(m, x))
        return joined(m, high, low)
    turned = m.op(Code.BitReverse, x)
    if dtype.bits == 32:
        return turned
    code = Code.ShiftRightArithmetic if dtype.kind == "i" else Code.ShiftRightLogical
    return m.put(code, m.u32, turned, m.number(32 - dtype.bits))


def mulhi(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """The high half of the double-width product."""
    m, (a, b) = e.m, args
    if dtype.bits < 32:
        code = Code.ShiftRightArithmetic if dtype.kind == "i" else Code.ShiftRightLogical
        return m.put(code, m.u32, m.op(Code.IMul, a, b), m.number(dtype.bits))
    if dtype.bits == 32:
        code = Code.SMulExtended if dtype.kind == "i" else Code.UMulExtended
        return _extended(m, code, a, b)[1]
    high = _high64(m, a, b)
    return high if dtype.kind == "u" else _signed64(e, dtype, high, a, b)


def _extended(m: Module, code: Code, a: int, b: int) -> tuple[int, int]:
    both = m.put(code, m.once(Code.TypeStruct, m.u32, m.u32), a, b)
    low, high = (m.put(Code.CompositeExtract, m.u32, both, at) for at in (0, 1))
    return low, high


def _high64(m: Module, a: int, b: int) -> int:
    """By words: a1 b1 + (a1 b0 + carries) / 2^32 + (a0 b1 + carries) / 2^32."""
    mask, half = m.number(0xFFFFFFFF, m.u64), m.number(32)
    a0, b0 = (m.op(Code.BitwiseAnd, v, mask) for v in (a, b))
    a1, b1 = (m.put(Code.ShiftRightLogical, m.u64, v, half) for v in (a, b))

    def high(v: int) -> int:
        return m.put(Code.ShiftRightLogical, m.u64, v, half)

    low = high(m.op(Code.IMul, a0, b0))
    middle = m.op(Code.IAdd, m.op(Code.IMul, a1, b0), low)
    cross = m.op(Code.IAdd, m.op(Code.IMul, a0, b1), m.op(Code.BitwiseAnd, middle, mask))
    top = m.op(Code.IAdd, m.op(Code.IMul, a1, b1), high(middle))
    return m.op(Code.IAdd, top, high(cross))


def _signed64(e: Encoder, dtype: DType, high: int, a: int, b: int) -> int:
    """A negative factor counted 2^64 too much: the other factor comes off the high half."""
    m, zero = e.m, e.constant(0, dtype)
    for factor, other in ((a, b), (b, a)):
        negative = m.test(Code.SLessThan, factor, zero)
        high = m.op(Code.ISub, high, m.select(negative, other, zero))
    return high
