"""HIP text as a code object of an AMD GPU, made by clang without ROCm."""

from __future__ import annotations

from collections.abc import Iterator

from iron.backends import clang
from iron.backends import forms as general
from iron.backends.cuda_code import Code, code_of
from iron.backends.forms import Form
from iron.backends.hip import HIP
from iron.ir.core import Kernel
from iron.targets.target import Target

_FLAGS = (
    *("-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib"),
    *("-std=c++17", "-O3", "-mcode-object-version=5", "-ffp-contract=off"),
    "-fuse-cuid=none",  # a digest of the file's path
)


def forms(kernel: Kernel) -> Iterator[Form[Code]]:
    """The forms of a lowered kernel, best first, for waves of the width it was read at."""
    dialect = HIP[kernel.simd]
    return general.forms(
        kernel, lambda body, wide: code_of(body, wide=frozenset(wide), dialect=dialect)
    )


def flags(target: Target) -> tuple[str, ...]:
    """What clang is called with."""
    wide = ("-mwavefrontsize64",) if target.attributes == "wavefrontsize64" else ()
    return (*_FLAGS, f"--offload-arch={target.cpu}", *wide)


def compile_text(source: str, target: Target, name: str = "kernel") -> bytes:
    """The code object. Raises E0603 without clang, E0901 with what clang says."""
    return clang.compiled(source, ".hip", flags(target), name)
