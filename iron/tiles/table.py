"""Text tables for those who look at what a pass decided."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    rows = (
        "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *cells)
    )
    return "\n".join(rows) + "\n"
