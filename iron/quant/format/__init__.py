"""The one table of weight formats: data only, families built by loops.

Everything else is derived from it: plane shapes, bits per weight, what a kernel may index, the
readers' maps, the test parametrisation and the reference page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from iron.errors import error
from iron.quant.format import foreign, gguf, regular, tiled
from iron.quant.format.record import (
    Algebra,
    Elem,
    Encode,
    Extent,
    Format,
    Ids,
    Outer,
    Plane,
    Rule,
    Scale,
)

__all__ = [
    "ALIASES",
    "CORE",
    "FORMATS",
    "Algebra",
    "Elem",
    "Encode",
    "Extent",
    "Format",
    "Ids",
    "Outer",
    "Plane",
    "Rule",
    "Scale",
    "by_ggml",
    "by_name",
]


def _table(rows: Iterable[Format]) -> Mapping[str, Format]:
    out: dict[str, Format] = {}
    for row in rows:
        if row.name in out:
            raise ValueError(f"two formats are called {row.name}")
        out[row.name] = row
    return MappingProxyType(out)


_PLAIN: Final = _table([*regular.formats(), *gguf.formats(), *foreign.formats()])
FORMATS: Final = _table([*_PLAIN.values(), *tiled.formats(_PLAIN)])
ALIASES: Final = MappingProxyType({a: f.name for f in FORMATS.values() for a in f.aliases})

_FLOAT_SCALED: Final = (
    *("nvfp8", "fp4_g32", "fp8_e4m3_g32", "fp8_e5m2_g32"),
    *(f"int{b}_g64" for b in (2, 3, 4, 5, 6, 8)),
)
CORE: Final[tuple[str, ...]] = (
    *("nvfp4", "mxfp4", "mxfp8_e4m3", "mxfp8_e5m2"),
    *(f"mxint{b}" for b in (2, 3, 4, 5, 6, 8)),
    *(f"{name}_f32" for name in _FLOAT_SCALED),
    *(f"{name}_f16" for name in _FLOAT_SCALED),
)
"""The symmetric formats that every operation on weights accepts."""


def by_name(name: str) -> Format:
    """The format called `name`, or known elsewhere by it; E0803 when there is none.

    Tiles of any size are formats too: `fp8_e4m3_b{rows}x{cols}_{f32,e8m0}`.
    """
    found = FORMATS.get(ALIASES.get(name, name))
    if found is not None:
        return found
    tile = re.fullmatch(r"fp8_e4m3_b(\d+)(?:x(\d+))?_(f32|e8m0)", name)
    if tile and int(tile[1]) and int(tile[2] or tile[1]):
        return regular.fp8_tile(int(tile[1]), int(tile[2] or tile[1]), tile[3])
    from difflib import get_close_matches

    close = get_close_matches(name, [*FORMATS, *ALIASES], 3)
    hint = f"did you mean {', '.join(close)}?" if close else "docs/formats.md lists them"
    raise error("E0803", f"there is no format called {name}", help=hint)


def by_ggml(type_id: int) -> Format | None:
    """The format with this GGUF type id, or None."""
    return next((f for f in FORMATS.values() if f.ids.ggml == type_id), None)
