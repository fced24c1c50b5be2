"""One record that says what a target can do; passes and backends ask it and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from iron.errors import error
from iron.targets.atoms.opaque import OpaqueAtom


@dataclass(frozen=True, slots=True)
class Approximation:
    """An instruction that answers for the op `op`: its largest error in ulp, as the vendor says."""

    op: str
    ulp: float


@dataclass(frozen=True, slots=True)
class Target:
    """A machine as the compiler sees it.

    `family` is `cpu` or `gpu` and selects the order of a kernel's `choose`. `simd` is the width of
    a simdgroup, `max_threads` the largest group, `shared_bytes` the largest sum of a group's
    shared arrays. `features` are names that passes and backends test with `has`. `triple`, `cpu`
    and `attributes` identify the instruction set to a code generator. `approximations` are the
    functions of the `fast_` kind that the target computes itself; others become their bodies.
    `matrices` are the products of opaque matrices that its simdgroups compute. `streams` are the
    places, a power of two, that a core reads at once when it fills its share of the memory's rate.
    """

    name: str
    family: str
    simd: int
    max_threads: int
    shared_bytes: int
    features: frozenset[str] = frozenset()
    triple: str = ""
    cpu: str = ""
    attributes: str = ""
    approximations: tuple[Approximation, ...] = ()
    matrices: tuple[OpaqueAtom, ...] = ()
    streams: int = 1

    def has(self, feature: str) -> bool:
        """True when the target has the feature called `feature`."""
        return feature in self.features

    @property
    def approximated(self) -> frozenset[str]:
        """The names of the ops in `approximations`."""
        return frozenset(a.op for a in self.approximations)

    def need(self, feature: str, what: str) -> None:
        """Raises E0602 unless the target has `feature`; `what` names who needs it."""
        if not self.has(feature):
            told = f"{what} needs `{feature}`, which {self.cpu or self.name} does not have"
            raise error("E0602", told, help="use another device: `iron device` lists what each has")
