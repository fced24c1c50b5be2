"""A peer: how one library computes what a kernel computes, from the same arrays."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iron.check.tolerance import Array
from iron.dtypes import DType

PRODUCT = "matrix product"
"""What a peer that is the ceiling of matrix units computes; no kernel is called so."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The call that a peer is to match.

    `arguments` are those of the kernel, on the host; `outputs` are arrays of the peer's own, to be
    reused in each call. `device` is the kind of memory, `threads` what the kernel may use of a CPU.
    """

    arguments: Mapping[str, Any]
    outputs: Mapping[str, Array]
    dtypes: Mapping[str, DType]
    consts: Mapping[str, Any]
    device: str
    threads: int

    def __getattr__(self, name: str) -> Any:
        """An argument by its name."""
        try:
            return self.arguments[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call to time and what it left, by output; `rounds` as in `verify.allowance`."""

    call: Callable[[], Any]
    results: Callable[[], Mapping[str, Array]]
    rounds: DType | float | None = None


Make = Callable[[Subject], Attempt | None]


@dataclass(frozen=True, slots=True)
class Peer:
    """One way of one library; `make` returns None where it does not apply."""

    name: str
    kernel: str
    make: Make


@dataclass(slots=True)
class Library:
    """A library's peers, and its version where it can be used on a device of this kind."""

    name: str
    version: Callable[[str], str | None]
    peers: list[Peer] = field(default_factory=list[Peer])

    def peer(self, kernel: str, name: str = "") -> Callable[[Make], Make]:
        """Decorator: a peer of `kernel`, called after the library unless it has a name."""

        def add(make: Make) -> Make:
            self.peers.append(Peer(name or self.name, kernel, make))
            return make

        return add


def libraries() -> list[Library]:
    """All libraries of this folder, installed or not, by name."""
    folder = Path(__file__).parent
    names = sorted(m.name for m in pkgutil.iter_modules([str(folder)]) if m.name != "record")
    return [importlib.import_module(f"{__package__}.{name}").LIBRARY for name in names]


def peers_of(kernel: str, device: str, wanted: tuple[str, ...]) -> list[tuple[Peer, str]]:
    """The peers of a kernel that are installed, with versions; `wanted` names libraries or peers.

    Nothing wanted means all, `none` none.
    """
    found: list[tuple[Peer, str]] = []
    for library in libraries():
        matching = [p for p in library.peers if p.kernel == kernel]
        if wanted:
            matching = [p for p in matching if p.name in wanted or library.name in wanted]
        version = library.version(device) if matching else None
        if version is not None:
            found += [(p, version) for p in matching]
    return found
