"""What an encoder may be told beyond the format; the defaults are the format's own rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iron.dtypes import DType
from iron.quant.format import Rule


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """`dtype` is the type of float factors where the format leaves it open; `rule` another rule.

    NVFP4 only: `outer` fixes the factor of the whole tensor, `least` is the least scale code of
    a group, of a group of zeros too with `floor_zero`. `signed_zero` keeps the sign of what rounds
    to zero. `kept` are the mantissa bits of rule EVEN (default the element's; compressed-tensors
    keeps 1 for E4M3). AURA only: `rotation` [D, D] (default identity) and `codebook` (default
    Lloyd-Max).
    """

    dtype: DType | None = None
    rule: Rule | None = None
    outer: float | None = None
    least: int = 1
    floor_zero: bool = False
    signed_zero: bool = True
    kept: int | None = None
    rotation: Any = None
    codebook: Any = None
