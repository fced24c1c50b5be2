"""AMD code objects by what they are made from: from the cache, or compiled and put there."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from iron.backends import clang, hip_code
from iron.backends.code_object import resources
from iron.backends.cuda_code import Code
from iron.runtime.cache import Cache
from iron.targets.target import Target


class ObjectStore:
    """Remembers machine code in `cache`, which may be None."""

    def __init__(self, cache: Cache | None) -> None:
        self._cache = cache

    def ready(self) -> None:
        """E0603 when clang is missing."""
        clang.compiler()

    def code_object(self, code: Code, target: Target) -> tuple[bytes, dict[str, int]]:
        """Machine code for `target`, and the registers and bytes it takes."""
        key = object_key(code.text.source, target)
        found = self._cache.get(key) if self._cache is not None else None
        if found is None:
            found = hip_code.compile_text(code.text.source, target, code.name)
            if self._cache is not None:
                meta = {"kernel": code.name, "kind": "hsaco", "target": target.name}
                self._cache.put(key, found, meta)
        return found, facts(found)


def facts(code: bytes) -> dict[str, int]:
    """Registers a thread, registers spilled, bytes of group memory."""
    (kernel,) = resources(code)
    told = asdict(kernel)
    return {_NAMES[n]: told[n] for n in _NAMES}


_NAMES = {
    "vector_registers": "registers",
    "scalar_registers": "scalar_registers",
    "spilled_registers": "spilled_registers",
    "shared_bytes": "shared_bytes",
}


def object_key(source: str, target: Target) -> str:
    """A digest of everything machine code depends on."""
    parts = ["hsaco", clang.identity(), hip_code.flags(target), source]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
