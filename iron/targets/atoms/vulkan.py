"""Vulkan: cooperative matrices, whose sizes a device lists and whose layout it keeps to itself.

Source: VK_KHR_cooperative_matrix; SPV_KHR_cooperative_matrix, "the mapping between invocations and
components is implementation-dependent".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iron.dtypes import DType

SUBGROUP_SCOPE = 3
"""VK_SCOPE_SUBGROUP_KHR: the only scope that an atom of ours uses."""


@dataclass(frozen=True, slots=True)
class OpaqueAtom:
    """acc (m x n) += a (m x k) @ b (k x n), held by a subgroup in an order of the driver's."""

    m: int
    n: int
    k: int
    a: DType
    b: DType
    accumulator: DType
    saturating: bool = False


def serving(listed: Iterable[OpaqueAtom], a: DType, b: DType, acc: DType) -> OpaqueAtom | None:
    """The atom of the largest product among those a device lists for these dtypes, or None."""
    fit = [x for x in listed if (x.a, x.b, x.accumulator) == (a, b, acc) and not x.saturating]
    return max(fit, key=lambda x: (x.m * x.n * x.k, x.n), default=None)
