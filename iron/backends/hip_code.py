"""HIP text as a code object of an AMD GPU, made by clang without ROCm."""

from __future__ import annotations

from iron.backends import clang
from iron.backends.clike.render import render
from iron.backends.cuda_code import Code, entry_name, fields
from iron.backends.hip import HIP
from iron.ir.core import Kernel
from iron.passes.scalarise import scalarise
from iron.targets.target import Target

_FLAGS = (
    *("-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib"),
    *("-std=c++17", "-O3", "-mcode-object-version=5", "-ffp-contract=off"),
    "-fuse-cuid=none",  # a digest of the file's path
)


def code_of(kernel: Kernel) -> Code:
    """The text of a lowered kernel for waves of the width it was read at, and its arguments."""
    symbol = entry_name(kernel)
    text = render(scalarise(kernel), HIP[kernel.simd], symbol)
    return Code(kernel.name, symbol, text, fields(kernel), kernel.threads)


def flags(target: Target) -> tuple[str, ...]:
    """What clang is called with."""
    wide = ("-mwavefrontsize64",) if target.attributes == "wavefrontsize64" else ()
    return (*_FLAGS, f"--offload-arch={target.cpu}", *wide)


def compile_text(source: str, target: Target, name: str = "kernel") -> bytes:
    """The code object. Raises E0603 without clang, E0901 with what clang says."""
    return clang.compiled(source, ".hip", flags(target), name)
