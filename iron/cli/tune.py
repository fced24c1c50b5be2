"""`iron bench --tune`: the fastest configuration of each bench, kept as soon as it is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from iron.bench.search import named
from iron.cli.matching import ended
from iron.cli.output import console, print_json, print_table
from iron.report.units import seconds, times
from iron.runtime import tune
from iron.worker.season import Season, Timed
from iron.worker.supervise import Lost

COLUMNS = ("bench", "fastest", "time", "as it is", "gain", "tried", "passed over")
COUNTED = ("consts", "seconds", "default", "tried")


def search(season: Season, json: bool, quiet: bool = False) -> tuple[int, bool]:
    """Searches and writes; how many benches were red, and whether the user interrupted.

    What was found by then is on disk. A `quiet` one prints red lines only. Errors: E0803, E0802.
    """
    found: list[tuple[str, dict[str, Any]]] = []
    red: list[Timed] = []
    out = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    stopped = False
    with Progress(
        *columns, console=out, transient=True, disable=json or not out.is_terminal
    ) as bar:
        task = bar.add_task("benches", total=None)

        def beat(name: str, text: str) -> None:
            number, _, rest = text.partition(" of ")
            if number.isdigit():
                bar.update(task, completed=int(number) - 1, total=int(rest.partition(":")[0]))
            bar.update(task, description=f"{name}: {text}")

        try:
            for timed in replace(season, tune=True, beat=beat).run():
                if timed.row is None:
                    red.append(timed)
                    out.print(
                        f"{timed.name}: {timed.kind}: {timed.text}", style="red", markup=False
                    )
                    continue
                _keep(timed, timed.row, season.backend)
                found.append((timed.name, timed.row))
                for text in timed.row["wrong"]:
                    out.print(f"{timed.name}: wrong: {text}", style="red", markup=False)
                if not json:
                    out.print(f"{timed.name}: {_said(timed.row)}", markup=False)
        except Lost as lost:
            ended(lost)
        except KeyboardInterrupt:
            stopped = True
    if not quiet:
        _show(found, red, stopped, json)
    return len(red) + sum(bool(row["wrong"]) for _, row in found), stopped


def _keep(timed: Timed, row: Mapping[str, Any], backend: str) -> None:
    if not row["kept"]:
        entry = {name: row[name] for name in COUNTED}
        tune.write(str(timed.machine["device"]), backend, row["name"], row["place"], entry)


def _said(row: Mapping[str, Any]) -> str:
    how = "known: " if row["kept"] else ""
    if not row["consts"]:
        return f"{how}fastest as it is, {seconds(row['default'])}"
    gain = times(row["default"] / row["seconds"])
    return f"{how}{named(row['consts'])}, {seconds(row['seconds'])}, {gain}"


def _show(
    found: list[tuple[str, dict[str, Any]]], red: list[Timed], stopped: bool, json: bool
) -> None:
    if json:
        faults = [{"bench": t.name, "kind": t.kind, "text": t.text} for t in red]
        rows = [{"bench": name, **row} for name, row in found]
        print_json({"schema": 1, "rows": rows, "faults": faults, "interrupted": stopped})
        return
    lines = [
        (
            name,
            named(row["consts"]) or "as it is",
            seconds(row["seconds"]),
            seconds(row["default"]),
            times(row["default"] / row["seconds"]),
            str(row["tried"]),
            str(len(row["passed"])),
        )
        for name, row in found
    ]
    if lines:
        print_table(COLUMNS, lines)
    elif not red:
        console().print("no bench matches that has something to tune")
    if stopped:
        console().print(f"interrupted; {len(found)} results are kept, the next run goes on there")
