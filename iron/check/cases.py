"""Cases run and judged: each call against its oracle, through any way to run a kernel.

A kernel is run through a `Runner`, so nothing here knows a backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iron.check.expand import ConcreteCase, Declared, expand
from iron.check.power import faults as power_faults
from iron.check.prepare import Prepared, prepare
from iron.check.tolerance import CaseError, compare
from iron.errors import KernelError

NARROW, WIDE = 32, 64
"""Lanes of simdgroups: a case may name threads that only narrow ones make up."""

Runner = Callable[[Declared, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a case: `status` is `pass`, `fail`, `inapplicable` (a require did not hold) or
    `elsewhere` (it names threads that the target has no simdgroups for, and others have).

    `worst` is the largest error over its bound (1 is the limit) over all outputs. `refused` is the
    id of the error with which the kernel refused the call, if it did.
    """

    label: str
    status: str
    worst: float = 0.0
    output: str = ""
    index: tuple[int, ...] | None = None
    message: str = ""
    refused: str = ""

    @property
    def ok(self) -> bool:
        """True unless the case failed."""
        return self.status != "fail"


def runner(backend: str) -> Runner:
    """Runs kernels through `iron.runtime` on the backend called `backend`."""

    def run(kernel: Declared, arguments: dict[str, Any]) -> None:
        from importlib import import_module

        with import_module("iron.runtime.current").use(backend):
            kernel(**arguments)

    return run


def run_case(case: ConcreteCase, backend: str | Runner, seed: int = 0) -> Verdict:
    """Runs one case and judges every output; nothing but a defect of Iron raises."""
    run = runner(backend) if isinstance(backend, str) else backend
    try:
        prepared = prepare(case, seed)
        _powerful(case, prepared)
    except CaseError as wrong:
        return Verdict(case.label, "fail", message=f"case: {wrong}")
    try:
        run(case.kernel, prepared.arguments)
    except KernelError as refused:
        if refused.id == "E0702" and case.choice:
            return Verdict(case.label, "inapplicable", message=refused.diagnostic.message)
        if refused.id == "E0301" and case.fits(NARROW) and not case.fits(WIDE):
            return Verdict(case.label, "elsewhere", message=refused.diagnostic.message)
        return Verdict(case.label, "fail", message=str(refused), refused=refused.id)
    return judge(case.label, prepared)


def weakness(case: ConcreteCase, seed: int = 0) -> str:
    """Why the case itself is at fault, decided without running the kernel; empty when it is not."""
    try:
        _powerful(case, prepare(case, seed))
    except CaseError as wrong:
        return str(wrong)
    return ""


def _powerful(case: ConcreteCase, prepared: Prepared) -> None:
    if case.case.degenerate:
        return
    for name, out in prepared.outputs.items():
        found = power_faults(out.reference, out.allowed, out.dtype)
        if found:
            raise CaseError(f"these inputs cannot tell a broken kernel: {name}: {'; '.join(found)}")


def judge(label: str, prepared: Prepared) -> Verdict:
    """What the outputs, their fences and the inputs say after a run."""
    worst = Verdict(label, "pass")
    for name, before in prepared.inputs.items():
        if before.tobytes() != np.array(prepared.arguments[name]).tobytes():
            return Verdict(label, "fail", np.inf, name, message=f"the input {name} was changed")
    for name, out in prepared.outputs.items():
        outside = out.held.overrun()
        if outside:
            return Verdict(label, "fail", np.inf, name, message=f"{name}: {outside}")
        found = compare(out.held.array, out.reference, out.allowed, out.dtype)
        if found.bad:
            message = (
                f"{name}{list(found.index or ())} is {found.got}, not {found.want}: "
                f"{found.bad} of {out.held.array.size} elements outside the bound, "
                f"worst {found.worst:.3g} times"
            )
            return Verdict(label, "fail", found.worst, name, found.index, message)
        if found.worst >= worst.worst:
            worst = replace(worst, worst=found.worst, output=name)
    return worst


def check(kernel: Declared, backend: str | Runner, seed: int = 0) -> list[Verdict]:
    """Every case of the kernel, and a failure for each size that no alternative serves."""
    served: dict[str, bool] = {}
    out: list[Verdict] = []
    for case in expand(kernel):
        verdict = run_case(case, backend, seed)
        out.append(verdict)
        base = replace(case, choice={}).label
        served[base] = served.get(base, False) or verdict.status != "inapplicable"
    for base, reached in served.items():
        if not reached:
            out.append(Verdict(base, "fail", message="no alternative of `choose` serves this size"))
    return out
