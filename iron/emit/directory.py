"""An artefact directory that is there whole or not at all.

Everything is written beside it and takes its place by renaming.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from iron.errors import error

MANIFEST = "manifest.json"


@contextmanager
def replacing(out: Path) -> Generator[Path]:
    """A folder to write into, which becomes `out` when the block ends without an exception.

    An older artefact directory is replaced. Errors: E0802 when `out` is something else that holds
    anything, or cannot be written; nothing is changed then.
    """
    place = out.resolve()
    _check(place, out)
    staging = place.parent / f".{place.name}.{secrets.token_hex(4)}.partial"
    try:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            staging.mkdir()
            yield staging
            _publish(staging, place)
        except OSError as wrong:
            raise error("E0802", f"{out}: {wrong.strerror or wrong}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def write(folder: Path, path: str, data: bytes) -> None:
    """A file below `folder`, with the folders above it."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def _check(place: Path, shown: Path) -> None:
    if not place.exists() or (place.is_dir() and (not any(place.iterdir()) or _is_ours(place))):
        return
    raise error(
        "E0802",
        f"{shown} exists and is no artefact directory",
        help="name a new or empty folder, or one that `iron emit` wrote",
    )


def _is_ours(place: Path) -> bool:
    try:
        found: Any = json.loads((place / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"schema", "iron", "kernels"} <= set(found)  # pyright: ignore[reportUnknownArgumentType]


def _publish(staging: Path, place: Path) -> None:
    if not place.exists():
        os.replace(staging, place)
        return
    old = staging.with_suffix(".old")
    os.replace(place, old)
    try:
        os.replace(staging, place)
    except OSError:
        with suppress(OSError):
            os.replace(old, place)
        raise
    shutil.rmtree(old, ignore_errors=True)
