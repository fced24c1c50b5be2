"""`iron clean`: what the cache holds, and removing it."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from iron.cli import configuration
from iron.cli.output import JsonFlag, age_text, bytes_text, console, print_json
from iron.runtime.cache import Cache

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def age(text: str) -> float:
    """Seconds in `30d`, `12h`, `5m` or `60s`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if not found:
        raise typer.BadParameter("an age such as 30d, 12h, 5m or 60s is needed")
    return float(found[1]) * UNITS[found[2]]


def size(text: str) -> int:
    """Bytes in `500MiB`."""
    try:
        return configuration.size(text)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None


def clean(
    all_entries: Annotated[bool, typer.Option("--all", help="Remove every entry.")] = False,
    older: Annotated[
        float | None,
        typer.Option(parser=age, metavar="AGE", help="Remove what was unused this long: 30d, 12h."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            parser=size, metavar="SIZE", help="Remove the least recently used down to: 500MiB."
        ),
    ] = None,
    json: Annotated[bool, JsonFlag] = False,
) -> None:
    """Shows the cache of compiled code, or removes from it.

    Without an option nothing is removed but leftovers of killed processes.

    Example: `iron clean --older 30d`
    """
    cache = Cache(configuration.load()["cache_dir"])
    pruned = cache.prune(0 if all_entries else keep, older)
    left = cache.stats()
    if json:
        print_json(
            {
                "root": left.root,
                "entries": left.entries,
                "bytes": left.bytes,
                "oldest_seconds": left.oldest,
                "removed_entries": pruned.entries,
                "removed_bytes": pruned.bytes,
                "trouble": left.trouble,
            }
        )
        return
    out = console()
    out.print(f"cache    {left.root}", markup=False)
    if left.trouble:
        out.print(f"unused   {left.trouble}", markup=False)
    unused = f", oldest unused for {age_text(left.oldest)}" if left.entries else ""
    out.print(f"holds    {left.entries} entries, {bytes_text(left.bytes)}{unused}")
    if pruned.entries:
        out.print(f"removed  {pruned.entries} entries, {bytes_text(pruned.bytes)}")
