"""How software stores quantised weights in safetensors: an ordered list, the first match reads.

The quantisation config decides where it can, else the set of suffixes and the dtypes do.
"""

from __future__ import annotations

from typing import Final

from iron.dtypes import of_numpy
from iron.quant.dialect import integer, packed, scaled
from iron.quant.dialect.parts import Dialect, Parts
from iron.quant.tensor import QTensor

__all__ = ["DIALECTS", "Dialect", "Parts"]

PLAIN = ("F32", "F16", "BF16")


def is_plain(parts: Parts) -> bool:
    """Floats in a matrix, or in a stack of them."""
    return parts.dtype("") in PLAIN and len(parts.shape("")) >= 2


def plain(parts: Parts) -> QTensor:
    """The floats themselves."""
    held = parts.rows("")
    return QTensor(parts.format(str(of_numpy(held.dtype))), {"values": held}, parts.shape(""))


DIALECTS: Final[tuple[Dialect, ...]] = (
    *packed.DIALECTS,
    *integer.DIALECTS,
    *scaled.DIALECTS,
    Dialect("plain floats", ("",), (), is_plain, plain, ""),
)
