"""What Iron can emit code for: one row a family of targets, and how a kernel becomes its files.

A target is named `family` or `family:architecture`, as in `cuda:sm_90a`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from iron.backends.clike.render import render
from iron.backends.cpu import machine
from iron.backends.cpu.entry import compile_kernel
from iron.backends.cuda import CUDA
from iron.emit import abi
from iron.errors import error
from iron.ir.core import Kernel
from iron.passes.scalarise import scalarise
from iron.targets import cpu
from iron.targets.target import Target

Make = Callable[[Kernel, Target, str, Collection[str]], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True)
class Family:
    """Targets that share their code generator.

    `kinds` maps each kind of artefact to the suffixes of its files, `text` names the one that a
    person reads. `make` gives the files that have one of the wanted suffixes, from a lowered
    kernel, the target and the symbol. `target` finds a target by architecture (None: no such),
    the first of `architectures` is the default. `fields` is how arguments reach the code.
    """

    name: str
    kinds: Mapping[str, tuple[str, ...]]
    text: str
    architectures: tuple[str, ...]
    target: Callable[[str], Target | None]
    make: Make
    fields: Callable[[Kernel], Sequence[abi.Field]]
    ready: Callable[[Collection[str]], None] = field(default=lambda kinds: None)


@dataclass(frozen=True, slots=True)
class Destination:
    """A family and one architecture of it."""

    family: Family
    architecture: str
    target: Target

    @property
    def name(self) -> str:
        """`family:architecture`, or the family where it has no architectures."""
        return f"{self.family.name}:{self.architecture}" if self.architecture else self.family.name

    def path(self, symbol: str, suffix: str) -> str:
        """Where a file lies in the artefact directory: `cuda/iron_copy_f32_1a2b3c4d.sm_90a.ptx`."""
        middle = f".{self.architecture}" if self.architecture else ""
        return f"{self.family.name}/{symbol}{middle}{suffix}"


# --- CPU ------------------------------------------------------------------------------------------

NATIVE: Final = "native"


def _cpu_target(architecture: str) -> Target | None:
    return machine.host() if architecture == NATIVE else cpu.LEVELS.get(architecture)


def _cpu_level() -> str:
    """What objects are made for unless a level is asked for: what every machine like this runs."""
    arm = platform.machine().lower() in ("aarch64", "arm64")
    return cpu.AARCH64.name if arm else cpu.X86_64_V3.name


def _cpu(kernel: Kernel, target: Target, symbol: str, wanted: Collection[str]) -> dict[str, bytes]:
    text = compile_kernel(kernel, target, symbol).text
    made = {".ll": text.encode()}
    if ".o" in wanted:
        made[".o"] = machine.object_code(text, target)
    return made


# --- CUDA -----------------------------------------------------------------------------------------

CUDA_SIMD: Final = 32
CUDA_TARGETS: Final = {
    name: Target(name, "gpu", CUDA_SIMD, 1024, kib << 10)
    for name, kib in (("sm_80", 163), ("sm_90a", 227), ("sm_100a", 227))
}


def _cuda(kernel: Kernel, target: Target, symbol: str, wanted: Collection[str]) -> dict[str, bytes]:
    return {".cu": render(scalarise(kernel), CUDA, symbol).source.encode()}


# --- the list -------------------------------------------------------------------------------------

FAMILIES: Final[dict[str, Family]] = {
    family.name: family
    for family in (
        Family(
            "cpu",
            {"llvm": (".ll", ".o")},
            ".ll",
            (_cpu_level(), *(n for n in cpu.LEVELS if n != _cpu_level()), NATIVE),
            _cpu_target,
            _cpu,
            abi.block,
        ),
        Family(
            "cuda",
            {"cuda": (".cu",)},
            ".cu",
            tuple(CUDA_TARGETS),
            CUDA_TARGETS.get,
            _cuda,
            abi.grid,
        ),
    )
}
"""Every family by name."""


def destination(name: str) -> Destination:
    """The target called `name`. E0803 when it does not exist."""
    family_name, _, architecture = name.partition(":")
    family = FAMILIES.get(family_name)
    if family is None:
        raise error("E0803", f"there is no target `{name}`", help=f"targets are {_listed()}")
    chosen = architecture or (family.architectures[0] if family.architectures else "")
    target = family.target(chosen)
    if target is None or (architecture and not family.architectures):
        known = ", ".join(family.architectures) or "none"
        message = f"`{family_name}` has no architecture `{architecture}`"
        raise error("E0803", message, help=f"its architectures are {known}")
    return Destination(family, chosen, target)


def _listed() -> str:
    return ", ".join(
        f"{f.name}:{f.architectures[0]}" if f.architectures else f.name for f in FAMILIES.values()
    )
