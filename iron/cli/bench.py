"""`iron bench`: kernels verified, then timed beside their peers and the machine's ceilings."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from iron.bench import receipt, snapshot
from iron.bench.compare import Comparison, compare
from iron.bench.snapshot import Document
from iron.bench.tree import RECEIPTS, Tree, clean
from iron.cli.bench_table import compare_dtypes, print_rows, summary
from iron.cli.changes import print_changes
from iron.cli.configuration import Configuration, load
from iron.cli.matching import backend_of, dtypes_of, ended, peers_of, unmatched
from iron.cli.output import JsonFlag, console, print_json
from iron.cli.test import worker_command
from iron.cli.tune import search
from iron.errors import KernelError, error
from iron.report.bench_page import page
from iron.runtime import tune as tuning
from iron.runtime.driver import BACKENDS
from iron.worker.campaign import Campaign
from iron.worker.season import Season, Timed
from iron.worker.supervise import Limits, Lost

MEMORY = 24 << 30
"""Bytes a worker may hold unless a setting says otherwise: inputs, peers, and the cache's flush."""

SILENCE = 300.0
"""Seconds of silence after which a bench counts as hanging: a peer's compiler is silent long."""

UNTIMED = tuple(b for b in BACKENDS if b == "interp" or "-text" in b)
QUICK = {"least": 5, "most": 5, "seconds": 0.0}


def run(
    filter: Annotated[
        list[str] | None,
        typer.Option("-f", "--filter", help="Part of `kernel[dtype,..](sizes)`, or a pattern."),
    ] = None,
    backend: Annotated[str, typer.Option("-b", "--backend", help="The backend to time.")] = "cpu",
    dtypes: Annotated[
        str | None, typer.Option("--dtypes", help="Only these dtypes: `f32,bf16`.")
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", help="Only this library or peer; `none` for none. Repeatable."),
    ] = None,
    beside: Annotated[
        str, typer.Option("--beside", help="A backend to time each kernel on too, in turns.")
    ] = "",
    warm: Annotated[
        bool, typer.Option("--warm", help="Leave the caches as the last call left them.")
    ] = False,
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, help="Roofline columns; -vv: the tails.")
    ] = 0,
    side_by_side: Annotated[
        bool, typer.Option("--compare-dtypes", help="One line a kernel, a column a dtype.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the run as JSON.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="Write a page with a roofline plot."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--receipt", help="Write `baselines/<device>/<backend>.json`.")
    ] = False,
    baselines: Annotated[
        Path | None,
        typer.Option(
            "--baselines",
            metavar="FOLDER",
            file_okay=False,
            help="Where --receipt writes and --diff reads, instead of `baselines`.",
        ),
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Compare with this device's receipt.")
    ] = False,
    baseline_ref: Annotated[
        str | None,
        typer.Option("--baseline-ref", metavar="REF", help="As --diff, with the receipt at REF."),
    ] = None,
    threshold: Annotated[
        float, typer.Option("--threshold", metavar="PCT", help="What --diff counts as a change.")
    ] = 5.0,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Time a tree with uncommitted changes.")
    ] = False,
    tune: Annotated[
        bool, typer.Option("--tune", help="Search each kernel's `tune` space and keep the fastest.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="With --tune: search what is known, too.")
    ] = False,
    named: Annotated[
        bool, typer.Option("--list", help="Name the benches that match; nothing is timed.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Five turns: to see that it works, not how fast.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds a kernel may be silent.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", help="Memory the worker may hold: `8GiB`.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the random inputs.")] = None,
    json: Annotated[bool, JsonFlag] = False,
) -> None:
    """Verifies kernels, then times them beside their peers and the machine's ceilings.

    Times are medians of at least 30 calls with cold caches; kernel, peers and ceilings take turns.
    A row that cannot be believed says why. `docs/measuring.md` explains every column.

    Example: `iron bench -f softmax --dtypes f32 -v --report softmax.html`
    """
    checked(backend)
    if beside:
        checked(beside)
    resolved = load({"timeout": timeout, "memory": memory, "seed": seed})
    season = Season(
        campaign(resolved, backend, tuple(filter or ()), dtypes),
        cold=not warm,
        peers=peers_of(peer),
        beside=beside,
        limits=QUICK if quick else {},
        tune=tune and named,
    )
    if named:
        _names(season, json)
    project = resolved.project or Path.cwd()
    folder = _folder(project, baselines, wanted=keep or diff or baseline_ref is not None)
    tree = clean(project, allow_dirty or tune, folder)
    if tune or tuning.mode() == "on":
        _tune(replace(season, again=again), json, tune)
    kept = (lambda part: receipt.write(folder, part)) if keep else None
    found = collect(season, tree, shown=not json, kept=kept)
    if keep and found["rows"]:
        receipt.write(folder, found)
    if output is not None:
        snapshot.save(found, output)
    if report is not None:
        _write(report, page(found))
    changes = _changes(folder, found, diff, baseline_ref, threshold)
    if json:
        print_json(found)
    elif found["rows"] or found["faults"]:
        _print(found, changes, verbose, side_by_side)
    _end(season, found, changes)


def _end(season: Season, found: Document, changes: Comparison | None) -> None:
    """The status of a command that has shown its rows. Errors: E0803 where there are none."""
    if not found["rows"] and not found["faults"]:
        raise _unmatched(season)
    if found["faults"] or (changes and changes.of("slower")):
        raise typer.Exit(1)


