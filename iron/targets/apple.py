"""Apple GPUs by Metal's families; every one runs simdgroups of 32 threads.

Source: Apple, "Metal feature set tables", rows "Maximum threads per threadgroup" and "Maximum
total threadgroup memory allocation".
"""

from __future__ import annotations

from iron.dtypes import bf16, f16, f32
from iron.targets.atoms.opaque import OpaqueAtom
from iron.targets.target import Target

SIMD = 32
MAX_THREADS = 1024
SHARED = 32 << 10
MOST_GROUPS = (1 << 32) - 1
"""A group's number is a `uint` of the text."""


MATRICES = tuple(OpaqueAtom(8, 8, 8, t, t, f32) for t in (f16, bf16, f32))
"""`simdgroup_matrix`: every family has it (Metal feature sets); bfloat since Metal 3.1."""


def _gpu(family: str, *features: str) -> Target:
    found = frozenset({"metal", *features})
    return Target(family, "gpu", SIMD, MAX_THREADS, SHARED, found, matrices=MATRICES)


APPLE7 = _gpu("apple7")  # M1, A14
APPLE8 = _gpu("apple8")  # M2, A15, A16
APPLE9 = _gpu("apple9")  # M3, M4, A17 Pro

LEVELS = {t.name: t for t in (APPLE7, APPLE8, APPLE9)}
