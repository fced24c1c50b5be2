"""Mutants against cases: which known-bad kernels do the cases of a kernel let live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from iron.check.cases import run_case
from iron.check.expand import ConcreteCase, Declared, expand
from iron.check.interpret import read_call
from iron.check.mutate import mutants
from iron.check.prepare import prepare
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.ir.text import digest
from iron.lang.declare import KernelFunction

Guard = Callable[[Callable[[], bool]], bool]
"""Runs a check and returns its answer; False (killed) when it does not end in time."""


@dataclass(slots=True)
class Form:
    """One kernel in IR and the cases that it serves."""

    kernel: Kernel
    narrow: bool
    cases: list[ConcreteCase] = field(default_factory=list[ConcreteCase])


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that every case accepts."""

    kernel: str
    label: str
    mutant: str


def unguarded(check: Callable[[], bool]) -> bool:
    """Runs the check here, however long it takes."""
    return check()


def forms(
    declared: KernelFunction, wanted: Callable[[ConcreteCase], bool], seed: int
) -> list[Form]:
    """The kernels in IR that the wanted cases need, each with its cases."""
    found: dict[str, Form] = {}
    for case in expand(declared):
        if not wanted(case):
            continue
        for narrow in (True, False):
            try:
                read = read_call(declared, prepare(case, seed).arguments, narrow=narrow)
                read.run(read.kernel)
            except KernelError:
                continue  # inapplicable so; the case itself is judged elsewhere
            form = found.setdefault(digest(read.kernel), Form(read.kernel, narrow))
            form.cases.append(case)
            break
    return list(found.values())


def survivors(
    declared: KernelFunction,
    seed: int = 0,
    wanted: Callable[[ConcreteCase], bool] = lambda case: True,
    guard: Guard = unguarded,
) -> Iterator[Survivor]:
    """Mutants of the kernel that pass every wanted case of their form, on the interpreter."""
    for form in forms(declared, wanted, seed):
        for name, mutant in mutants(form.kernel):
            if guard(lambda m=mutant, f=form: lives(f, m, seed)):
                yield Survivor(declared.name, form.cases[0].label, name)


def lives(form: Form, mutant: Kernel, seed: int) -> bool:
    """True when every case of the form accepts the mutant."""

    def run(declared: Declared, arguments: dict[str, Any]) -> None:
        read_call(declared, arguments, narrow=form.narrow).run(mutant)

    return all(run_case(case, run, seed).status == "pass" for case in form.cases)
