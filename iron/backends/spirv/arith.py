"""Arithmetic, comparison and bit rows as SPIR-V, each to the bit of `ir/scalar.py`.

Where Vulkan leaves a result open (a fused product that may be two roundings, a quotient within
2.5 ulp, a remainder of negative numbers) the exact form is written out, unless the target says
that the device's own is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv import bits, division, dots, fast, fused
from iron.backends.spirv.joins import joined_word
from iron.backends.spirv.register import wrapped
from iron.backends.spirv.words import Code, Glsl
from iron.dtypes import DType
from iron.ir.core import Op, Value, const_of, is_const
from iron.ir.types import element

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder, Rule, Spelling


def _rounded(whole: Code, real: Code) -> Spelling:
    """Integers wrap at their width; floats round by themselves, whatever stands around them."""

    def spell(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
        if dtype.kind == "f":
            a, b = op.args
            operands = (e.operand(a), e.operand(b, always=real == Code.FSub))
            return e.m.exact(e.m.op(real, *operands))
        return wrapped(e.m, dtype, e.m.op(whole, *args))

    return spell


def _by_kind(**codes: Code) -> Spelling:
    """One instruction for each kind; `iu` names both kinds of integer."""
    by_kind = {kind: code for kinds, code in codes.items() for kind in kinds}

    def spell(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
        return wrapped(e.m, dtype, e.m.op(by_kind[dtype.kind], *args))

    return spell


def _test(**codes: Code) -> Spelling:
    by_kind = {kind: code for kinds, code in codes.items() for kind in kinds}

    def spell(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
        return e.m.test(by_kind[dtype.kind], *args)

    return spell


def _glsl(which: Glsl) -> Spelling:
    return lambda e, dtype, op, args: e.m.glsl(which, *args)


def _abs(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    m, (x,) = e.m, args
    if dtype.kind == "f":
        return m.glsl(Glsl.FAbs, x)
    if dtype.kind == "u":
        return x
    negative = m.test(Code.SLessThan, x, e.constant(0, dtype))
    return wrapped(e.m, dtype, m.select(negative, m.op(Code.SNegate, x), x))


def _sign(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """1 or -1 by comparison; what compares as neither (zeros and NaN) stays as it is."""
    m, (x,) = e.m, args
    real = dtype.kind == "f"
    zero, one, minus = (e.constant(dtype.np.type(v), dtype) for v in (0, 1, -1))
    above = m.test(Code.FOrdGreaterThan if real else Code.SGreaterThan, x, zero)
    below = m.test(Code.FOrdLessThan if real else Code.SLessThan, x, zero)
    return m.select(above, one, m.select(below, minus, x))


def _copysign(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    m = e.m
    a, b = (m.put(Code.Bitcast, m.u32, x) for x in args)
    size = m.op(Code.BitwiseAnd, a, m.number(0x7FFFFFFF))
    sign = m.op(Code.BitwiseAnd, b, m.number(0x80000000))
    return m.put(Code.Bitcast, m.f32, m.op(Code.BitwiseOr, size, sign))


def _extreme(less: bool, nan: int) -> Spelling:
    """a where it is the extreme or operand `nan` is NaN, else b.

    One comparison tells both where the other operand is a constant, which is no NaN.
    """
    codes = {
        "f": Code.FOrdLessThan if less else Code.FOrdGreaterThan,
        "i": Code.SLessThan if less else Code.SGreaterThan,
        "u": Code.ULessThan if less else Code.UGreaterThan,
    }
    either = Code.FUnordLessThan if less else Code.FUnordGreaterThan

    def spell(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
        m, (a, b) = e.m, args
        known = [_is_number(v) for v in op.args]
        if dtype.kind == "f" and known[1 - nan]:
            return m.select(m.test(either, a, b), a, b)
        first = m.test(codes[dtype.kind], a, b)
        if dtype.kind == "f" and not known[nan]:
            unordered = m.test(Code.FUnordNotEqual, args[nan], args[nan])
            first = m.test(Code.LogicalOr, first, unordered)
        return m.select(first, a, b)

    return spell


def _is_number(value: Value) -> bool:
    """Whether a value is known to be no NaN."""
    return is_const(value) and const_of(value) == const_of(value)


def _where(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    return e.m.select(*args)


SPELLINGS: dict[str, Spelling] = {
    "add": _rounded(Code.IAdd, Code.FAdd),
    "sub": _rounded(Code.ISub, Code.FSub),
    "mul": _rounded(Code.IMul, Code.FMul),
    "div": division.quotient,
    "fma": fused.fma,
    "dot4": dots.dot4,
    "floordiv": division.floordiv,
    "mod": division.mod,
    "mulhi": bits.mulhi,
    "neg": _by_kind(f=Code.FNegate, iu=Code.SNegate),
    "abs": _abs,
    "sign": _sign,
    "copysign": _copysign,
    "min": _extreme(True, 0),
    "max": _extreme(False, 0),
    "fmin": _extreme(True, 1),
    "fmax": _extreme(False, 1),
    "sqrt": fused.sqrt,
    "fast_exp2": fast.exp2,
    "fast_rcp": fast.rcp,
    "fast_rsqrt": fast.rsqrt,
    "rint": _glsl(Glsl.RoundEven),
    "floor": _glsl(Glsl.Floor),
    "ceil": _glsl(Glsl.Ceil),
    "trunc": _glsl(Glsl.Trunc),
    "and": _by_kind(iu=Code.BitwiseAnd, b=Code.LogicalAnd),
    "or": _by_kind(iu=Code.BitwiseOr, b=Code.LogicalOr),
    "xor": _by_kind(iu=Code.BitwiseXor, b=Code.LogicalNotEqual),
    "not": _by_kind(iu=Code.Not, b=Code.LogicalNot),
    "shl": bits.shl,
    "shr": bits.shr,
    "popcount": bits.popcount,
    "clz": bits.clz,
    "ctz": bits.ctz,
    "reverse_bits": bits.reverse,
    "eq": _test(f=Code.FOrdEqual, iu=Code.IEqual, b=Code.LogicalEqual),
    "ne": _test(f=Code.FUnordNotEqual, iu=Code.INotEqual, b=Code.LogicalNotEqual),
    "lt": _test(f=Code.FOrdLessThan, i=Code.SLessThan, u=Code.ULessThan),
    "le": _test(f=Code.FOrdLessThanEqual, i=Code.SLessThanEqual, u=Code.ULessThanEqual),
    "gt": _test(f=Code.FOrdGreaterThan, i=Code.SGreaterThan, u=Code.UGreaterThan),
    "ge": _test(f=Code.FOrdGreaterThanEqual, i=Code.SGreaterThanEqual, u=Code.UGreaterThanEqual),
    "where": _where,
}


def _rule(name: str) -> Rule:
    def rule(e: Encoder, op: Op) -> None:
        word = joined_word(op, e.loaded)
        if word is not None:
            e.set(op, e.loaded[word[0]][word[1]])
            return
        args = [e.id(a) for a in op.args]
        e.set(op, SPELLINGS[name](e, element(op.args[-1].type), op, args))

    return rule


RULES: dict[str, Rule] = {name: _rule(name) for name in SPELLINGS}
