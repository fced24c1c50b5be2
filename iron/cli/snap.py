"""`iron snap`: a run kept for later, or a bench's JSON made one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iron.bench import snapshot
from iron.bench.snapshot import Document
from iron.bench.tree import clean
from iron.cli.bench import campaign, checked, collect
from iron.cli.code import snap_code
from iron.cli.configuration import load
from iron.cli.matching import unmatched
from iron.cli.output import console
from iron.errors import error
from iron.worker.season import Season

FOLDER = "snapshots"


def snap(
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where it goes."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Promote this bench JSON; nothing is run."),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="What the snapshot is of.")] = "",
    filter: Annotated[
        list[str] | None,
        typer.Option("-f", "--filter", help="Part of `kernel[dtype,..](sizes)`, or a pattern."),
    ] = None,
    backend: Annotated[str, typer.Option("-b", "--backend", help="The backend to time.")] = "cpu",
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Time a tree with uncommitted changes.")
    ] = False,
    code: Annotated[
        bool, typer.Option("--code", help="Save the generated code instead; times nothing.")
    ] = False,
    targets: Annotated[
        str | None,
        typer.Option("--targets", help="With --code: `cpu,cuda:sm_90a`; left out, all of them."),
    ] = None,
    dtypes: Annotated[
        str | None, typer.Option("--dtypes", help="With --code: only these dtypes.")
    ] = None,
) -> None:
    """Saves a performance snapshot: kernels and ceilings, no peers.

    It goes to `snapshots/<device>-<backend>-<commit>.json` unless -o says otherwise. With --code it
    is the text of every kernel for every target, and goes to `code.snapshot`.

    Example: `iron snap -f norm --note "before the rewrite"`, or `iron snap --code`
    """
    if code:
        snap_code(output, tuple(filter or ()), dtypes, targets)
        return
    if targets or dtypes:
        raise error("E0803", "--targets and --dtypes go with --code")
    if source is not None:
        found = {**snapshot.load(source), **({"note": note} if note else {})}
        if filter:
            raise error("E0803", "--from takes the file whole", help="leave --filter out")
    else:
        resolved = load({})
        tree = clean(resolved.project or Path.cwd(), allow_dirty)
        chosen = campaign(resolved, checked(backend), tuple(filter or ()), None)
        found = collect(Season(chosen, peers=("none",)), tree, note)
    if not found["rows"]:
        if not found["faults"]:
            raise unmatched("bench", filter or (), None, "iron bench --list")
        console(stderr=True).print("no row was timed; nothing is saved")
        raise typer.Exit(1)
    path = output or Path(FOLDER) / _name(found)
    snapshot.save(found, path)
    console().print(f"{len(found['rows'])} rows in {path}", markup=False)
    if found["faults"]:
        raise typer.Exit(1)


def _name(found: Document) -> str:
    dirty = "-dirty" if found["dirty"] else ""
    machine = snapshot.slug(found["machine"])
    return f"{machine}-{found['backend']}-{found['commit'][:12]}{dirty}.json"
