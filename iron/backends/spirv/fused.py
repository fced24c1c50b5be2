"""The product and sum rounded once, and the square root, where Vulkan promises less."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv.words import Code, Glsl
from iron.dtypes import DType
from iron.ir.core import Op

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder
    from iron.backends.spirv.module import Module


def fma(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """a * b + c rounded once: the device's own where it is fused, else through f64."""
    if e.target.has("fused_fma"):
        # Undecorated: some compilers take NoContraction as a wish for two roundings.
        return e.m.glsl(Glsl.Fma, *(e.operand(a) for a in op.args))
    e.target.need("float64", "a fused multiply-add")
    return _through_f64(e.m, [e.operand(a) for a in op.args])


def _through_f64(m: Module, args: Sequence[int]) -> int:
    """The exact product in f64, and its sum with c rounded to odd: one rounding to f32 is left.

    Boldo and Melquiond 2008 (doi:10.1109/TC.2007.70819): an inexact sum is cut towards zero and
    gets an odd last bit. What it lost is no number where the sum is none.
    """
    a, b, c = (m.put(Code.FConvert, m.f64, x) for x in args)
    product = m.exact(m.op(Code.FMul, a, b))
    total = m.exact(m.op(Code.FAdd, product, c))
    lost = _lost(m, product, c, total)
    inexact = m.test(Code.FOrdGreaterThan, m.glsl(Glsl.FAbs, lost), m.real64(0.0))
    bits, others = (m.put(Code.Bitcast, m.u64, x) for x in (total, lost))
    signs = m.op(Code.BitwiseXor, bits, others)
    beyond = m.op(Code.ShiftRightArithmetic, signs, m.number(63, m.u64))  # -1 where |total| grew
    cut = m.op(Code.BitwiseOr, m.op(Code.IAdd, bits, beyond), m.number(1, m.u64))
    return m.put(Code.FConvert, m.f32, m.put(Code.Bitcast, m.f64, m.select(inexact, cut, bits)))


def _lost(m: Module, product: int, c: int, total: int) -> int:
    """What the sum lost by rounding, exactly."""
    virtual = m.exact(m.op(Code.FSub, total, product))
    back = m.exact(m.op(Code.FSub, total, virtual))
    left = m.exact(m.op(Code.FSub, product, back))
    right = m.exact(m.op(Code.FSub, c, virtual))
    return m.exact(m.op(Code.FAdd, left, right))


def sqrt(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """The square root, correctly rounded: through f64 where the device's own is not."""
    m = e.m
    if e.target.has("exact_sqrt"):
        return m.glsl(Glsl.Sqrt, *args)
    e.target.need("float64", "a correctly rounded square root")
    wide = m.glsl(Glsl.Sqrt, m.put(Code.FConvert, m.f64, args[0]))
    return m.put(Code.FConvert, m.f32, wide)
