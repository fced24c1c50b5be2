"""How software stores quantised weights in safetensors: an ordered list, the first match reads.

The quantisation config decides where it can, else the set of suffixes and the dtypes do.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from iron.dtypes import of_numpy
from iron.quant.dialect import integer, packed, scaled
from iron.quant.dialect.parts import Dialect, Parts
from iron.quant.tensor import QTensor

__all__ = ["DIALECTS", "MARKS", "Dialect", "Parts", "lacking"]

MARKS: Final = (".qweight", ".weight_packed", ".W_q", "_blocks", ".weight")

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


def lacking(name: str, dtype: str, names: Container[str]) -> str:
    """What stands beside the codes `name` in the dialect that comes nearest, and is not there."""
    if dtype == "U32" and name.endswith(".weight"):
        return name.removesuffix(".weight") + ".scales"
    mark = next((m for m in MARKS if name.endswith(m)), "")
    stem = name.removesuffix(mark)
    wanted = [d.needs for d in DIALECTS if d.needs[0] == mark and len(d.needs) > 1]
    missing = [[stem + s for s in needs if stem + s not in names] for needs in wanted]
    return " and ".join(min(missing, key=len, default=[])) or "scales that fit it"
