"""`iron build` and `iron emit`: every kernel compiled for the named targets, in workers."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from iron.cli.configuration import load
from iron.cli.matching import unmatched
from iron.cli.output import JsonFlag, console, print_json, print_table
from iron.cli.rows import collect, report
from iron.cli.rows import document as rows_document
from iron.cli.test import campaign_of
from iron.emit import documents
from iron.emit.directory import replacing, write
from iron.emit.family import Destination
from iron.emit.manifest import document
from iron.emit.targets import FAMILIES, destination
from iron.errors import error
from iron.worker.building import Order
from iron.worker.campaign import Row

Filter = Annotated[
    list[str] | None,
    typer.Option("-f", "--filter", help="Part of `kernel[dtype,variant]`, or a pattern."),
]
Targets = Annotated[
    str | None,
    typer.Option("--targets", help="`cpu,cuda:sm_90a`; left out, those that --emit needs, or cpu."),
]
Dtypes = Annotated[str | None, typer.Option("--dtypes", help="Only these dtypes: `f32,f16`.")]
Jobs = Annotated[int | None, typer.Option("-j", "--jobs", help="Worker processes side by side.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", help="Seconds without an answer from a worker.")
]
Times = Annotated[
    bool, typer.Option("-t", "--time-passes", help="Seconds of each pass and backend.")
]


def build(
    filter: Filter = None,
    targets: Targets = None,
    dtypes: Dtypes = None,
    jobs: Jobs = None,
    timeout: Timeout = None,
    times: Times = False,
    kinds: Annotated[
        str | None, typer.Option("--emit", metavar="KINDS", help="Write these; see `iron emit`.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Where --emit writes.")
    ] = None,
    json: Annotated[bool, JsonFlag] = False,
) -> None:
    """Compiles every kernel, in each dtype and variant of its cases, for the named targets.

    Writes nothing. A kernel that cannot be compiled is a red row.

    Example: `iron build -f softmax --targets cpu,cuda:sm_90a`
    """
    if (kinds is None) != (out is None):
        raise error("E0803", "--emit and --out go together")
    _run(filter, targets, dtypes, jobs, timeout, times, kinds, out, json)


def emit(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where to write.")],
    kinds: Annotated[
        str, typer.Option("--emit", metavar="KINDS", help="Kinds of artefact, or `all`.")
    ] = "all",
    filter: Filter = None,
    targets: Targets = None,
    dtypes: Dtypes = None,
    jobs: Jobs = None,
    timeout: Timeout = None,
    times: Times = False,
    json: Annotated[bool, JsonFlag] = False,
) -> None:
    """Compiles as `iron build` does and writes the artefacts and their manifest.

    The folder is there whole or not at all: an older one is replaced when everything has worked.

    Example: `iron emit -f softmax --emit llvm,c -o artefacts`
    """
    _run(filter, targets, dtypes, jobs, timeout, times, kinds, out, json)


def _run(
    filters: list[str] | None,
    targets: str | None,
    dtypes: str | None,
    jobs: int | None,
    timeout: float | None,
    times: bool,
    kinds: str | None,
    out: Path | None,
    json: bool,
) -> None:
    wanted = _kinds(kinds)
    to = _targets(targets, wanted)
    resolved = load({"jobs": jobs, "timeout": timeout})
    started = time.monotonic()
    with _folder(out) as folder:
        made = wanted or tuple(kind for d in to for kind in d.family.kinds)
        order = Order(tuple(d.name for d in to), made, str(folder or ""))
        campaign = campaign_of(resolved, ("cpu",), tuple(filters or ()), dtypes)
        rows = collect(replace(campaign, trial=order.trial), "nothing" if json else "kernels")
        failed = any(row.faults for row in rows)
        files = [] if failed or folder is None else _write_documents(folder, order, wanted)
        if not rows:  # whatever is raised here leaves the folder as it was
            raise unmatched("kernel", campaign.filters, dtypes, "iron inspect")
        _report(rows, order, time.monotonic() - started, out, files, times, json)
        if failed:
            raise typer.Exit(1)


def _write_documents(folder: Path, order: Order, kinds: tuple[str, ...]) -> list[str]:
    """Writes what is made of the whole manifest; every file of the folder in order."""
    for path, text in documents.documents(document(order.records), kinds).items():
        write(folder, path, text.encode())
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@contextmanager
def _folder(out: Path | None) -> Generator[Path | None]:
    if out is None:
        yield None
        return
    with replacing(out) as folder:
        yield folder


def _kinds(given: str | None) -> tuple[str, ...]:
    """The kinds asked for; empty when nothing is to be written."""
    known = (*(k for f in FAMILIES.values() for k in f.kinds), *documents.KINDS)
    if given is None:
        return ()
    asked = tuple(dict.fromkeys(k.strip() for k in given.split(",") if k.strip()))
    for kind in asked:
        if kind not in (*known, "all"):
            raise error("E0803", f"--emit: no `{kind}`", help=f"kinds are all, {', '.join(known)}")
    return known if "all" in asked else asked


def _targets(given: str | None, kinds: tuple[str, ...]) -> tuple[Destination, ...]:
    """The targets asked for; left out, the families that the kinds need, or the CPU."""
    if given is not None:
        names = [n.strip() for n in given.split(",") if n.strip()]
    else:
        names = [f.name for f in FAMILIES.values() if set(f.kinds) & set(kinds)]
    found = {d.name: d for d in map(destination, names or ["cpu"])}
    for made in found.values():
        made.family.ready(kinds or tuple(made.family.kinds))
    return tuple(found.values())


def _report(
    rows: list[Row],
    order: Order,
    seconds: float,
    out: Path | None,
    files: list[str],
    times: bool,
    json: bool,
) -> None:
    if json:
        print_json({**rows_document(rows, seconds), "files": files, "passes": order.seconds})
        return
    report(rows, seconds)
    if files:
        console().print(f"{len(files)} files in {out}", markup=False)
    if times:
        spent = sorted(order.seconds.items(), key=lambda pair: -pair[1])
        print_table(("pass", "seconds"), [(name, f"{s:.3f}") for name, s in spent])
