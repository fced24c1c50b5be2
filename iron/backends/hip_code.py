"""HIP text as a code object of an AMD GPU, made by clang without ROCm."""

from __future__ import annotations

from iron.backends import clang
from iron.targets.target import Target

_FLAGS = (
    *("-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib"),
    *("-std=c++17", "-O3", "-mcode-object-version=5", "-ffp-contract=off"),
    "-fuse-cuid=none",  # a digest of the file's path
)


def flags(target: Target) -> tuple[str, ...]:
    """What clang is called with."""
    wide = ("-mwavefrontsize64",) if target.attributes == "wavefrontsize64" else ()
    return (*_FLAGS, f"--offload-arch={target.cpu}", *wide)


def compile_text(source: str, target: Target, name: str = "kernel") -> bytes:
    """The code object. Raises E0603 without clang, E0901 with what clang says."""
    return clang.compiled(source, ".hip", flags(target), name)
