"""The rows of a campaign as a person and as a machine read them: progress, red rows, one total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from iron.cli.matching import ended
from iron.cli.output import console
from iron.worker.campaign import Campaign, Finished, Row
from iron.worker.supervise import Lost

FAULTS_SHOWN = 3
ROWS_SHOWN = 10


def collect(campaign: Campaign, shown: str, stderr: bool = False) -> list[Row]:
    """All rows; `shown` is `nothing`, `kernels` (a line a kernel, and red rows) or `rows`."""
    out = console(stderr)
    rows: list[Row] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    hidden = shown == "nothing" or not out.is_terminal
    with Progress(*columns, console=out, transient=True, disable=hidden) as bar:
        task = bar.add_task("kernels", total=None)
        try:
            for said in campaign.run():
                if isinstance(said, Row):
                    rows.append(said)
                    bar.update(task, advance=1, description=said.name)
                    if shown == "rows":
                        _print_row(out, said)
                elif shown == "kernels":
                    _print_kernel(out, said, rows, campaign.backends)
        except Lost as lost:
            ended(lost)
    return rows


def _print_kernel(out: Console, done: Finished, rows: list[Row], backends: Sequence[str]) -> None:
    """A line for each backend, or for each target where a campaign builds."""
    mine: dict[str, list[Row]] = {}
    for row in rows:
        if row.kernel == done.kernel and (
            row.backend == done.backend or row.backend not in backends
        ):
            mine.setdefault(row.backend, []).append(row)
    for backend, found in mine.items():
        red = [r for r in found if r.faults]
        _print_line(out, backend, done.kernel, found, f"{len(red)} rows FAILED" if red else "")
        for row in red:
            out.print(f"    {row.name}", style="red", markup=False)
            _print_faults(out, row)


def _print_row(out: Console, row: Row) -> None:
    bad = f"{len(row.faults)} FAILED" if row.faults else ""
    _print_line(out, row.backend, row.name, [row], bad)
    _print_faults(out, row)


def _print_line(out: Console, backend: str, name: str, rows: list[Row], bad: str) -> None:
    cases, seconds = sum(r.cases for r in rows), sum(r.seconds for r in rows)
    wide = 7 if len(backend) < 8 else 14  # a backend, or a target such as cuda:sm_90a
    line = f"{backend:{wide}} {name:32} {cases:6} {rows[0].unit} {seconds:7.2f} s  "
    out.print(line, end="", markup=False)
    out.print(bad or "ok", style="bold red" if bad else "green")


def _print_faults(out: Console, row: Row) -> None:
    for fault in row.faults[:FAULTS_SHOWN]:
        out.print(f"        {fault.kind}: {fault.case}", style="red", markup=False)
        for text in fault.text.splitlines():
            out.print(f"            {text}", markup=False)
    if len(row.faults) > FAULTS_SHOWN:
        out.print(f"        and {len(row.faults) - FAULTS_SHOWN} more")


def print_red(rows: list[Row]) -> None:
    """The red rows of a campaign that showed nothing while it ran, on standard error."""
    out = console(stderr=True)
    for row in rows[:ROWS_SHOWN]:
        out.print(f"{row.backend} {row.name}", style="red", markup=False)
        _print_faults(out, row)
    if len(rows) > ROWS_SHOWN:
        out.print(f"and {len(rows) - ROWS_SHOWN} more rows; `iron build` names them all")


def report(rows: list[Row], seconds: float) -> None:
    """The last line of some rows: how many of what, and how many failed."""
    out = console()
    red = sum(bool(row.faults) for row in rows)
    cases = sum(row.cases for row in rows)
    text = f"{len({row.kernel for row in rows})} kernels, {len(rows)} rows, {cases} {rows[0].unit}"
    failed = f", {red} rows FAILED" if red else ""
    out.print(f"{text}{failed} in {seconds:.1f} s", style="bold red" if red else "green")


def document(rows: list[Row], seconds: float) -> dict[str, Any]:
    """The rows for a machine."""
    return {
        "schema": 1,
        "rows": [{**asdict(row), "name": row.name, "ok": not row.faults} for row in rows],
        "cases": sum(row.cases for row in rows),
        "failed": sum(bool(row.faults) for row in rows),
        "seconds": seconds,
    }
