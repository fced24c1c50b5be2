"""Apple GPUs by Metal's families; every one runs simdgroups of 32 threads.

Source: Apple, "Metal feature set tables", rows "Maximum threads per threadgroup" and "Maximum
total threadgroup memory allocation".
"""

from __future__ import annotations

from iron.targets.target import Target

SIMD = 32
MAX_THREADS = 1024
SHARED = 32 << 10
MOST_GROUPS = (1 << 32) - 1
"""A group's number is a `uint` of the text."""


def _gpu(family: str, *features: str) -> Target:
    return Target(family, "gpu", SIMD, MAX_THREADS, SHARED, frozenset({"metal", *features}))


APPLE7 = _gpu("apple7")  # M1, A14
APPLE8 = _gpu("apple8")  # M2, A15, A16
APPLE9 = _gpu("apple9")  # M3, M4, A17 Pro

LEVELS = {t.name: t for t in (APPLE7, APPLE8, APPLE9)}
