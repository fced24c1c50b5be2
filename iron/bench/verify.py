"""A kernel is right before it is timed, and so is every peer.

The kernel answers to its oracle: in some of its cases, and at the bench's own size where the
oracle's float64 arrays stay moderate. Where neither serves, the bench's sizes are divided until one
does. A peer answers to what was verified.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from iron.bench.alike import divided, like
from iron.bench.points import BenchInputs, Point
from iron.check.cases import Verdict, judge, run_case
from iron.check.expand import ConcreteCase
from iron.check.prepare import Given, Prepared, prepare
from iron.check.tolerance import Array, CaseError
from iron.dtypes import DType, bf16, f16, of_numpy, ulp
from iron.errors import KernelError
from iron.quant.tensor import QTensor
from iron.runtime.current import use
from iron.runtime.driver import Driver

NOT_MET = "E0702"
"""The error of a call that the kernel's own requirements refuse: no result, right or wrong."""

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
    """Says what it does, and last how the kernel was verified. Raises `Wrong`.

    Where neither a case nor the oracle at the bench's own size can tell, its sizes are divided.
    """
    worst, ran = 0.0, 0
    for case in like(point):
        yield f"case {case.label}"
        verdict = run_case(case, driver.name, seed)
        if verdict.refused == NOT_MET:
            continue
        worst = max(worst, _must_pass(verdict))
        ran += verdict.status == "pass"
    times = elements(found) / ORACLE_ELEMENTS
    if times <= 1:
        yield "oracle"
        prepared = prepare(point.case, seed, BenchInputs(seed, point.case.label))
        yield "comparison"
        worst = max(worst, _must_pass(_judged(point.case, prepared, driver)))
    elif not ran:
        yield "divided sizes"
        worst = _must_pass(_smaller(point.case, driver, times, seed))
        ran = 1
    yield Verified(ran, times <= 1, worst)


def _smaller(case: ConcreteCase, driver: Driver, times: float, seed: int) -> Verdict:
    """The verdict at the largest divided sizes that fit the bench's Consts."""
    why = ""
    for part in divided(case, 1 << math.ceil(math.log2(times))):
        try:
            prepared = prepare(part, seed, BenchInputs(seed, part.label))
            return _judged(part, prepared, driver)
        except CaseError as unfit:
            why = why or str(unfit)
        except KernelError as refused:
            if refused.id != NOT_MET:
                raise
            why = why or refused.diagnostic.message
    raise Wrong(
        "nothing verifies this bench: no case fits its Consts, it is too large for the oracle, and "
        f"{why or 'its sizes cannot be divided'}; add a case in these Consts"
    )


def _judged(case: ConcreteCase, prepared: Prepared, driver: Driver) -> Verdict:
    with use(driver):
        case.kernel(**prepared.arguments)
    driver.synchronise()
    return judge(case.label, prepared)


def _must_pass(verdict: Verdict) -> float:
    """Its worst error over the bound."""
    if not verdict.ok:
        raise Wrong(f"{verdict.label}: {verdict.message}")
    return verdict.worst


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
