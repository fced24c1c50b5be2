"""How commands speak: rich on a terminal, plain lines elsewhere, one JSON document for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

JsonFlag = typer.Option("--json", help="Print one JSON document instead.")


def console(stderr: bool = False) -> Console:
    """A console that never cuts a line when its output is not a terminal."""
    plain = Console(stderr=stderr, highlight=False)
    return plain if plain.is_terminal else Console(stderr=stderr, highlight=False, width=10_000)


def print_json(document: Any) -> None:
    """One document, keys sorted, on standard output."""
    typer.echo(json.dumps(document, indent=2, sort_keys=True, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their content, without lines."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, no_wrap=True)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    out = console()
    with out.capture() as captured:
        out.print(made)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


def bytes_text(count: float) -> str:
    """A size for people: `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def age_text(seconds: float) -> str:
    """An age for people: `3 days`."""
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = int(seconds // length)
        if count:
            return f"{count} {name}{'s' if count > 1 else ''}"
    return "less than a minute"