def _folder(project: Path, given: Path | None, wanted: bool) -> Path:
    """The folder of receipts. Errors: E0803 where one is given and nothing asks for it."""
    if given is None:
        return project / RECEIPTS
    if not wanted:
        raise error("E0803", "--baselines goes with --receipt, --diff or --baseline-ref")
    return given.resolve()


def _names(season: Season, json: bool) -> NoReturn:
    """Prints what would be timed, a line each; ends the command."""
    try:
        found = list(season.named())
    except Lost as lost:
        ended(lost)
    names, faults = [t.name for t in found if not t.kind], [_fault(t) for t in found if t.kind]
    if json:
        print_json({"schema": 1, "benches": names, "faults": faults})
    else:
        for name in names:
            console().print(name, markup=False, soft_wrap=True)
        for fault in faults:
            console(stderr=True).print(f"{fault['kernel']}: {fault['text']}", markup=False)
    if not names and not faults:
        raise _unmatched(season)
    raise typer.Exit(1 if faults else 0)


def _unmatched(season: Season) -> KernelError:
    of = season.campaign
    return unmatched("bench", of.filters, ",".join(of.dtypes), "iron bench --list")


def _tune(season: Season, json: bool, last: bool) -> None:
    """Searches; where that is not the `last` thing asked for, goes on when nothing was wrong."""
    red, stopped = search(season, json, quiet=json and not last)
    if stopped:
        raise typer.Exit(130)
    if last or red:
        raise typer.Exit(1 if red else 0)


def checked(backend: str) -> str:
    """The name of a backend that can be timed. Errors: E0803."""
    known = tuple(b for b in BACKENDS if b not in UNTIMED)
    if backend in UNTIMED:
        raise error("E0803", f"--backend {backend} is not timed", help=f"{', '.join(known)} are")
    return backend_of(backend, "--backend", known)


def campaign(
    resolved: Configuration, backend: str, filters: tuple[str, ...], dtypes: str | None
) -> Campaign:
    """Which kernels, and workers with room for benches unless the settings limit them."""
    own = {n: resolved.values[n].source == "default" for n in ("timeout", "memory")}
    seconds = SILENCE if own["timeout"] else resolved["timeout"]
    memory = MEMORY if own["memory"] else resolved["memory"]
    os.environ["IRON_CACHE_DIR"] = str(resolved["cache_dir"])
    command = worker_command(resolved, backend)
    at = command.index(str(resolved["memory"]))
    command = (*command[:at], str(memory), *command[at + 1 :])
    return Campaign(
        packages=resolved["kernels"],
        backends=(backend,),
        command=lambda _: command,
        filters=filters,
        dtypes=dtypes_of(dtypes),
        seed=resolved["seed"],
        limits=Limits(seconds, memory),
    )


def collect(
    season: Season,
    tree: Tree,
    note: str = "",
    shown: bool = True,
    kept: Callable[[Document], Any] | None = None,
) -> Document:
    """Runs every bench; one line each as it is done on a terminal. Errors: E0803.

    `kept` gets the run so far after each row, so that one that is cut has lost nothing.
    """
    out = console(stderr=True)
    rows: list[dict[str, Any]] = []
    faults: list[dict[str, str]] = []
    machine: dict[str, Any] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    hidden = not shown or not out.is_terminal
    with Progress(*columns, console=out, transient=True, disable=hidden) as bar:
        task = bar.add_task("benches", total=None)

        def beat(name: str, text: str) -> None:
            bar.update(task, description=f"{name}: {text}")

        try:
            for timed in replace(season, beat=beat).run():
                if timed.row is None:
                    faults.append(_fault(timed))
                    out.print(
                        f"{timed.name}: {timed.kind}: {timed.text}", style="red", markup=False
                    )
                    continue
                rows.append(timed.row)
                machine = timed.machine
                if kept is not None:
                    kept(snapshot.document(season.backend, rows, faults, machine, tree, note))
                if shown:
                    out.print(f"{timed.name}: {summary(timed.row)}", markup=False)
        except Lost as lost:
            ended(lost)
    return snapshot.document(season.backend, rows, faults, machine, tree, note)


def _fault(timed: Timed) -> dict[str, str]:
    names = ("kernel", "tags", "shape", "kind", "text")
    return {name: getattr(timed, name) for name in names}


def _changes(
    folder: Path, found: Document, diff: bool, ref: str | None, threshold: float
) -> Comparison | None:
    if not (diff or ref) or not found["rows"]:
        return None
    if ref is not None:
        before = receipt.committed(folder, found["machine"], found["backend"], ref)
    else:
        path = receipt.path_of(folder, found["machine"], found["backend"])
        before = snapshot.load(path) if path.exists() else None
    if before is None:
        raise error(
            "E0803",
            "there is no receipt of this device and backend to compare with",
            help="`iron bench --receipt` writes one",
        )
    return compare(before, found, threshold)


def _print(found: Document, changes: Comparison | None, verbose: int, side_by_side: bool) -> None:
    if side_by_side:
        compare_dtypes(found)
    else:
        print_rows(found, verbose)
    if changes is not None:
        print_changes(changes)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as problem:
        raise error("E0802", f"{path}: {problem.strerror or problem}") from None
