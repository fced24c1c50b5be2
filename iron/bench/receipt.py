"""Receipts: what ran where, kept in the repository and written by this program alone.

One file a device and backend, `<folder>/<device>/<backend>.json`; the folder is the project's
`baselines` unless another is given. It holds the machine, the commit, the date and each kernel's
verdict, error and timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from iron.bench.snapshot import Document, parse, save, slug
from iron.bench.tree import git

LEVELS: Final = {"ran": "ran here", "compiled": "compiled only", "emitted": "emitted only"}


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt and the folder it lies in."""

    device: str
    document: Document

    @property
    def backend(self) -> str:
        """The backend it is of."""
        return self.document["backend"]

    @property
    def level(self) -> str:
        """`ran`, `compiled` or `emitted`."""
        return self.document.get("level", "ran")


def path_of(folder: Path, machine: Mapping[str, Any], backend: str) -> Path:
    """Where in a folder of receipts that of a machine and backend lies."""
    return folder / slug(machine) / f"{backend}.json"


def write(folder: Path, found: Document, level: str = "ran") -> Path:
    """Writes a run as the receipt of its machine. Errors: E0802.

    Rows of an earlier receipt of the same commit stay where this run has none, so that a device can
    be measured in parts.
    """
    path = path_of(folder, found["machine"], found["backend"])
    made = {**found, "level": level}
    if path.exists():
        made = _joined(parse(path.read_text("utf-8"), str(path)), made)
    save(made, path)
    return path


def _joined(old: Document, new: Document) -> Document:
    if old["commit"] != new["commit"] or old["dirty"] or new["dirty"]:
        return new
    out = dict(new)
    for part in ("rows", "faults"):
        mine = {_key(r) for r in (*new["rows"], *new["faults"])}
        out[part] = [r for r in old[part] if _key(r) not in mine] + new[part]
    return out


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(n, "")) for n in ("kernel", "tags", "shape", "cache"))


def receipts(folder: Path) -> Iterator[Receipt]:
    """All receipts of a folder, by device and backend."""
    for path in sorted(folder.glob("*/*.json")):
        yield Receipt(path.parent.name, parse(path.read_text("utf-8"), str(path)))


def committed(folder: Path, machine: Mapping[str, Any], backend: str, ref: str) -> Document | None:
    """The receipt of a machine and backend as `ref` has it; None where there is none."""
    path = path_of(folder, machine, backend).relative_to(folder.parent).as_posix()
    text = git(folder.parent, "show", f"{ref}:./{path}")
    return None if text is None else parse(text, f"{ref}:{path}")
