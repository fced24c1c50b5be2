"""What a worker does for each request: list modules and cases, run a case, build code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from iron.check import rules
from iron.check.cases import Verdict, run_case
from iron.check.expand import ConcreteCase, expand
from iron.check.sanitize import FACTOR, enlarged, is_largest, not_enlarged
from iron.lang.declare import KernelFunction, PlanFunction
from iron.runtime.driver import driver
from iron.worker import discover
from iron.worker.compiling import Compiling
from iron.worker.mutants import Mutants
from iron.worker.protocol import DeviceLost, Message, ProtocolError

Judge = Callable[[ConcreteCase, int], Verdict]
Answer = Callable[[Message], Iterator[Message]]


def handler(judge: Judge, timing: Answer | None = None) -> Answer:
    """Answers requests; `judge` runs a case with a seed, on the worker's backend.

    `larger` in a request to list or run means the largest cases, enlarged. `timing` answers what
    benches ask.
    """
    cases = cache(_cases)
    mutants = Mutants()
    compiling = Compiling()

    def answer(request: Message) -> Iterator[Message]:
        do = request.get("do")
        if do in ("ready", "modules"):
            yield from _looked(request)
        elif do == "list":
            for name, declared in discover.kernels(request["module"]).items():
                yield from _listing(name, declared, cases(request["module"], name), request)
        elif do == "run":
            case = cases(request["module"], request["kernel"])[request["index"]]
            yield _judged(_larger(judge) if request.get("larger") else judge, case, request["seed"])
        elif do == "mutants":
            found = cases(request["module"], request["kernel"])
            yield from mutants.answer(request, found, request["seed"])
        elif do == "build":
            found = cases(request["module"], request["kernel"])
            yield from compiling.answer(request, found)
        elif timing is not None and do in ("benches", "bench", "tune"):
            yield from timing(request)
        else:
            raise ProtocolError(f"unknown request {do!r}")

    return answer


def _looked(request: Message) -> Iterator[Message]:
    """The modules of some packages, or nothing where every backend named can be used here."""
    for backend in request.get("backends", ()):
        driver(backend).target()
    for name in discover.modules(tuple(request.get("packages", ()))):
        yield {"type": "module", "name": name}


def on_backend(backend: str) -> Judge:
    """Runs cases through the runtime, on `backend`; raises DeviceLost when one took the device."""

    def judge(case: ConcreteCase, seed: int) -> Verdict:
        verdict = run_case(case, backend, seed)
        if getattr(driver(backend), "lost", False):
            raise DeviceLost(verdict.message)
        return verdict

    return judge


def _larger(judge: Judge) -> Judge:
    """Judges the enlarged case, or the case itself where its inputs cannot be enlarged."""

    def both(case: ConcreteCase, seed: int) -> Verdict:
        verdict = judge(enlarged(case, FACTOR), seed)
        return judge(case, seed) if not_enlarged(verdict) else verdict

    return both


def _cases(module: str, kernel: str) -> list[ConcreteCase]:
    return expand(discover.kernels(module)[kernel])


def _listing(
    name: str,
    declared: KernelFunction | PlanFunction,
    found: list[ConcreteCase],
    request: Message,
) -> Iterator[Message]:
    """One message for each dtype and variant, with the cases that have it."""
    dtypes = set(request["dtypes"])
    missing = rules.faults(declared)
    if missing:
        yield {"type": "suite", "kernel": name, "text": "; ".join(missing)}
    if declared.suite.oracle is None:
        return
    groups: dict[str, list[tuple[int, str, str]]] = {}
    for index, case in enumerate(found):
        named = {str(t) for t in case.dtypes.values()}
        small = request.get("larger") and not is_largest(case)
        if small or (dtypes and named and not named & dtypes):
            continue
        tags, sizes = split_label(case.label)
        base = replace(case, choice={}).label
        groups.setdefault(tags, []).append((index, sizes, base))
    for tags, members in groups.items():
        yield {"type": "kernel", "kernel": name, "label": tags, "cases": members}


def split_label(label: str) -> tuple[str, str]:
    """`rms_norm[f16,VEC=4](R=3)` gives `f16,VEC=4` and `R=3`."""
    head, _, sizes = label.partition("](")
    return head.partition("[")[2], sizes.removesuffix(")")


def _judged(judge: Judge, case: ConcreteCase, seed: int) -> Message:
    started = time.perf_counter()
    verdict = judge(case, seed)
    return {
        "type": "case",
        "status": verdict.status,
        "worst": float(verdict.worst),
        "text": verdict.message,
        "seconds": time.perf_counter() - started,
    }
