"""A kernel is right before it is timed, and so is every peer.

The kernel answers to its oracle: in some of its cases, and at the bench's own size where the
oracle's float64 arrays stay moderate. A peer answers to what was verified.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iron.bench.points import BenchInputs, Point
from iron.check.cases import Verdict, judge, run_case
from iron.check.expand import ConcreteCase, expand
from iron.check.prepare import Given, Prepared, prepare
from iron.check.tolerance import Array
from iron.dtypes import DType, bf16, f16, of_numpy, ulp
from iron.quant.tensor import QTensor
from iron.runtime.current import use
from iron.runtime.driver import Driver

CASES = 4
ORACLE_ELEMENTS = 1 << 25
"""Elements of inputs and outputs up to which the oracle is asked at the bench's own size."""

SAMPLE = 1 << 20
"""Elements of a peer's output that are compared."""


@dataclass(frozen=True, slots=True)
class Verified:
    """How a kernel was verified: cases that passed, whether its own size was among them.

    `worst` is the largest error over its bound; 1 is the limit.
    """

    cases: int
    own: bool
    worst: float


class Wrong(Exception):
    """A kernel whose results are wrong; it is not timed."""


def verify(point: Point, driver: Driver, found: Given, seed: int) -> Iterator[str | Verified]:
    """Says what it does, and last how the kernel was verified. Raises `Wrong`."""
    worst, ran = 0.0, 0
    for case in like(point):
        yield f"case {case.label}"
        verdict = run_case(case, driver.name, seed)
        _must_pass(verdict)
        ran += verdict.status == "pass"
        worst = max(worst, verdict.worst)
    own = elements(found) <= ORACLE_ELEMENTS
    if own:
        yield "oracle"
        prepared = prepare(point.case, seed, BenchInputs(seed, point.case.label))
        yield "comparison"
        verdict = _judged(point.case, prepared, driver)
        _must_pass(verdict)
        worst = max(worst, verdict.worst)
    if not ran and not own:
        raise Wrong("no case of this dtype passed or could be run")
    yield Verified(ran, own, worst)


def _judged(case: ConcreteCase, prepared: Prepared, driver: Driver) -> Verdict:
    with use(driver):
        case.kernel(**prepared.arguments)
    driver.synchronise()
    return judge(case.label, prepared)


def _must_pass(verdict: Verdict) -> None:
    if not verdict.ok:
        raise Wrong(f"{verdict.label}: {verdict.message}")


def like(point: Point) -> list[ConcreteCase]:
    """A few cases with the bench's dtypes, formats and Consts, spread over all there are.

    The launch chooses among a kernel's alternatives, as it does for the bench. Where no case has
    just these dtypes or Consts, those of others are taken in them.
    """
    wanted = point.case
    fixed = {k: v for k, v in wanted.axes.items() if k in wanted.consts}
    whole = expand(wanted.kernel)
    every = [c for c in whole if c.formats == wanted.formats] or whole
    right = [c for c in every if all(_const(c, k) in (v, None) for k, v in fixed.items())]
    as_here = [_with(c, fixed, wanted) for c in right or every]
    same = [c for c, was in zip(as_here, right or every, strict=True) if was.dtypes == c.dtypes]
    kept = list({c.label: c for c in same or as_here}.values())
    step = max(1, len(kept) // CASES)
    return kept[::step][:CASES]


def _const(case: ConcreteCase, name: str) -> Any:
    return case.axes.get(name, case.variant.get(name))


def _with(case: ConcreteCase, fixed: Mapping[str, Any], wanted: ConcreteCase) -> ConcreteCase:
    """The case in the bench's dtypes and Consts, its alternative left to the launch."""
    axes = {k: fixed.get(k, v) for k, v in case.axes.items()}
    variant = {k: fixed.get(k, v) for k, v in case.variant.items()}
    types = {"dtypes": wanted.dtypes, "formats": wanted.formats}
    return replace(case, axes=axes, variant=variant, choice={}, **types)


def elements(found: Given) -> int:
    """Elements of all tensors of a call."""
    shapes = [v.shape for v in found.inputs.values() if isinstance(v, np.ndarray | QTensor)]
    return sum(math.prod(s) for s in (*shapes, *found.outputs.values()))


def difference(got: Mapping[str, Array], want: Mapping[str, Array]) -> float:
    """The largest relative error of an output, in the Euclidean norm over a sample of it."""
    return max((_distance(got[name], want[name]) for name in want if name in got), default=math.inf)


def _distance(got: Array, want: Array) -> float:
    if got.size != want.size:
        return math.inf
    step = max(1, want.size // SAMPLE)
    a = got.reshape(-1)[::step].astype(np.float64)
    b = want.reshape(-1)[::step].astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        error = np.linalg.norm(np.where(same, 0.0, a - b))
        size = np.linalg.norm(np.where(np.isfinite(b), b, 0.0))
    return float(error / size) if size else float(error)


def allowance(outputs: Mapping[str, Array], rounds: DType | float | None) -> float:
    """How far a peer may be off: four units of the coarsest type that it rounds to.

    `rounds` is a type, or a unit, to which the peer rounds its operands by design.
    """
    units = [2.0**-14]
    for array in outputs.values():
        dtype = of_numpy(array.dtype)
        units += [ulp(dtype)] if dtype in (f16, bf16) else []
    if rounds is not None:
        units.append(ulp(rounds) if isinstance(rounds, DType) else rounds)
    return 4 * max(units)
