"""One kernel for one target: lowered, rendered, compiled, and recorded for the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from iron.analysis.budget import check_budget
from iron.compiler import lower
from iron.emit import forms
from iron.emit.family import Destination
from iron.emit.manifest import Specialised, entry
from iron.ir.text import print_kernel


@dataclass(frozen=True, slots=True)
class Built:
    """The manifest's record of a kernel with this one target, the files by path, and the seconds
    of each pass and of the backend."""

    record: Mapping[str, Any]
    files: Mapping[str, bytes]
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])


def build(of: Specialised, to: Destination, kinds: Collection[str]) -> Built:
    """The artefacts of `kinds`; other kinds of the target are not made.

    Errors: what lowering and the backend report, E0501 for more group memory than the target has.
    """
    seconds: dict[str, float] = {}
    symbol = of.symbol
    lowered = lower(of.kernel, to.target, seconds)
    check_budget(lowered, to.target)
    wanted = {s: kind for kind, ends in to.family.kinds.items() if kind in kinds for s in ends}
    started = perf_counter()
    made = to.family.make(lowered, to.target, symbol, wanted)
    seconds[to.family.name] = perf_counter() - started
    files = {to.path(symbol, s): (kind, made.files[s]) for s, kind in wanted.items()}
    if "ir" in kinds:
        files[f"ir/{symbol}.ir"] = ("ir", print_kernel(of.kernel).encode())
    whole = entry(of)
    record = {
        "target": to.name,
        "features": sorted(to.target.features),
        "preference": preference(of, to),
        **made.facts,
        "resources": dict(made.resources.get(symbol, {})),
        "forms": [
            forms.record(f, lowered, whole["parameters"], made.resources.get(f.code.symbol, {}))
            for f in made.forms
        ],
        "files": [_file(kind, path, data) for path, (kind, data) in sorted(files.items()) if data],
    }
    whole["targets"] = [record]
    return Built(whole, {p: data for p, (_, data) in files.items() if data}, seconds)


def text(of: Specialised, to: Destination) -> str:
    """What a person reads of the generated code, its entry called by the kernel's alias."""
    suffix = to.family.text
    made = to.family.make(lower(of.kernel, to.target), to.target, of.alias, (suffix,))
    return made.files[suffix].decode()


def preference(of: Specialised, to: Destination) -> int:
    """The place of the kernel's choice in its order for the target; 0 is tried first."""
    consts = of.binding.consts
    orders = of.declared.choices(to.target.family)
    mine = {name: consts[name] for name in of.declared.choose}
    return orders.index(mine) if mine in orders else 0


def _file(kind: str, path: str, data: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    return {"kind": kind, "path": path, "bytes": len(data), "sha256": digest}
