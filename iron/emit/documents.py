"""Artefacts made of the whole manifest: the manifest itself and hosts in other languages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from iron.emit.c_host import c_host
from iron.emit.directory import MANIFEST
from iron.emit.manifest import dumps

Manifest = Mapping[str, Any]

DOCUMENTS: Final[dict[str, Callable[[Manifest], Mapping[str, str]]]] = {
    "manifest": lambda found: {MANIFEST: dumps(found)},
    "c": c_host,
}
"""From kind to the texts by path; the manifest is written always."""

KINDS: Final = ("ir", *DOCUMENTS)
"""Kinds of artefact that belong to no target."""


def documents(found: Manifest, kinds: Collection[str]) -> dict[str, str]:
    """The texts of `kinds` by path."""
    return {
        path: text
        for kind, make in DOCUMENTS.items()
        if kind in kinds or kind == "manifest"
        for path, text in make(found).items()
    }
