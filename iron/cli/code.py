"""`iron snap --code` and `iron diff --code`: the generated code of every kernel, then and now."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import typer

from iron.cli.configuration import load
from iron.cli.matching import unmatched
from iron.cli.output import console, print_json
from iron.cli.rows import collect, print_red
from iron.cli.test import campaign_of
from iron.emit import snapshot
from iron.emit.snapshot import Change, Snapshot
from iron.emit.targets import FAMILIES, destination
from iron.quant.atomic import replace as write
from iron.worker.building import Order

DEFAULT = Path("code.snapshot")


def snap_code(
    output: Path | None, filters: tuple[str, ...], dtypes: str | None, targets: str | None
) -> None:
    """Writes the texts of the chosen kernels; exit status 1 when one cannot be built."""
    found, failed = replay(_names(targets), filters, dtypes or "")
    count = sum(map(len, found.texts.values()))
    if not count and failed:
        raise typer.Exit(1)
    if not count:
        raise unmatched("kernel", filters, dtypes, "iron inspect")
    path = output or DEFAULT
    with write(path) as file:
        file.write(snapshot.dumps(found))
    console().print(f"{count} texts for {', '.join(found.texts)} in {path}", markup=False)
    if failed:
        raise typer.Exit(1)


def diff_code(before: Path, after: Path | None, filters: tuple[str, ...], json: bool) -> None:
    """Shows how the texts of two snapshots differ, or of one and of the code as it is now.

    Exit status 1 when they do, or when a kernel cannot be built any more.
    """
    old, failed = snapshot.load(before), False
    if after is not None:
        new = snapshot.load(after)
    else:
        new, failed = replay(tuple(old.texts), old.filters, old.dtypes, quiet=json)
    changes = [c for c in snapshot.compare(old, new) if _chosen(c, filters)]
    if json:
        print_json({"schema": 1, "changes": [asdict(c) for c in changes]})
    else:
        _show(changes, sum(map(len, new.texts.values())))
    if changes or failed:
        raise typer.Exit(1)


def replay(
    targets: tuple[str, ...], filters: tuple[str, ...], dtypes: str, quiet: bool = False
) -> tuple[Snapshot, bool]:
    """The texts as the compiler writes them now, and whether some kernel could not be built.

    A line a kernel goes to standard error on the way; of a `quiet` one red rows alone.
    """
    order = Order(targets, text=True)
    campaign = campaign_of(load({}), ("cpu",), filters, dtypes or None)
    shown = "nothing" if quiet else "kernels"
    rows = collect(replace(campaign, trial=order.trial), shown, stderr=True)
    red = [row for row in rows if row.faults]
    if quiet:
        print_red(red)
    texts = [
        snapshot.Text(target, made["alias"], made["symbol"], made["text"])
        for target, made in order.made
    ]
    return snapshot.collected(texts, filters, dtypes), bool(red)


def _names(given: str | None) -> tuple[str, ...]:
    asked = [n.strip() for n in given.split(",") if n.strip()] if given else list(FAMILIES)
    return tuple(dict.fromkeys(destination(name).name for name in asked))


def _chosen(change: Change, filters: tuple[str, ...]) -> bool:
    name = f"{change.name} {change.target}"
    return not filters or any(f in name for f in filters)


def _show(changes: list[Change], count: int) -> None:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    out = console()
    for change in changes:
        for line in change.unified().splitlines():
            bold = line.startswith(("+++", "---"))
            out.print(line, style="bold" if bold else styles.get(line[:1]), markup=False)
    text = (
        f"{len(changes)} of {count} texts differ" if changes else f"no difference in {count} texts"
    )
    out.print(text, style="bold red" if changes else "green")
