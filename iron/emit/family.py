"""What a family of targets is to `build`, `emit` and snapshots: names, files, and one function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from iron.emit.forms import Form
from iron.ir.core import Kernel
from iron.targets.target import Target


@dataclass(frozen=True, slots=True)
class Made:
    """Code for one kernel: files by suffix, how arguments reach it, and what is reported of it.

    `facts` are entries of the manifest's record: `arguments`, in order, and what a family adds.
    `resources` is what the target's own compiler says of each entry, such as registers a thread.
    `forms` are further entries for arguments of which more is known, best first.
    """

    files: Mapping[str, bytes]
    facts: Mapping[str, Any]
    resources: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    forms: tuple[Form, ...] = ()


Make = Callable[[Kernel, Target, str, Collection[str]], Made]
"""From a lowered kernel, the target, the symbol, and the suffixes that are wanted."""


def no_tools(kinds: Collection[str]) -> None:
    """Everything is made by Iron itself."""


@dataclass(frozen=True, slots=True)
class Family:
    """Targets that share their code generator.

    `language` is what its text is written in, `text` the suffix of the file that holds it. `kinds`
    maps each kind of artefact to the suffixes of its files; `make` gives at least those asked for.
    `target` finds a target by architecture (None: no such); the first of `architectures` is the
    default. `ready` raises E0603 when a tool that some kinds need is missing.
    """

    name: str
    language: str
    text: str
    kinds: Mapping[str, tuple[str, ...]]
    architectures: tuple[str, ...]
    target: Callable[[str], Target | None]
    make: Make
    ready: Callable[[Collection[str]], None] = no_tools


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
