"""That `choose` leaves no size behind: over residues of every dim, one alternative must serve.

A requirement that stands in every alternative with the same condition is a precondition of the
kernel; one whose condition differs between alternatives is what the choice is about.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from iron.check.expand import ConcreteCase, expand
from iron.check.interpret import Interpreted, read_call
from iron.check.prepare import prepare
from iron.errors import KernelError
from iron.ir.core import Kernel, Value, const_of, is_const
from iron.ir.host import evaluate
from iron.lang.declare import KernelFunction

LONGEST_PERIOD = 256


@dataclass(frozen=True, slots=True)
class Gap:
    """A size near those of a case that the kernel accepts and none of its alternatives serves."""

    label: str
    sizes: Mapping[str, int]


def gaps(kernel: KernelFunction, seed: int = 0, most: int | None = None) -> list[Gap]:
    """The gaps of a kernel's `choose`, tried once for each case and variant.

    `most` limits how many of these are tried, spread over all.
    """
    groups: dict[str, list[ConcreteCase]] = {}
    for case in expand(kernel):
        place = str((id(case.case), dict(case.variant), dict(case.formats)))
        first = groups.setdefault(place, [case])
        if case is not first[0] and replace(case, choice=first[0].choice) == first[0]:
            first.append(case)
    every = list(groups.values())
    step = 1 if most is None else max(1, -(-len(every) // most))
    return [gap for cases in every[::step] for gap in _gaps(cases, seed)]


def _gaps(cases: Sequence[ConcreteCase], seed: int) -> Iterator[Gap]:
    reads: list[Interpreted] = []
    for case in cases:
        try:
            reads.append(read_call(case.kernel, prepare(case, seed).arguments))
        except KernelError as refused:
            if refused.id != "E0702":
                raise
    if not reads:
        yield Gap(cases[0].label, {})
        return
    fixed = {name for read in reads for name in read.fixed}
    sizes = {n: v for n, v in reads[0].binding.dims.items() if n not in fixed}
    whole = reads[0].binding.dims
    for found in unserved([r.kernel for r in reads], sizes, reads[0].scalars, whole):
        yield Gap(cases[0].label, found)


def unserved(
    alternatives: Sequence[Kernel],
    sizes: Mapping[str, int],
    scalars: Mapping[str, Any],
    others: Mapping[str, int] = MappingProxyType({}),
) -> list[dict[str, int]]:
    """Sizes near `sizes`, one dim changed, that the kernel accepts and no alternative serves.

    Each dim of `sizes` runs over one period of the divisors that occur in the host expressions,
    from its value upwards; the dims of `others` stay.
    """
    shared = _preconditions(alternatives)
    return [
        point
        for point in _points(alternatives, sizes)
        if not _accepted(alternatives, {**others, **point}, scalars, shared)
    ]


def _accepted(
    alternatives: Sequence[Kernel],
    point: Mapping[str, int],
    scalars: Mapping[str, Any],
    shared: set[str],
) -> bool:
    """True when one alternative serves the point, or a precondition refuses it."""
    for kernel in alternatives:
        _, failed = evaluate(kernel, scalars, point)
        texts = dict(zip(kernel.requires, _conditions(kernel), strict=True))
        if not failed or any(texts[require] in shared for require in failed):
            return True
    return False


def _points(alternatives: Sequence[Kernel], sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    named = {p.name for k in alternatives for p in k.host_params if p.role == "dim"}
    period = min(LONGEST_PERIOD, math.lcm(*(d for k in alternatives for d in _divisors(k)), 1))
    for name in sorted(named & sizes.keys()):
        for residue in range(period):
            yield {**sizes, name: sizes[name] + residue}


def _divisors(kernel: Kernel) -> set[int]:
    ops = [op for op in kernel.host.ops if op.name in ("mod", "floordiv") and is_const(op.args[1])]
    return {abs(int(const_of(op.args[1]))) or 1 for op in ops}


def _preconditions(alternatives: Sequence[Kernel]) -> set[str]:
    """The conditions that stand in every alternative."""
    found = [set(_conditions(kernel)) for kernel in alternatives]
    return set.intersection(*found) if found else set()


def _conditions(kernel: Kernel) -> list[str]:
    """Each requirement's condition as text, in order."""
    names = dict(zip(kernel.host.params, (p.name for p in kernel.host_params), strict=True))
    held = kernel.host.yielded[kernel.rank :]
    return [_text(value, names) for value in held]


def _text(value: Value, names: Mapping[Value, str]) -> str:
    if value in names:
        return names[value]
    assert value.op is not None
    if is_const(value):
        return str(const_of(value))
    inside = ", ".join(_text(a, names) for a in value.op.args)
    return f"{value.op.name}({inside})"
