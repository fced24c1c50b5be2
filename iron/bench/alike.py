"""The calls in which a kernel is verified before it is timed: what is timed, at small sizes.

Cases of the kernel come first, those nearest to the bench in formats, Consts and dtypes. A case
taken in a Const or dtype that is not its own must fit it: where `B = cdiv(N, BLOCK)` is an extent,
another BLOCK makes the case's `B` wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from iron.bench.points import Point
from iron.check.cases import weakness
from iron.check.expand import ConcreteCase, expand
from iron.lang.parameter import ConstSpec

CASES = 4


def like(point: Point) -> list[ConcreteCase]:
    """A few cases in the bench's dtypes, formats and Consts, spread over all that fit; or none.

    The launch chooses among a kernel's alternatives, as it does for the bench.
    """
    wanted = point.case
    every = sorted(expand(wanted.kernel), key=lambda c: _distance(c, wanted))
    for distance, group in groupby(every, key=lambda c: _distance(c, wanted)):
        taken = list({c.label: c for c in (_as(c, wanted) for c in group)}.values())
        found = taken if not any(distance) else [c for c in taken if not weakness(c)]
        if found:
            return found[:: max(1, len(found) // CASES)][:CASES]
    return []


def divided(case: ConcreteCase, least: int) -> Iterator[ConcreteCase]:
    """The bench's own call with its sizes over `least`, over twice as much, and so on.

    A size that is no multiple stays as it is. The case may not fit.
    """
    sizes = {k: v for k, v in case.axes.items() if type(v) is int and k not in case.consts}
    by = least
    while any(v % by == 0 and v > 1 for v in sizes.values()):
        yield replace(
            case, axes={**case.axes, **{k: v // by for k, v in sizes.items() if v % by == 0}}
        )
        by *= 2


def _distance(case: ConcreteCase, wanted: ConcreteCase) -> tuple[bool, bool, bool]:
    """What of the wanted call the case does not have: formats, Consts, dtypes."""
    consts = any(_const(case, k) != v for k, v in _fixed(wanted).items())
    return (case.formats != wanted.formats, consts, case.dtypes != wanted.dtypes)


def _fixed(wanted: ConcreteCase) -> dict[str, Any]:
    """The Consts that the bench itself gives."""
    return {k: v for k, v in wanted.axes.items() if k in wanted.consts}


def _const(case: ConcreteCase, name: str) -> Any:
    spec = case.kernel.signature[name]
    assert isinstance(spec, ConstSpec)
    return case.axes.get(name, case.variant.get(name, spec.default))


def _as(case: ConcreteCase, wanted: ConcreteCase) -> ConcreteCase:
    """The case in the bench's dtypes, formats and Consts, its alternative left to the launch."""
    fixed = _fixed(wanted)
    variant = {k: fixed.get(k, v) for k, v in case.variant.items()}
    axes = {**case.axes, **{k: v for k, v in fixed.items() if k not in variant}}
    types = {"dtypes": wanted.dtypes, "formats": wanted.formats}
    return replace(case, axes=axes, variant=variant, choice={}, **types)
