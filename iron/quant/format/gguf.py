"""Formats of GGUF files: raw blocks along K, exactly as the file holds them."""

from __future__ import annotations

from typing import Any, Final

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

GRID_REASON: Final = (
    "an encoder of the IQ1, IQ2 and IQ3 types needs large neighbour tables and an importance matrix"
)
ACTIVATION_REASON: Final = "it is a type of activations inside ggml and never in a file"

SCALED, AFFINE = Algebra.SCALED, Algebra.AFFINE
EXACT, QUALITY = Encode.EXACT, Encode.QUALITY

# name, GGUF type id, tier, elements and bytes of a block, group, bits of a code, algebra, encoder
# promise and rule
Row = tuple[str, int, int, int, int, int, int, Algebra, Encode, Rule]
ENCODED: Final[tuple[Row, ...]] = (
    ("q4_0", 2, 1, 32, 18, 32, 4, SCALED, EXACT, Rule.SIGNED_MAX),
    ("q4_1", 3, 1, 32, 20, 32, 4, AFFINE, EXACT, Rule.MINMAX),
    ("q5_0", 6, 1, 32, 22, 32, 5, SCALED, EXACT, Rule.SIGNED_MAX),
    ("q5_1", 7, 1, 32, 24, 32, 5, AFFINE, EXACT, Rule.MINMAX),
    ("q8_0", 8, 1, 32, 34, 32, 8, SCALED, EXACT, Rule.AMAX),
    ("q2_k", 10, 1, 256, 84, 16, 2, AFFINE, QUALITY, Rule.LEAST_SQUARES),
    ("q3_k", 11, 1, 256, 110, 16, 3, SCALED, QUALITY, Rule.LEAST_SQUARES),
    ("q4_k", 12, 1, 256, 144, 32, 4, AFFINE, QUALITY, Rule.LEAST_SQUARES),
    ("q5_k", 13, 1, 256, 176, 32, 5, AFFINE, QUALITY, Rule.LEAST_SQUARES),
    ("q6_k", 14, 1, 256, 210, 16, 6, SCALED, QUALITY, Rule.LEAST_SQUARES),
    ("iq4_nl", 20, 2, 32, 18, 32, 4, SCALED, QUALITY, Rule.LEAST_SQUARES),
    ("iq4_xs", 23, 2, 256, 136, 32, 4, SCALED, QUALITY, Rule.LEAST_SQUARES),
    ("tq1_0", 34, 2, 256, 54, 256, 2, SCALED, EXACT, Rule.AMAX),
    ("tq2_0", 35, 2, 256, 66, 256, 2, SCALED, EXACT, Rule.AMAX),
    ("mxfp4", 39, 1, 32, 17, 32, 4, SCALED, EXACT, Rule.FLOOR),
    ("nvfp4", 40, 2, 64, 36, 16, 4, SCALED, EXACT, Rule.AMAX),
    ("q1_0", 41, 2, 128, 18, 128, 1, SCALED, EXACT, Rule.MEAN),
    ("q2_0", 42, 2, 64, 18, 64, 2, SCALED, EXACT, Rule.AMAX),
)
# name, GGUF type id, elements and bytes of a block, group, bits of a code
DECODED: Final[tuple[tuple[str, int, int, int, int, int], ...]] = (
    ("iq2_xxs", 16, 256, 66, 32, 2),
    ("iq2_xs", 17, 256, 74, 16, 2),
    ("iq3_xxs", 18, 256, 98, 32, 3),
    ("iq1_s", 19, 256, 50, 32, 1),
    ("iq3_s", 21, 256, 110, 32, 3),
    ("iq2_s", 22, 256, 82, 16, 2),
    ("iq1_m", 29, 256, 56, 16, 1),
    ("q8_1", 9, 32, 36, 32, 8),
    ("q8_k", 15, 256, 292, 256, 8),
)


def raw(
    name: str, ggml: int, tier: int, block: int, size: int, group: int, bits: int, **rest: Any
) -> Format:
    """A format of raw blocks: `block` elements in `size` bytes."""
    return Format(
        name=f"gguf_{name}",
        tier=tier,
        bits=bits,
        group=group,
        planes=(Plane("blocks", (u8,), ROWS, Extent(k=1, up=size, down=block)),),
        body=f"gguf_{name}",
        block=block,
        block_bytes=size,
        vec=min(32, group),
        multiple=block,
        elem=Elem.BLOCK,
        scale=Scale.BLOCK,
        ids=Ids(ggml=ggml),
        aliases=() if name in ("mxfp4", "nvfp4") else (name,),
        **rest,
    )


def formats() -> list[Format]:
    """The block types, those of floats left to the plain formats."""
    out = [
        raw(*row[:7], algebra=row[7], encode=row[8], rule=row[9])  # pyright: ignore[reportCallIssue]
        for row in ENCODED
    ]
    for name, ggml, block, size, group, bits in DECODED:
        activation = name.startswith("q8")
        reason = ACTIVATION_REASON if activation else GRID_REASON
        out.append(raw(name, ggml, 3, block, size, group, bits, algebra=SCALED, reason=reason))
    return out
