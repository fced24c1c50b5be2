"""A worker's answers about mutants: how many a group of cases has, and whether one is rejected.

One mutant is one request, so that a mutant that takes its worker down costs itself alone.
"""

from __future__ import annotations

import linecache
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from iron.check.expand import ConcreteCase
from iron.check.mutate import mutants
from iron.check.survive import Form, Trial, attempt, grouped
from iron.dtypes import f32
from iron.ir.core import Kernel
from iron.lang.declare import KernelFunction
from iron.worker.protocol import BUSY, Message

SECONDS = 10.0  # of CPU; a mutant that takes more is rejected


class Late(Exception):
    """The time of a mutant is over."""


class Mutants:
    """The mutants of the group of cases that was asked for last."""

    def __init__(self) -> None:
        self._key: object = None
        self._found: list[tuple[str, Form, Kernel]] = []

    def answer(
        self, request: Message, cases: Sequence[ConcreteCase], seed: int
    ) -> Iterator[Message]:
        """The names of the group's mutants, or with `at` the judgement of one."""
        key = (request["module"], request["kernel"], tuple(request["indices"]), seed)
        if key != self._key:
            picked = chosen(cases, request["indices"], bool(request["dtypes"]))
            yield from self._prepare(picked, seed)
            self._key = key
        if "at" not in request:
            yield {"type": "mutants", "names": [name for name, _, _ in self._found]}
            return
        _, form, mutant = self._found[request["at"]]
        yield {"type": "mutant", "lives": in_time(lambda: form.lets_live(mutant), SECONDS)}

    def _prepare(self, cases: Sequence[ConcreteCase], seed: int) -> Iterator[Message]:
        """Finds the mutants of the cases, `busy` after each step."""
        self._key, self._found = None, []
        trials: list[Trial] = []
        for case in cases:
            trial = attempt(case, seed) if isinstance(case.kernel, KernelFunction) else None
            trials += [] if trial is None else [trial]
            yield BUSY
        for form in grouped(trials):
            files = {
                PurePath(o.loc.file).name: o.loc.file for o in form.kernel.body.walk() if o.loc
            }
            for name, mutant in mutants(form.kernel):
                self._found.append((place(name, files), form, mutant))
                yield BUSY


def chosen(
    cases: Sequence[ConcreteCase], indices: Sequence[int], every_dtype: bool
) -> list[ConcreteCase]:
    """The cases at the indices; of a kernel that has f32, those in f32 unless all are wanted."""

    def plain(case: ConcreteCase) -> bool:
        return all(t is f32 for t in case.dtypes.values() if t.is_float)

    narrow = not every_dtype and any(plain(case) for case in cases)
    return [cases[i] for i in indices if not narrow or plain(cases[i])]


def place(mutant: str, files: dict[str, str]) -> str:
    """A mutant's name with the text of its line in place of its number."""
    found = re.fullmatch(r"(.*) at (\S+?):(\d+):\d+(?: \(\d+\))?", mutant)
    if found is None or found[2] not in files:
        return mutant
    return f"{found[1]}  |  {linecache.getline(files[found[2]], int(found[3])).strip()}"


def in_time(check: Callable[[], bool], seconds: float) -> bool:
    """The answer of `check`; False when it raises what a bad kernel may, or takes too long.

    Seconds are this process's CPU time, so that a busy machine gives the same answer. Without
    interval timers the worker's watchdog is the only limit.
    """
    if not hasattr(signal, "setitimer"):
        return _answer(check)

    def late(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return _answer(check)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _answer(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (Late, ArithmeticError, ValueError, IndexError, MemoryError):
        return False
