"""A run on disk: the machine, the commit, the ceilings and the rows, as one JSON document.

`iron bench -o`, `iron snap` and receipts share it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from iron.bench import ceilings as ceilings_of
from iron.bench.metrics import Figures, figures, flat
from iron.bench.tree import Tree
from iron.errors import KernelError, error
from iron.quant.atomic import replace
from iron.runtime import device

SCHEMA: Final = 1

Document = dict[str, Any]


def document(
    backend: str,
    rows: Sequence[Mapping[str, Any]],
    faults: Sequence[Mapping[str, str]],
    machine: Mapping[str, Any],
    tree: Tree,
    note: str = "",
) -> Document:
    """The document of a run; `faults` are the benches without figures."""
    top = ceilings_of.best([ceilings_of.read(r["ceilings"]) for r in rows]) if rows else None
    made: Document = {
        "schema": SCHEMA,
        "backend": backend,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": tree.commit,
        "dirty": tree.dirty,
        "note": note,
        "machine": dict(machine),
        "ceilings": top.document() if top else None,
        "rows": [dict(r) for r in rows],
        "faults": [dict(f) for f in faults],
    }
    for row, (found, doubts) in zip(made["rows"], derived(made), strict=True):
        row["figures"] = _derived(found, doubts)
    return made


def derived(found: Document) -> list[tuple[Figures, tuple[str, ...]]]:
    """The figures of every row, and its doubts with those that only all rows together raise."""
    if not found["rows"]:
        return []
    top = ceilings_of.read(found["ceilings"])
    level = flat(found["rows"])
    out: list[tuple[Figures, tuple[str, ...]]] = []
    for at, row in enumerate(found["rows"]):
        of_row = figures(row, top)
        out.append((of_row, of_row.doubts + ((level[at],) if at in level else ())))
    return out


def _derived(found: Figures, doubts: tuple[str, ...]) -> dict[str, Any]:
    plain = ("rate", "gflops", "bandwidth", "arithmetic", "intensity", "limit", "share", "apart")
    return {
        **{name: getattr(found, name) for name in (*plain, "bottleneck", "ratio", "verdict")},
        "near_limit": found.near,
        "peer": found.best.name if found.best else None,
        "doubts": list(doubts),
    }


def name_of(row: Mapping[str, Any]) -> str:
    """How a row is known from run to run: `softmax[f32](R=4096,N=4096) cold`."""
    return f"{row['kernel']}[{row['tags']}]({row['shape']}) {row['cache']}"


def save(found: Document, path: Path) -> None:
    """Writes the document. Errors: E0802."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise error("E0802", f"{path.parent}: {problem.strerror or problem}") from None
    with replace(path) as out:
        out.write(text_of(found).encode())


def text_of(found: Document) -> str:
    """The document as text, a line a value, floats in seven digits."""
    return json.dumps(_short(found), indent=1, sort_keys=True) + "\n"


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, Mapping):
        return {k: _short(v) for k, v in value.items()}
    return [_short(v) for v in value] if isinstance(value, list | tuple) else value


def load(path: Path) -> Document:
    """Reads a document. Errors: E0801 for a file that is none, or of another version."""
    try:
        text = path.read_text("utf-8")
    except OSError as problem:
        raise error("E0801", f"{path}: {problem.strerror or problem}") from None
    except UnicodeDecodeError as problem:
        raise _no_snapshot(str(path), str(problem)) from None
    return parse(text, str(path))


def parse(text: str, source: str) -> Document:
    """The document in `text`; `source` names it in errors. Errors: E0801."""
    try:
        found = json.loads(text)
    except ValueError as problem:
        raise _no_snapshot(source, str(problem)) from None
    if not isinstance(found, dict) or "rows" not in found:
        raise _no_snapshot(source, "it holds no rows")
    if found.get("schema") != SCHEMA:
        raise _no_snapshot(source, f"it has schema {found.get('schema')}, not {SCHEMA}")
    return found


def _no_snapshot(source: str, why: str) -> KernelError:
    return error(
        "E0801",
        f"{source} is no snapshot: {why}",
        help="`iron bench -o FILE` and `iron snap` write snapshots",
    )


def slug(machine: Mapping[str, Any]) -> str:
    """The machine's name for a folder: `amd-epyc-9b14`."""
    return device.slug(str(machine.get("device", "unknown")))
