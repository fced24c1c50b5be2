"""The body of plain floats: no codes, no factors."""

from __future__ import annotations

from typing import Any

from iron.lang import f32, inline
from iron.quant.format import Format

V = Any


@inline
def code(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Element e of block b of row n."""
    return f32(w.values[n, b * fmt.block + e])


@inline
def factors(fmt: Format, w: V, n: V, g: V) -> V:
    """None: a plain float has no factors."""
    return None, None
