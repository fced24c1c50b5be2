"""The generated code of every kernel on every target, kept so that a change of it can be read.

A refactor of the compiler shows an empty difference; anything else shows which texts changed, how.
Texts go by the kernel's alias, so a kernel whose digest changed is still the same kernel.
"""

from __future__ import annotations

import difflib
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from iron import __version__
from iron.errors import error

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class Text:
    """The code of one kernel for one target; its entry is called by the alias."""

    target: str
    alias: str
    symbol: str
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Texts by target and name; `filters` and `dtypes` say which kernels were asked for."""

    texts: Mapping[str, Mapping[str, str]]
    filters: tuple[str, ...] = ()
    dtypes: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A text that is not the same; None where there is none."""

    target: str
    name: str
    before: str | None
    after: str | None

    def unified(self, context: int = 3) -> str:
        """The difference as `diff -u` writes it; for a kernel that came or went, one line."""
        title = f"{self.name} for {self.target}"
        if self.before is None or self.after is None:
            return f"{'+++' if self.before is None else '---'} {title}\n"
        lines = difflib.unified_diff(
            self.before.splitlines(),
            self.after.splitlines(),
            f"before/{title}",
            f"after/{title}",
            n=context,
            lineterm="",
        )
        return "\n".join(lines) + "\n"


def collected(texts: Iterable[Text], filters: tuple[str, ...] = (), dtypes: str = "") -> Snapshot:
    """The snapshot of some texts; kernels that share an alias on a target go by their symbols."""
    held = list({(t.target, t.symbol): t for t in texts}.values())
    bearers = Counter((t.target, t.alias) for t in held)
    out: dict[str, dict[str, str]] = {}
    for t in held:
        name = t.alias if bearers[t.target, t.alias] == 1 else t.symbol
        out.setdefault(t.target, {})[name] = t.text
    return Snapshot(
        {target: dict(sorted(out[target].items())) for target in sorted(out)}, filters, dtypes
    )


def compare(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    """Every text that differs, by target and name."""
    for target in sorted({*before.texts, *after.texts}):
        old, new = before.texts.get(target, {}), after.texts.get(target, {})
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                yield Change(target, name, old.get(name), new.get(name))


def dumps(found: Snapshot) -> bytes:
    """The snapshot as compressed JSON: equal snapshots give equal bytes."""
    document = {
        "schema": SCHEMA,
        "kind": "code",
        "iron": __version__,
        "filters": list(found.filters),
        "dtypes": found.dtypes,
        "texts": found.texts,
    }
    return gzip.compress(json.dumps(document, sort_keys=True).encode(), mtime=0)


def load(path: Path) -> Snapshot:
    """Reads a snapshot. Errors: E0801."""
    try:
        document: Any = json.loads(gzip.decompress(path.read_bytes()))
        if document["schema"] != SCHEMA or document["kind"] != "code":
            raise ValueError(f"schema {document['schema']}")
        return Snapshot(document["texts"], tuple(document["filters"]), document["dtypes"])
    except FileNotFoundError as absent:
        raise error("E0801", f"{path}: {absent.strerror}") from None
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as wrong:
        raise error(
            "E0801", f"{path} is no code snapshot: {wrong}", help="`iron snap --code` writes one"
        ) from None
