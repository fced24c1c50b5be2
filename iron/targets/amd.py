"""AMD GPUs by LLVM's processor names: CDNA runs waves of 64 lanes, RDNA of 32.

Sources: LLVM's AMDGPU usage guide, table "AMDGPU Processors"; AMD's instruction set guides of
CDNA 2, CDNA 3, RDNA 3 and RDNA 4, chapter "Local Data Share" (64 KiB a work-group).
"""

from __future__ import annotations

from dataclasses import replace

from iron.errors import error
from iron.targets.target import Approximation, Target

MAX_THREADS = 1024
SHARED = 64 << 10
MOST_THREADS_OF_A_LAUNCH = (1 << 32) - 1
"""Threads along an axis of one launch: a field of 32 bits in the dispatch packet."""

TRIPLE = "amdgcn-amd-amdhsa"

APPROXIMATIONS = (
    Approximation("fast_exp2", 1.0),  # v_exp_f32
    Approximation("fast_rcp", 1.0),  # v_rcp_f32
    Approximation("fast_rsqrt", 1.0),  # v_rsq_f32
)
"""Source: the instruction set guides, "VOP1 instructions"; subnormal results are 0."""


def _gpu(name: str, wave: int, *features: str) -> Target:
    found = frozenset({"hip", *features})
    return Target(
        name, "gpu", wave, MAX_THREADS, SHARED, found, TRIPLE, name, approximations=APPROXIMATIONS
    )


GFX90A = _gpu("gfx90a", 64, "cdna")
GFX942 = _gpu("gfx942", 64, "cdna")
GFX1100 = _gpu("gfx1100", 32, "rdna")
GFX1201 = _gpu("gfx1201", 32, "rdna")

# Other members of the generations, as far as clang 19 knows them; all as their nearest relative.
_CDNA = ("gfx908", "gfx940", "gfx941")
_RDNA = (
    *("gfx1010", "gfx1011", "gfx1012", "gfx1013", "gfx1030", "gfx1031", "gfx1032", "gfx1033"),
    *("gfx1034", "gfx1035", "gfx1036", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151"),
    *("gfx1152", "gfx1200"),
)

LEVELS = {t.name: t for t in (GFX90A, GFX942, GFX1100, GFX1201)}


def of_architecture(name: str) -> Target:
    """The target of a GPU that LLVM calls `name`. E0603 for one that clang 19 does not know."""
    if name in LEVELS:
        return LEVELS[name]
    if name in _CDNA:
        return _gpu(name, 64, "cdna")
    if name in _RDNA:
        return _gpu(name, 32, "rdna")
    known = ", ".join(sorted({*LEVELS, *_CDNA, *_RDNA}))
    raise error("E0603", f"this GPU is a {name or 'GPU without a name'}", help=f"known are {known}")


def wide(target: Target) -> Target:
    """An RDNA GPU that runs waves of 64 lanes."""
    return replace(target, simd=64, attributes="wavefrontsize64")
