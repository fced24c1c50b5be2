"""Quotients and remainders. Vulkan leaves x / 0, SRem of negatives and half an ulp of `/` open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv.register import wrapped
from iron.backends.spirv.words import Code
from iron.dtypes import DType
from iron.ir.core import Op, const_of, is_const

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder


def quotient(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """A correctly rounded float quotient.

    Where the device's own is within 2.5 ulp only, the f64 quotient is rounded to f32: 53 bits are
    more than twice 24, so the second rounding changes nothing.
    """
    m = e.m
    operands = [e.operand(a) for a in op.args]
    if e.target.has("exact_division"):
        return m.exact(m.op(Code.FDiv, *operands))
    e.target.need("float64", "a correctly rounded quotient")
    a, b = (m.put(Code.FConvert, m.f64, x) for x in operands)
    return m.put(Code.FConvert, m.f32, m.exact(m.op(Code.FDiv, a, b)))


def _constant(op: Op) -> int:
    """The divisor where it is a constant above 0, else 0."""
    return max(0, int(const_of(op.args[1]))) if is_const(op.args[1]) else 0


def _power(value: int) -> int:
    """The exponent of a power of two, else -1."""
    return value.bit_length() - 1 if value and value & value - 1 == 0 else -1


def floordiv(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """The quotient rounded towards minus infinity; 0 when b is 0; the least value // -1 wraps."""
    m, (a, b) = e.m, args
    known = _constant(op)
    if (power := _power(known)) >= 0:
        code = Code.ShiftRightArithmetic if dtype.kind == "i" else Code.ShiftRightLogical
        return m.put(code, e.held(dtype), a, m.number(power))
    if dtype.kind == "u":
        if known:
            return m.op(Code.UDiv, a, b)
        zero, none = e.constant(0, dtype), m.test(Code.IEqual, b, e.constant(0, dtype))
        return m.select(none, zero, m.op(Code.UDiv, a, m.select(none, e.constant(1, dtype), b)))
    safe, trivial = (b, 0) if known else _safe(e, dtype, b)
    q, adjust, _ = _truncated(e, dtype, a, safe)
    floored = m.select(adjust, m.op(Code.ISub, q, e.constant(1, dtype)), q)
    if not trivial:
        return wrapped(m, dtype, floored)
    negated = wrapped(m, dtype, m.op(Code.SNegate, a))
    at_zero = m.test(Code.IEqual, b, e.constant(0, dtype))
    return m.select(trivial, m.select(at_zero, e.constant(0, dtype), negated), floored)


def mod(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """The remainder with the sign of b; 0 when b is 0 or -1."""
    m, (a, b) = e.m, args
    known = _constant(op)
    if _power(known) >= 0:
        return m.op(Code.BitwiseAnd, a, e.constant(known - 1, dtype))
    if dtype.kind == "u":
        none = 0 if known else m.test(Code.IEqual, b, e.constant(0, dtype))
        safe = m.select(none, e.constant(1, dtype), b) if none else b
        r = m.op(Code.ISub, a, m.op(Code.IMul, m.op(Code.UDiv, a, safe), safe))
        return m.select(none, e.constant(0, dtype), r) if none else r
    safe, trivial = (b, 0) if known else _safe(e, dtype, b)
    _, adjust, r = _truncated(e, dtype, a, safe)
    floored = m.select(adjust, m.op(Code.IAdd, r, safe), r)
    return m.select(trivial, e.constant(0, dtype), floored) if trivial else floored


def _safe(e: Encoder, dtype: DType, b: int) -> tuple[int, int]:
    """A divisor that cannot trap, and whether it stands in for 0 or -1."""
    m = e.m
    zero = m.test(Code.IEqual, b, e.constant(0, dtype))
    minus = m.test(Code.IEqual, b, e.constant(-1, dtype))
    trivial = m.test(Code.LogicalOr, zero, minus)
    return m.select(trivial, e.constant(1, dtype), b), trivial


def _truncated(e: Encoder, dtype: DType, a: int, b: int) -> tuple[int, int, int]:
    """The quotient towards 0, whether flooring differs, and the remainder with the sign of a."""
    m, zero = e.m, e.constant(0, dtype)
    q = m.op(Code.SDiv, a, b)
    r = m.op(Code.ISub, a, m.op(Code.IMul, q, b))
    inexact = m.test(Code.INotEqual, r, zero)
    apart = m.test(Code.SLessThan, m.op(Code.BitwiseXor, a, b), zero)
    return q, m.test(Code.LogicalAnd, inexact, apart), r
