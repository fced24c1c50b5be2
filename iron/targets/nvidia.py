"""NVIDIA GPUs by compute capability, as NVRTC's architecture names.

Source: CUDA C++ Programming Guide 13.0, table "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from iron.errors import error
from iron.targets.target import Approximation, Target

SIMD = 32
MAX_THREADS = 1024
STATIC_SHARED = 48 << 10
"""Bytes of group memory a kernel may declare; what goes beyond is asked for at the launch."""
MOST_GROUPS = (1 << 31) - 1
"""Blocks of a grid along x; 65535 along y."""
EARLY_THREADS = 384 * 132
"""Threads of the largest launch that may begin while the one before it ends; see `iron_take_turn`.

Asking for the next launch costs each block of a large one half a microsecond: a copy of 512 MiB in
short blocks fell from 4.3 to 3.4 TB/s on an H200.
"""

FEATURES = frozenset({"cuda", "fast_products", "integer_dot", "simd_mma"})
"""`fast_products`: one takes less time than what kernels compute between two of them."""

APPROXIMATIONS = (
    Approximation("fast_exp2", 2.0),  # ex2.approx.ftz
    Approximation("fast_rcp", 1.0),  # rcp.approx.ftz
    Approximation("fast_rsqrt", 2.0),  # rsqrt.approx.ftz: 2^-22.9 of the result
)
"""Source: PTX ISA 9.0, "Floating Point Instructions"; subnormal operands and results are 0."""


def _gpu(name: str, shared_kib: int, *features: str) -> Target:
    return Target(
        name, "gpu", SIMD, MAX_THREADS, shared_kib << 10, FEATURES.union(features),
        cpu=name, approximations=APPROXIMATIONS,
    )  # fmt: skip


SM_80 = _gpu("sm_80", 163)
SM_90A = _gpu("sm_90a", 227, "sm_90")
SM_100A = _gpu("sm_100a", 227, "sm_100")

# KiB of group memory of the other members of each generation.
_OTHERS = {
    "sm_86": 99,
    "sm_87": 163,
    "sm_88": 99,
    "sm_89": 99,
    "sm_103a": 227,
    "sm_110a": 227,
    "sm_120a": 99,
    "sm_121a": 99,
}

LEVELS = {
    **{t.name: t for t in (SM_80, SM_90A, SM_100A)},
    **{name: _gpu(name, kib) for name, kib in _OTHERS.items()},
}


def of_capability(major: int, minor: int) -> Target:
    """The target of a GPU of compute capability `major.minor`. E0603 below 8.0."""
    number = 10 * major + minor
    name = f"sm_{number}{'a' if major >= 9 else ''}"
    if name in LEVELS:
        return LEVELS[name]
    raise error(
        "E0603",
        f"this GPU has compute capability {major}.{minor}",
        help="the CUDA backend needs 8.0 or later, as far as NVRTC 13.0 knows it",
    )
