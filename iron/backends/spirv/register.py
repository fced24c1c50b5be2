"""The register form of narrow integers: a 32-bit word, extended as the dtype's kind says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iron.backends.spirv.words import Code
from iron.dtypes import DType

if TYPE_CHECKING:
    from iron.backends.spirv.module import Module


def wrapped(m: Module, dtype: DType, made: int) -> int:
    """`made` with the bits beyond a narrow dtype's width set as the register form wants them."""
    if dtype.bits >= 32 or dtype.kind == "b":
        return made
    if dtype.kind == "i":
        return m.put(Code.BitFieldSExtract, m.u32, made, m.number(0), m.number(dtype.bits))
    return m.op(Code.BitwiseAnd, made, m.number((1 << dtype.bits) - 1))


def unsigned(m: Module, dtype: DType, made: int) -> int:
    """The bits of a narrow value with zeros above them."""
    if dtype.kind == "i" and dtype.bits < 32:
        return m.op(Code.BitwiseAnd, made, m.number((1 << dtype.bits) - 1))
    return made


def halves(m: Module, made: int) -> tuple[int, int]:
    """The low and the high word of a 64-bit integer."""
    both = m.put(Code.Bitcast, m.pair, made)
    low, high = (m.put(Code.CompositeExtract, m.u32, both, at) for at in (0, 1))
    return low, high


def joined(m: Module, low: int, high: int) -> int:
    """A 64-bit integer from its words."""
    return m.put(Code.Bitcast, m.u64, m.put(Code.CompositeConstruct, m.pair, low, high))
