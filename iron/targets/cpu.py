"""The CPU targets: instruction-set levels as data, and what a host's feature list amounts to.

x86-64 needs AVX2, FMA and F16C (level x86-64-v3): without them a fused multiply-add or a 16-bit
float conversion would be a library call.
"""

from __future__ import annotations

from collections.abc import Collection

from iron.errors import error
from iron.targets.target import Approximation, Target

SIMD = 32
MAX_THREADS = 1024
SHARED_BYTES = 768 * 1024
"""A group's arrays lie on the stack of its thread: of 1 MiB, where a system gives least."""

X86_REQUIRED = ("avx2", "fma", "f16c", "bmi2", "popcnt", "lzcnt")
AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd")
EXTRA = (
    "avx512vbmi",
    "avx512vnni",
    "avx512bf16",
    "avx512vpopcntdq",
    "avxvnni",
    "neon",
    "dotprod",
    "amx-bf16",
)

X86_STREAMS = 4
"""Of the copy of 256 MiB on two cores of a Xeon, 40 GB/s from one place a core, 47 from four."""

APPROXIMATIONS = (
    Approximation("fast_exp2", 3.0),
    Approximation("fast_rcp", 1.5),
    Approximation("fast_rsqrt", 1.5),
)
"""Of AVX-512, whose estimates err by less than 2^-14, after one step of refinement."""


def cpu_target(
    name: str,
    triple: str,
    cpu: str,
    have: Collection[str],
    attributes: str = "",
    simd: int = SIMD,
) -> Target:
    """The target of a CPU whose instruction-set extensions are `have`, named as LLVM names them.

    Raises E0603 for an x86-64 CPU below level x86-64-v3.
    """
    if triple.startswith(("x86_64", "i686")):
        missing = [f for f in X86_REQUIRED if f not in have]
        if missing:
            raise error(
                "E0603",
                f"this CPU lacks {', '.join(missing)}",
                help="the CPU backend needs AVX2, FMA and F16C (x86-64-v3)",
            )
    features = {f for f in EXTRA if f in have}
    if all(f in have for f in AVX512):
        features.add("avx512")
    return Target(
        name,
        "cpu",
        simd,
        MAX_THREADS,
        SHARED_BYTES,
        frozenset(features),
        triple,
        cpu,
        attributes,
        APPROXIMATIONS if "avx512" in features else (),
        streams=X86_STREAMS if triple.startswith("x86_64") else 1,
    )


LINUX = "x86_64-unknown-linux-gnu"
X86_64_V3 = cpu_target("x86-64-v3", LINUX, "x86-64-v3", X86_REQUIRED)
X86_64_V4 = cpu_target("x86-64-v4", LINUX, "x86-64-v4", (*X86_REQUIRED, *AVX512))
AARCH64 = cpu_target("aarch64", "aarch64-unknown-linux-gnu", "generic", ("neon",))

LEVELS = {t.name: t for t in (X86_64_V3, X86_64_V4, AARCH64)}
