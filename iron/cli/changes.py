"""The differences of two runs, as `iron diff` and `iron bench --diff` print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iron.bench.compare import Change, Comparison
from iron.cli.output import console, print_table
from iron.report.units import seconds

STYLES = {"slower": "bold red", "faster": "green", "same": ""}


def print_changes(found: Comparison, shown: Sequence[str] = ("slower", "faster")) -> None:
    """The changes of the kinds shown, and a line of counts."""
    out = console()
    for note in found.notes:
        out.print(f"note: {note}", style="yellow", markup=False)
    kept = [c for c in found.changes if c.kind in shown]
    if kept:
        print_table(("", "row", "before", "after", "change", "machine"), [_cells(c) for c in kept])
    for title, names in (("new", found.added), ("gone", found.gone)):
        for name in names:
            out.print(f"{title}  {name}", markup=False)
    counts = ", ".join(f"{len(found.of(kind))} {kind}" for kind in STYLES)
    out.print(counts, style=STYLES["slower"] if found.of("slower") else "")


def _cells(change: Change) -> list[str]:
    return [
        change.kind,
        change.name,
        seconds(change.before),
        seconds(change.after),
        f"{change.percent:+.1f} %",
        f"{100 * (change.machine - 1):+.0f} %",
    ]


def document(found: Comparison) -> dict[str, Any]:
    """The comparison for machines."""
    return {
        "schema": 1,
        "changes": [
            {
                "name": c.name,
                "kind": c.kind,
                "before": c.before,
                "after": c.after,
                "percent": c.percent,
                "machine": c.machine,
            }
            for c in found.changes
        ],
        "added": list(found.added),
        "gone": list(found.gone),
        "notes": list(found.notes),
    }
