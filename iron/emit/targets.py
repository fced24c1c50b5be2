"""What Iron can emit code for: one row a family of targets, and how a kernel becomes its files.

A target is named `family` or `family:architecture`, as in `cuda:sm_90a`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from iron.backends import cuda_code, nvrtc
from iron.backends.cpu import machine
from iron.backends.cpu.entry import compile_kernel, layout
from iron.emit.abi import Field
from iron.errors import error
from iron.ir.core import Kernel
from iron.targets import cpu, nvidia
from iron.targets.target import Target


@dataclass(frozen=True, slots=True)
class Made:
    """Files by suffix, and what the target's own compiler reports, such as registers a thread."""

    files: Mapping[str, bytes]
    resources: Mapping[str, int] = field(default_factory=dict[str, int])


Make = Callable[[Kernel, Target, str, Collection[str]], Made]


@dataclass(frozen=True, slots=True)
class Family:
    """Targets that share their code generator.

    `language` is what its text is written in, `text` the suffix of it. `kinds` maps each kind of
    artefact to the suffixes of its files. `make` gives at least the files of the wanted suffixes,
    from a lowered kernel, the target and the symbol. `target` finds a target by architecture
    (None: no such), the first of `architectures` is the default. `fields` is how arguments reach
    the code. `ready` raises E0603 when a tool that these kinds need is missing.
    """

    name: str
    language: str
    text: str
    kinds: Mapping[str, tuple[str, ...]]
    architectures: tuple[str, ...]
    target: Callable[[str], Target | None]
    make: Make
    fields: Callable[[Kernel], Sequence[Field]]
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


def _cpu(kernel: Kernel, target: Target, symbol: str, wanted: Collection[str]) -> Made:
    text = compile_kernel(kernel, target, symbol).text
    files = {".ll": text.encode()}
    if ".o" in wanted:
        files[".o"] = machine.object_code(text, target)
    return Made(files)


# --- CUDA -----------------------------------------------------------------------------------------


def _cuda(kernel: Kernel, target: Target, symbol: str, wanted: Collection[str]) -> Made:
    text = cuda_code.code_of(kernel, symbol).text
    source = {".cu": text.source.encode()}
    if not {".ptx", ".cubin"} & set(wanted):
        return Made(source)
    made = nvrtc.compile_text(text.source, target.name, symbol, text.lines)
    resources = {
        "registers": made.registers,
        "spill_bytes": made.spill_bytes,
        "shared_bytes": made.shared_bytes,
    }
    return Made({**source, ".ptx": made.ptx.encode(), ".cubin": made.cubin}, resources)


def _nvrtc(kinds: Collection[str]) -> None:
    if {"ptx", "cubin"} & set(kinds):
        nvrtc.api()


# --- the list -------------------------------------------------------------------------------------

_FAMILIES = (
    Family(
        "cpu",
        "LLVM IR",
        ".ll",
        {"llvm": (".ll", ".o")},
        (_cpu_level(), *(n for n in cpu.LEVELS if n != _cpu_level()), NATIVE),
        _cpu_target,
        _cpu,
        layout,
    ),
    Family(
        "cuda",
        "CUDA C++",
        ".cu",
        {"cuda": (".cu",), "ptx": (".ptx",), "cubin": (".cubin",)},
        tuple(nvidia.LEVELS),
        nvidia.LEVELS.get,
        _cuda,
        cuda_code.fields,
        _nvrtc,
    ),
)

FAMILIES: Final = {family.name: family for family in _FAMILIES}
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
