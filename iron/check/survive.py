"""Mutants against cases: which known-bad kernels do the cases of a kernel let live."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from iron.check.cases import judge
from iron.check.expand import ConcreteCase, expand
from iron.check.interpret import Interpreted, read_call
from iron.check.mutate import mutants
from iron.check.prepare import Prepared, prepare
from iron.check.tolerance import Array
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.ir.text import digest
from iron.lang.declare import KernelFunction

Guard = Callable[[Callable[[], bool]], bool]
"""Runs a check and returns its answer; False (killed) when it does not end in time."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A case ready to run again and again: its arguments, and its outputs as they were."""

    case: ConcreteCase
    prepared: Prepared
    read: Interpreted
    before: dict[str, Array]

    def accepts(self, kernel: Kernel) -> bool:
        """True when the case passes with `kernel` in place of its own."""
        for name, out in self.prepared.outputs.items():
            out.held.buffer[:] = self.before[name]
        try:
            self.read.run(kernel)
        except KernelError:
            return False
        return judge(self.case.label, self.prepared).status == "pass"


@dataclass(slots=True)
class Form:
    """One kernel in IR and the cases that it serves, the smallest first."""

    kernel: Kernel
    trials: list[Trial] = field(default_factory=list[Trial])

    def lets_live(self, mutant: Kernel) -> bool:
        """True when every case accepts the mutant."""
        return all(trial.accepts(mutant) for trial in self.trials)


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that every case accepts; `label` is one of the cases."""

    kernel: str
    label: str
    mutant: str


def unguarded(check: Callable[[], bool]) -> bool:
    """Runs the check here, however long it takes."""
    return check()


def forms(
    declared: KernelFunction, wanted: Callable[[ConcreteCase], bool], seed: int = 0
) -> list[Form]:
    """The kernels in IR that the wanted cases need, each with its cases."""
    made = (attempt(case, seed) for case in expand(declared) if wanted(case))
    return grouped(trial for trial in made if trial is not None)


def grouped(trials: Iterable[Trial]) -> list[Form]:
    """The trials by the kernel in IR that they run."""
    found: dict[str, Form] = {}
    for trial in trials:
        kernel = trial.read.kernel
        found.setdefault(digest(kernel), Form(kernel)).trials.append(trial)
    for form in found.values():
        form.trials.sort(key=lambda t: sum(b.size for b in t.before.values()))
    return list(found.values())


def attempt(case: ConcreteCase, seed: int) -> Trial | None:
    """The case with a group of one simdgroup if it allows that; None where it does not apply."""
    declared = case.kernel
    assert isinstance(declared, KernelFunction)
    prepared = prepare(case, seed)
    before = {n: out.held.buffer.copy() for n, out in prepared.outputs.items()}
    own = declared.schedule.get("simd_mma", {})  # the interpreter has the feature
    for narrow in (True, False):
        try:
            read = read_call(declared, {**own, **prepared.arguments}, narrow=narrow)
        except KernelError:
            continue
        trial = Trial(case, prepared, read, before)
        if trial.accepts(read.kernel):
            return trial
    return None  # refused or failing: the case itself is judged by `cases`


def survivors(
    declared: KernelFunction,
    seed: int = 0,
    wanted: Callable[[ConcreteCase], bool] = lambda case: True,
    guard: Guard = unguarded,
    most: int = 0,
) -> Iterator[Survivor]:
    """Mutants of the kernel that pass every wanted case of their form, on the interpreter.

    `most` limits the mutants of each form, taken evenly over the program; 0 takes all.
    """
    for form in forms(declared, wanted, seed):
        for name, mutant in mutants(form.kernel, most):
            if guard(lambda m=mutant, f=form: f.lets_live(m)):
                yield Survivor(declared.name, form.trials[0].case.label, name)
