"""Products of matrices whose layout a device keeps to itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iron.dtypes import DType


@dataclass(frozen=True, slots=True)
class OpaqueAtom:
    """acc (m x n) += a (m x k) @ b (k x n), held by a simdgroup in an order of the device's."""

    m: int
    n: int
    k: int
    a: DType
    b: DType
    accumulator: DType
    saturating: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """The order of preference: products, then columns."""
        return self.m * self.n * self.k, self.n


def serving(listed: Iterable[OpaqueAtom], a: DType, b: DType, acc: DType) -> list[OpaqueAtom]:
    """The atoms among those that a device lists for these dtypes, the largest product first."""
    fit = [x for x in listed if (x.a, x.b, x.accumulator) == (a, b, acc) and not x.saturating]
    return sorted(fit, key=lambda x: x.size, reverse=True)
