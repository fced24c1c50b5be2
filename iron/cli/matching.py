"""What the user named and nothing is called: filters, dtypes and peers, with the nearest names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NoReturn

import typer

from iron.bench.peers.record import libraries
from iron.cli.configuration import load
from iron.cli.output import console
from iron.cli.specimen import library
from iron.dtypes import DTYPES
from iron.errors import KernelError, error
from iron.worker.supervise import Lost


def dtypes_of(given: str | None) -> tuple[str, ...]:
    """The dtypes of a list with commas. Errors: E0803 for one that does not exist."""
    found = tuple(d.strip() for d in (given or "").split(",") if d.strip())
    for name in found:
        if name not in DTYPES:
            advice = _near(name, DTYPES) or f"dtypes are {', '.join(DTYPES)}"
            raise error("E0803", f"--dtypes: there is no dtype `{name}`", help=advice)
    return found


def peers_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """The libraries and peers named, or `none`. Errors: E0803 for one that does not exist."""
    known = {"none"}
    for one in libraries():
        known |= {one.name, *(p.name for p in one.peers)}
    for name in given or ():
        if name not in known:
            names = ", ".join(sorted(lib.name for lib in libraries()))
            advice = _near(name, known) or f"libraries are {names}"
            raise error("E0803", f"--peer: there is no library or peer `{name}`", help=advice)
    return tuple(given or ())


def backend_of(name: str, source: str, known: Sequence[str]) -> str:
    """The backend called so. Errors: E0803 when it is none of the known."""
    if name not in known:
        advice = _near(name, known) or f"backends are {', '.join(known)}"
        raise error("E0803", f"{source}: no backend `{name}`", help=advice)
    return name


def unmatched(what: str, filters: Sequence[str], dtypes: str | None, listing: str) -> KernelError:
    """E0803: no kernel or bench is left; `listing` is the command that names all."""
    asked = [" or ".join(f"`{f}`" for f in filters)] if filters else []
    asked += [f"in {dtypes}"] if dtypes else []
    try:
        found, faults = library(load())
    except KernelError:  # what cannot be listed has no near names
        found, faults = {}, []
    missed = [f.partition("[")[0].partition("(")[0] for f in filters]
    near = [_near(name, found) for name in missed if name not in found]
    advice = " ".join([*filter(None, near[:1]), f"`{listing}` names all"])
    notes = tuple(f"cannot be imported: {fault}" for fault in faults)
    return error("E0803", " ".join([f"no {what} matches", *asked]), notes=notes, help=advice)


def ended(lost: Lost) -> NoReturn:
    """Ends the command where its work cannot begin: the backend's own words, or E0803."""
    if lost.kind == "unready":
        console(stderr=True).print(lost.text, markup=False)
        raise typer.Exit(1)
    raise error("E0803", "the kernels cannot be listed", notes=(lost.text,)) from None


def _near(name: str, known: Iterable[str]) -> str:
    """`did you mean ..?`, or nothing."""
    names = list(known)
    close = difflib.get_close_matches(name, names, 3) or [n for n in names if name in n][:3]
    return f"did you mean {' or '.join(f'`{n}`' for n in close)}?" if close else ""
