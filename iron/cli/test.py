"""`iron test`: each kernel's cases against its oracle, on every chosen backend, in workers."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from iron.cli.configuration import Configuration, load
from iron.cli.matching import backend_of, dtypes_of, ended, unmatched
from iron.cli.output import JsonFlag, console, print_json
from iron.cli.rows import collect, document, report
from iron.errors import error
from iron.runtime.driver import BACKENDS
from iron.worker.campaign import Campaign, MakeTrial
from iron.worker.hunt import Hunt, listed
from iron.worker.supervise import Limits, Lost

HERE = ("interp", "cpu")
"""Backends that need no device; whether another can be used, a worker is asked first."""


def run(
    filter: Annotated[
        list[str] | None,
        typer.Option("-f", "--filter", help="Part of `kernel[dtype,variant]`, or a pattern."),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            "-b",
            "--backend",
            help="A backend of `iron device`, or `all` that work here. Repeatable.",
        ),
    ] = None,
    dtypes: Annotated[
        str | None, typer.Option("--dtypes", help="Only these dtypes: `f32,f16`.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", help="Worker processes side by side.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds one case may take.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", help="Memory a worker may hold: `4GiB`.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the random inputs.")] = None,
    fail_fast: Annotated[
        bool, typer.Option("-x", "--fail-fast", help="Stop at the first red row.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="A line for every dtype and variant.")
    ] = False,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="The interpreter's checks, at larger shapes.")
    ] = False,
    mutate: Annotated[
        bool, typer.Option("--mutate", help="The cases must reject known-bad forms of each kernel.")
    ] = False,
    survivors: Annotated[
        Path | None,
        typer.Option("--survivors", metavar="FILE", help="Mutants that may live: `kernel: name`."),
    ] = None,
    json: Annotated[bool, JsonFlag] = False,
) -> None:
    """Runs each kernel's cases against its oracle: every dtype, variant and shape.

    Kernels run in worker processes. One that crashes, hangs or eats memory is a red row.

    Example: `iron test -f softmax -b cpu --dtypes f32`
    """
    names = _backends(tuple(backend or ()), sanitize, mutate)
    trial = _hunting(survivors) if mutate else None
    if survivors is not None and not mutate:
        raise error("E0803", "--survivors goes with --mutate")
    resolved = load(
        {
            "backends": tuple(BACKENDS) if names == ("all",) else names,
            "jobs": jobs,
            "timeout": timeout,
            "memory": memory,
            "seed": seed,
        }
    )
    campaign = campaign_of(resolved, resolved["backends"], tuple(filter or ()), dtypes, fail_fast)
    campaign = replace(campaign, larger=sanitize, trial=trial)
    campaign, absent = ready(campaign, names == ("all",))
    started = time.monotonic()
    rows = collect(campaign, "nothing" if json else "rows" if verbose else "kernels")
    if json:
        print_json({**document(rows, time.monotonic() - started), "not_run": absent})
    elif rows:
        report(rows, time.monotonic() - started)
    if not rows:
        raise unmatched("kernel", campaign.filters, dtypes, "iron inspect")
    for absentee, why in absent.items():
        console(stderr=True).print(f"not run: {absentee}: {why}", markup=False)
    if any(row.faults for row in rows) or (absent and os.environ.get("CI") == "true"):
        raise typer.Exit(1)


def ready(campaign: Campaign, all: bool) -> tuple[Campaign, dict[str, str]]:
    """The campaign on the backends that this machine has, and why it lacks others.

    Where not `all` were asked for, one that is lacking ends the command.
    """
    others = tuple(b for b in campaign.backends if b not in HERE)
    missing = replace(campaign, backends=others).unready()
    for text in () if all else missing.values():
        ended(Lost("unready", text))
    kept = tuple(b for b in campaign.backends if b not in missing)
    told = {b: text.partition("\n")[0].partition(": ")[2] for b, text in missing.items()}
    return replace(campaign, backends=kept), told


def _backends(given: tuple[str, ...], sanitize: bool, mutate: bool) -> tuple[str, ...] | None:
    """The backends asked for; None when it is left to the configuration."""
    if sanitize and mutate:
        raise error("E0803", "--sanitize and --mutate are two runs")
    if not sanitize and not mutate:
        return given or None
    if given not in ((), ("interp",)):
        flag = "--sanitize" if sanitize else "--mutate"
        raise error("E0803", f"{flag} runs on the interpreter", help="leave --backend out")
    return ("interp",)


def _hunting(file: Path | None) -> MakeTrial:
    """Makes the hunt for a kernel's mutants; those that `file` lists may live."""
    try:
        known = listed(file.read_text("utf-8")) if file is not None else {}
    except (OSError, UnicodeDecodeError) as wrong:
        raise error("E0803", f"--survivors: {file} cannot be read: {wrong}") from None
    return lambda *of: Hunt(*of, survivors=known)


def worker_command(resolved: Configuration, backend: str) -> tuple[str, ...]:
    """How a worker for `backend` is started; it finds the project's packages first."""
    found = (sys.executable, "-m", "iron.worker", backend, str(resolved["memory"]))
    root = resolved.project
    return found if root is None else (*found, str(root), str(root / "src"))


def campaign_of(
    resolved: Configuration,
    backends: tuple[str, ...],
    filters: tuple[str, ...],
    dtypes: str | None,
    fail_fast: bool = False,
) -> Campaign:
    """The campaign over the project's kernels that these settings and flags ask for."""
    for name in backends:
        backend_of(name, resolved.values["backends"].source, tuple(BACKENDS))
    os.environ["IRON_CACHE_DIR"] = str(resolved["cache_dir"])
    return Campaign(
        packages=resolved["kernels"],
        backends=backends,
        command=lambda backend: worker_command(resolved, backend),
        filters=filters,
        dtypes=dtypes_of(dtypes),
        seed=resolved["seed"],
        jobs=resolved["jobs"],
        fail_fast=fail_fast,
        limits=Limits(resolved["timeout"], resolved["memory"]),
    )
