"""The interpreter's checks at larger shapes: bounds, initialisation, divergence and races.

Small cases leave loops with one turn and groups half empty; here every size of a case is taken at
its largest and multiplied, which keeps the ratios that a kernel requires.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from iron.check.cases import Runner, Verdict, run_case
from iron.check.expand import ConcreteCase, Declared, expand
from iron.lang.dim import Dim
from iron.lang.parameter import ParamSpec

FACTOR = 3  # odd, so that a multiple of a vector length stays one and a power of two does not


def sanitize(
    kernel: Declared, backend: str | Runner = "interp", seed: int = 0, factor: int = FACTOR
) -> list[Verdict]:
    """One verdict for each dtype, variant and alternative of each case, at enlarged sizes.

    A case whose inputs cannot be enlarged (a requirement or the case function refuses) runs at its
    own largest sizes.
    """
    out: list[Verdict] = []
    for case in largest(kernel):
        verdict = run_case(enlarged(case, factor), backend, seed)
        out.append(run_case(case, backend, seed) if not_enlarged(verdict) else verdict)
    return out


def not_enlarged(verdict: Verdict) -> bool:
    """Whether the inputs of an enlarged case were refused, so that it says nothing."""
    refused = verdict.status == "inapplicable" or verdict.message.startswith("case: ")
    return refused or "E0702" in verdict.message


def largest(kernel: Declared) -> Iterator[ConcreteCase]:
    """The concrete cases in which every size of the kernel's dims is the largest of its axis."""
    yield from filter(is_largest, expand(kernel))


def is_largest(case: ConcreteCase) -> bool:
    """Whether every size of the kernel's dims is the largest of its axis in the case."""
    names = size_names(case.kernel)
    top = {n: max(case.case.axes[n]) for n in names if n in case.case.axes}
    return all(case.axes[n] == size for n, size in top.items())


def enlarged(case: ConcreteCase, factor: int) -> ConcreteCase:
    """The case with every size multiplied."""
    names = size_names(case.kernel)
    axes: dict[str, Any] = {
        name: value * factor if name in names else value for name, value in case.axes.items()
    }
    return replace(case, axes=axes)


def size_names(kernel: Declared) -> set[str]:
    """The dims that stand bare in the kernel's signature."""
    specs = [s for s in kernel.signature.values() if isinstance(s, ParamSpec)]
    return {d.name for s in specs for d in s.dims or () if isinstance(d, Dim)}
