"""Functions of the `fast_` kind as the device computes them, where it was seen to be near enough.

Vulkan promises 3 + 2 |x| ulp of Exp2, 2.5 of a quotient and 2 of InverseSqrt; what a device does is
measured when it is opened (`approximations` of its target), and others get the functions' bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv.words import Code, Glsl
from iron.dtypes import DType
from iron.ir.core import Op

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder


def exp2(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """2 to the x."""
    return e.m.glsl(Glsl.Exp2, *args)


def rcp(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """1 / x, undecorated: a compiler may take its reciprocal."""
    return e.m.op(Code.FDiv, e.m.real(1.0), *args)


def rsqrt(e: Encoder, dtype: DType, op: Op, args: Sequence[int]) -> int:
    """1 / sqrt(x)."""
    return e.m.glsl(Glsl.InverseSqrt, *args)
