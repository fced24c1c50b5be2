"""Object code by what it is made from: from the cache, or compiled and put there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import iron
from iron.backends.cpu.machine import PASSES, Linked, link, object_code, version
from iron.targets.target import Target

MAKERS = ("backends/cpu", "analysis", "ir", "targets", "dtypes.py")
"""The sources, below the package, that decide what code a kernel becomes."""


class ObjectCache(Protocol):
    """Where object code is kept between processes."""

    def get(self, key: str) -> bytes | None:
        """The payload stored under `key`, or None."""
        ...

    def put(self, key: str, payload: bytes, meta: Mapping[str, Any] | None = None) -> bool:
        """Stores a payload; False when it could not."""
        ...


class ObjectStore:
    """Compiles for one target and remembers in `cache`, which may be None."""

    def __init__(self, target: Target, cache: ObjectCache | None) -> None:
        self._target = target
        self._cache = cache

    def linked(
        self,
        source: str,
        name: str,
        text: Callable[[], str],
        *symbols: str,
        imports: Mapping[str, int] | None = None,
    ) -> Linked:
        """The module `text()` in memory; `source` stands for it in the cache's key.

        A cached object that cannot be linked is compiled again.
        """
        key = object_key(source, self._target)
        code = self._cache.get(key) if self._cache is not None else None
        if code is not None:
            try:
                return link(code, *symbols, imports=imports)
            except RuntimeError:
                pass
        code = object_code(text(), self._target)
        if self._cache is not None:
            self._cache.put(key, code, {"kernel": name, "kind": "cpu-object"})
        return link(code, *symbols, imports=imports)


def object_key(source: str, target: Target) -> str:
    """A digest of everything object code depends on."""
    machine = [target.triple, target.cpu, target.attributes, sorted(target.features)]
    parts = ["cpu", list(PASSES), version(), maker(), machine, source]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def maker() -> str:
    """A digest of the sources that make the code: an edited compiler never meets old code."""
    root = Path(iron.__file__).parent
    total = hashlib.sha256()
    for part in MAKERS:
        at = root / part
        for file in sorted(at.rglob("*.py")) if at.is_dir() else [at]:
            total.update(f"{file.relative_to(root)}\0".encode())
            total.update(file.read_bytes())
    return total.hexdigest()
