"""What a generated host needs to know of the manifest's kernels, whatever language it is in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor parameter; `number` counts the tensors of its kernel."""

    record: Mapping[str, Any]
    name: str
    number: int

    @property
    def rank(self) -> int:
        """Its axes."""
        return self.record["rank"]


@dataclass(frozen=True, slots=True)
class HostKernel:
    """A kernel of the manifest with names that the host's language can take."""

    record: Mapping[str, Any]
    names: Mapping[str, str]

    @property
    def alias(self) -> str:
        """What its functions are called by."""
        return self.record["alias"]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensor parameters in order."""
        held = [p for p in self.record["parameters"] if p["role"] == "tensor"]
        return [Tensor(p, self.names[p["name"]], number) for number, p in enumerate(held)]

    @property
    def numbers(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Scalars and dims in order, with their names."""
        held = [p for p in self.record["parameters"] if p["role"] != "tensor"]
        return [(self.names[p["name"]], p) for p in held]

    def name(self, parameter: str) -> str:
        """The host's name of a parameter."""
        return self.names[parameter]

    def number(self, tensor: str) -> int:
        """The place of a tensor among the tensors."""
        return next(t.number for t in self.tensors if t.record["name"] == tensor)

    def forms(self, family: str) -> list[Mapping[str, Any]]:
        """The forms of its code that generated hosts launch, best first; the plain one is not among
        them, nor are those of tensor maps, which a host must encode."""
        target = self.target(family)
        found = list(target["forms"]) if target is not None else []
        return [f for f in found if all(a["kind"] != "map" for a in f["arguments"])]

    def signature(self) -> list[str]:
        """Names and types of the parameters: what alternatives must share to be exchanged."""
        return [f"{p['name']}:{p['role']}:{p['dtype']}" for p in self.record["parameters"]]

    def target(self, family: str) -> Mapping[str, Any] | None:
        """The first record of a target of `family`."""
        found = [t for t in self.record["targets"] if t["target"].split(":")[0] == family]
        return found[0] if found else None

    def preference(self, family: str) -> int:
        """Its place among its alternatives; 0 is tried first."""
        target = self.target(family)
        return target["preference"] if target is not None else 0


def kernels(manifest: Mapping[str, Any], reserved: Collection[str]) -> list[HostKernel]:
    """The kernels in order; a parameter whose name the language or the host uses gets a `_`."""
    return [HostKernel(k, _names(k["parameters"], reserved)) for k in manifest["kernels"]]


def _names(parameters: Sequence[Mapping[str, Any]], reserved: Collection[str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for parameter in parameters:
        name = re.sub(r"\W", "_", parameter["name"])
        while name in reserved or name in made.values():
            name += "_"
        made[parameter["name"]] = name
    return made


def choices(held: Sequence[HostKernel], family: str) -> Iterator[tuple[str, list[HostKernel]]]:
    """Kernels that differ only in a choice, best first, under the name that they share."""
    groups: dict[tuple[str, int], list[HostKernel]] = {}
    for kernel in held:
        if kernel.target(family) is not None:
            key = (kernel.record["choice_of"], kernel.record["launch"]["simd"])
            groups.setdefault(key, []).append(kernel)
    taken = {kernel.alias for kernel in held}
    for (name, _), group in groups.items():
        same = all(k.signature() == group[0].signature() for k in group)
        # Two kernels of one factory are no alternatives of each other.
        ranked = len({k.preference(family) for k in group}) == len(group)
        if len(group) > 1 and same and ranked and name not in taken:
            yield name, sorted(group, key=lambda k: k.preference(family))


def described(kernel: HostKernel) -> list[str]:
    """Lines that say what a kernel computes and which shapes its tensors have."""
    lines = [kernel.record["summary"]]
    for tensor in kernel.tensors:
        sizes = ", ".join(size["text"] for size in tensor.record["shape"])
        access = {"in": "read", "out": "written", "inout": "read and written"}
        lines.append(
            f"{tensor.name}: {tensor.record['dtype']}[{sizes}], {access[tensor.record['access']]}"
        )
    return lines
