"""`iron diff`: two snapshots, of speed or of generated code, side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from iron.bench.compare import THRESHOLD, Comparison, compare
from iron.bench.snapshot import load
from iron.cli.changes import document, print_changes
from iron.cli.code import diff_code
from iron.cli.output import JsonFlag, print_json
from iron.errors import error


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A snapshot or bench JSON.")],
    after: Annotated[
        Path | None,
        typer.Argument(metavar="AFTER", help="The later one; with --code, left out, the code now."),
    ] = None,
    threshold: Annotated[
        float, typer.Option("--threshold", metavar="PCT", help="Smaller changes are none.")
    ] = THRESHOLD,
    sort: Annotated[str, typer.Option("--sort", help="Order: `name`, `delta` or `pct`.")] = "pct",
    only_regressions: Annotated[
        bool, typer.Option("--only-regressions", help="Show what became slower.")
    ] = False,
    only_improvements: Annotated[
        bool, typer.Option("--only-improvements", help="Show what became faster.")
    ] = False,
    filter: Annotated[
        list[str] | None, typer.Option("-f", "--filter", help="Only rows with this in their name.")
    ] = None,
    code: Annotated[
        bool, typer.Option("--code", help="The generated code of two code snapshots.")
    ] = False,
    json: Annotated[bool, JsonFlag] = False,
) -> None:
    """Compares two snapshots row by row; exit status 1 when a row became slower.

    A change counts when medians differ by more than the threshold, the middle 60 % of the timings
    do not overlap, and the machine's own ceilings did not move along. With --code it shows how the
    generated code differs; after a refactor of the compiler it must not.

    Example: `iron snap -o before.json`, change something, `iron snap -o after.json`,
    `iron diff before.json after.json --only-regressions`
    """
    if code:
        diff_code(before, after, tuple(filter or ()), json)
        return
    if after is None:
        raise error("E0803", "AFTER is missing", help="only --code compares with what is there now")
    if only_regressions and only_improvements:
        raise error("E0803", "--only-regressions and --only-improvements leave nothing")
    found = _kept(compare(load(before), load(after), threshold, sort), tuple(filter or ()))
    shown = ("slower",) if only_regressions else ("faster",) if only_improvements else None
    if json:
        print_json(document(found))
    else:
        print_changes(found, shown or ("slower", "faster"))
    if found.of("slower"):
        raise typer.Exit(1)


def _kept(found: Comparison, filters: tuple[str, ...]) -> Comparison:
    if not filters:
        return found

    def chosen(name: str) -> bool:
        return any(f in name for f in filters)

    return replace(
        found,
        changes=tuple(c for c in found.changes if chosen(c.name)),
        added=tuple(n for n in found.added if chosen(n)),
        gone=tuple(n for n in found.gone if chosen(n)),
    )
