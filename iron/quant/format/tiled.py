"""Formats with rows side by side: what packed weights are laid out anew as, once, for wide loads.

A kernel that gives each row of W a thread of its own reads one word of each of 32 neighbouring
rows; here these words are neighbours in memory too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from iron.dtypes import u32
from iron.quant.format.record import Encode, Extent, Format, Ids, Plane

TILE: Final = 32
"""Rows side by side. The last tile is padded with rows that are never read as weights."""

SUFFIX: Final = f"_r{TILE}"
REASON: Final = "encode the format of the same name and lay its rows side by side"
BASES: Final = (
    *("int4_sym_g32_f16", "int8_sym_g32_f16", "mxfp4"),
    *(f"mlx_int4_g{group}" for group in (32, 64, 128)),
    "mlx_int8_g64",
)


def formats(known: Mapping[str, Format]) -> list[Format]:
    """The tiled form of each stream format that has one."""
    return [tiled(known[name]) for name in BASES]


def tiled(fmt: Format) -> Format:
    """`fmt` with 32 rows side by side: word i of row n is [n // 32, 32 i + n % 32] of its plane.

    A word holds its codes four by four: code e lies in byte e % 4, and e // 4 says which bits of
    the byte, low ones first. One factor is one word.
    """
    codes, *factors = fmt.planes
    words = Extent(k=1, up=fmt.bits * TILE, down=32)
    planes = [Plane(codes.name, (u32,), Extent(n=1, down=TILE), words)]
    for plane in factors:
        across = replace(plane.cols, up=plane.cols.up * TILE)
        planes.append(Plane(plane.name, plane.dtypes, Extent(n=1, down=TILE), across))
    return replace(
        fmt,
        name=fmt.name + SUFFIX,
        tier=2,
        planes=tuple(planes),
        body="tiles",
        encode=Encode.DECODE_ONLY,
        reason=REASON,
        ids=Ids(),
        aliases=(),
    )
