"""How LLVM spells Iron's dtypes, vectors of lanes, and constants.

Floats below 32 bits are held as their bits in integers: only conversions look inside them.
"""

from __future__ import annotations

import struct
from typing import Any

from iron.dtypes import DType

STORAGE_BITS = "i16"


def scalar(dtype: DType) -> str:
    """The type of one value in a register."""
    if dtype.kind == "f":
        return "float"
    return STORAGE_BITS if dtype.kind == "s" else f"i{dtype.bits}"


def in_memory(dtype: DType) -> str:
    """The type of one element in memory: a bool takes a byte."""
    return "i8" if dtype.kind == "b" else scalar(dtype)


def lanes(ll: str, width: int) -> str:
    """`width` values of type `ll`; one lane is a plain scalar."""
    return f"<{width} x {ll}>" if width > 1 else ll


def suffix(ll: str, width: int) -> str:
    """The overload suffix of an intrinsic, such as `v32f32`."""
    short = {"float": "f32", "half": "f16", "double": "f64", "ptr": "p0"}.get(ll, ll)
    return f"v{width}{short}" if width > 1 else short


def literal(value: Any, dtype: DType) -> str:
    """A constant of `dtype`."""
    if dtype.kind == "f":
        return float_literal(float(value))
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "s":
        return str(int.from_bytes(dtype.np.type(value).tobytes(), "little"))
    return str(int(value))


def float_literal(value: float) -> str:
    """A float constant: LLVM writes f32 as the bits of the same value in double precision."""
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return f"0x{bits:016X}"


def spread(text: str, ll: str, width: int) -> str:
    """The constant `text` in every lane."""
    return f"splat ({ll} {text})" if width > 1 else text


def is_literal(name: str) -> bool:
    """True for a constant, false for the name of a computed value."""
    return not name.startswith("%")


def each_lane(values: list[int], ll: str = "i32") -> str:
    """A constant vector with one integer a lane (a scalar when there is one)."""
    if len(values) == 1:
        return str(values[0])
    return "<" + ", ".join(f"{ll} {v}" for v in values) + ">"
