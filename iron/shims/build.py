"""What runs on fibres, compiled for this processor: the runtime and units, kept in the cache."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from iron.backends import clang
from iron.runtime.cache import Cache

FOLDER = Path(__file__).parent

_SHARED = ("-std=c++17", "-fPIC", "-shared", "-fuse-ld=lld", "-fno-exceptions", "-fno-rtti")
RUNTIME = (*_SHARED, "-O2")

# Traps that need no library: what C leaves undefined may not happen in generated text.
_CHECKS = "bounds,signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow"
_UNIT = (
    *(*_SHARED, "-O1", "-nostdlib", "-ffp-contract=off", "-fno-math-errno", "-fsigned-char"),
    *("-fno-strict-aliasing", "-w", f"-fsanitize={_CHECKS}", "-fsanitize-trap=all"),
    *("-mllvm", "-ubsan-unique-traps"),  # a trap of its own for each line
)
_LEVELS = {"x86_64": ("-march=x86-64-v3",)}
LINES = "-gline-tables-only"


def unit_flags() -> tuple[str, ...]:
    """How a unit is compiled for this machine: IEEE arithmetic, nothing contracted."""
    return (*_UNIT, *_LEVELS.get(platform.machine(), ()))


def built(text: str, flags: Sequence[str], store: Cache | None, name: str) -> bytes:
    """The library that `text` becomes. It may include the headers beside this module."""
    key = digest(text, flags)
    held = store.get(key) if store is not None else None
    if held is None:
        held = clang.compiled(text, ".cpp", (*flags, f"-I{FOLDER}"), name)
        if store is not None:
            store.put(key, held, {"kernel": name, "kind": "fibres"})
    return held


def digest(text: str, flags: Sequence[str]) -> str:
    """A digest of everything a library depends on."""
    parts = ["fibres", clang.identity(), _headers(), list(flags), text, platform.machine()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def _headers() -> str:
    total = hashlib.sha256()
    for file in sorted(FOLDER.glob("*.h")):
        total.update(f"{file.name}\0".encode() + file.read_bytes())
    return total.hexdigest()
