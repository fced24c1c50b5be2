"""Formats of GGUF files: raw blocks along K, exactly as the file holds them."""

from __future__ import annotations

from typing import Any

from iron.dtypes import u8
from iron.quant.format.record import (
    ROWS,
    Algebra,
    Elem,
    Encode,
    Extent,
    Format,
    Ids,
    Plane,
    Rule,
    Scale,
)


def raw(name: str, ggml: int, block: int, size: int, group: int, **rest: Any) -> Format:
    """A format of raw blocks: `block` elements in `size` bytes."""
    vec = min(32, group)
    return Format(
        name=f"gguf_{name}",
        group=group,
        planes=(Plane("blocks", (u8,), ROWS, Extent(k=1, up=size, down=block)),),
        body=f"gguf_{name}",
        block=block,
        block_bytes=size,
        vec=vec,
        multiple=block,
        elem=Elem.BLOCK,
        scale=Scale.BLOCK,
        ids=Ids(ggml=ggml),
        **rest,
    )


def blocks() -> list[Format]:
    """The block types."""
    scaled, affine = Algebra.SCALED, Algebra.AFFINE
    exact = Encode.EXACT
    signed, minmax = Rule.SIGNED_MAX, Rule.MINMAX
    return [
        raw("q4_0", 2, 32, 18, 32, tier=1, bits=4, algebra=scaled, encode=exact, rule=signed),
        raw("q4_1", 3, 32, 20, 32, tier=1, bits=4, algebra=affine, encode=exact, rule=minmax),
        raw(
            "q8_0", 8, 32, 34, 32, tier=1, bits=8, algebra=scaled, encode=exact,
            rule=Rule.SIGNED_BYTE,
        ),
    ]  # fmt: skip
