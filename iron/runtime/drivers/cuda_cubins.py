"""Cubins by what they are made from: from the cache, or compiled and put there."""

from __future__ import annotations

import hashlib
import json

from iron.backends import nvrtc
from iron.backends.cuda_code import Code
from iron.runtime.cache import Cache
from iron.targets.target import Target


class CubinStore:
    """Remembers machine code in `cache`, which may be None."""

    def __init__(self, cache: Cache | None) -> None:
        self._cache = cache

    def ready(self) -> None:
        """E0603 when NVRTC is missing."""
        nvrtc.version()

    def cubin(self, code: Code, target: Target) -> tuple[bytes, dict[str, int]]:
        """Machine code for `target`, and the registers and bytes it takes."""
        key = cubin_key(code.text.source, target)
        found = self._cache.read(key) if self._cache is not None else None
        if found is not None:
            meta, cubin = found
            return cubin, {name: int(meta[name]) for name in FACTS}
        made = nvrtc.compile_text(code.text.source, target.name, code.name, code.text.lines)
        facts = {name: int(getattr(made, name)) for name in FACTS}
        if self._cache is not None:
            meta = {"kernel": code.name, "kind": "cubin", "target": target.name, **facts}
            self._cache.put(key, made.cubin, meta)
        return made.cubin, facts


FACTS = ("registers", "spill_bytes", "shared_bytes")


def cubin_key(source: str, target: Target) -> str:
    """A digest of everything machine code depends on."""
    parts = ["cubin", nvrtc.version(), nvrtc.OPTIONS, target.name, source]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
