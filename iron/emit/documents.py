"""Artefacts made of the whole manifest: the manifest itself and hosts in other languages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from iron.emit.c_host import c_host
from iron.emit.directory import MANIFEST
from iron.emit.manifest import dumps
from iron.emit.swift_host import swift_host

Manifest = Mapping[str, Any]

METALLIB: Final = """#!/bin/sh
# Makes kernels.metallib of the kernels beside this script; needs the Metal tools of Xcode.
set -e
cd "$(dirname "$0")"
for source in *.metal; do
  xcrun -sdk macosx metal -std=metal3.1 -fno-fast-math -c "$source" -o "${source%.metal}.air"
done
xcrun -sdk macosx metallib ./*.air -o kernels.metallib
rm -f ./*.air
"""


def _has_metal(found: Manifest) -> bool:
    return any(t["target"].startswith("metal") for k in found["kernels"] for t in k["targets"])


DOCUMENTS: Final[dict[str, Callable[[Manifest], Mapping[str, str]]]] = {
    "manifest": lambda found: {MANIFEST: dumps(found)},
    "c": c_host,
    "swift": swift_host,
    "metallib": lambda found: {"metal/build.sh": METALLIB} if _has_metal(found) else {},
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
