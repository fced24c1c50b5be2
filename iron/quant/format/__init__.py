"""The one table of weight formats: data only, families built by loops.

Everything else is derived from it: plane shapes, bits per weight, what a kernel may index, the
readers' maps, the test parametrisation and the reference page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from iron.errors import error
from iron.quant.format import gguf, regular
from iron.quant.format.record import (
    Algebra,
    Elem,
    Encode,
    Extent,
    Format,
    Ids,
    Plane,
    Rule,
    Scale,
    Whole,
)

__all__ = [
    "ALIASES",
    "FORMATS",
    "Algebra",
    "Elem",
    "Encode",
    "Extent",
    "Format",
    "Ids",
    "Plane",
    "Rule",
    "Scale",
    "Whole",
    "by_ggml",
    "by_name",
]


def _table(rows: Iterable[Format]) -> dict[str, Format]:
    out: dict[str, Format] = {}
    for row in rows:
        if row.name in out:
            raise ValueError(f"two formats are called {row.name}")
        out[row.name] = row
    return out


FORMATS: Final[dict[str, Format]] = _table(
    [*regular.dense(), *regular.affine(), *regular.integers(), *gguf.blocks()]
)
ALIASES: Final[dict[str, str]] = {a: f.name for f in FORMATS.values() for a in f.aliases}


def by_name(name: str) -> Format:
    """The format called `name`, or known elsewhere by it; E0803 when there is none."""
    found = FORMATS.get(ALIASES.get(name, name))
    if found is None:
        from difflib import get_close_matches

        close = get_close_matches(name, [*FORMATS, *ALIASES], 3)
        hint = f"did you mean {', '.join(close)}?" if close else "docs/formats.md lists them"
        raise error("E0803", f"there is no format called {name}", help=hint)
    return found


def by_ggml(type_id: int) -> Format | None:
    """The format with this GGUF type id, or None."""
    return next((f for f in FORMATS.values() if f.ids.ggml == type_id), None)
