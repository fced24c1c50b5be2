"""Runs every case of every kernel on every backend through workers, and turns losses into rows.

A module on a backend is one job; jobs run side by side, each on a worker of its own. What a
kernel does to its worker is written in that kernel's row and stops nothing else.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any, Protocol

from iron.worker.protocol import Message
from iron.worker.supervise import Limits, Lost, Worker

LOSSES_ALLOWED = 2  # a kernel that loses its worker more often than this is not run further


@dataclass(frozen=True, slots=True)
class Fault:
    """A case that is not right: `kind` is `wrong`, `error`, `crash`, `hang`,
    `memory`, `device` or `mutant`."""

    case: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel, in one dtype and variant, on one backend; right when it has no faults.

    `cases` counts what `unit` names.
    """

    backend: str
    kernel: str
    label: str
    cases: int
    seconds: float
    faults: tuple[Fault, ...] = ()
    unit: str = "cases"

    @property
    def name(self) -> str:
        """Kernel and label as the user filters them."""
        return named(self.kernel, self.label)


@dataclass(frozen=True, slots=True)
class Finished:
    """Says that a kernel has no more rows on a backend."""

    backend: str
    kernel: str


class Trial(Protocol):
    """What is done with one kernel on one backend."""

    def rows(self, answer: Message) -> Iterator[Row]:
        """The rows of one dtype and variant, or of what the kernel's suite lacks."""
        ...

    def unserved(self) -> Iterator[Row]:
        """The rows that only all dtypes and variants together tell."""
        ...


MakeTrial = Callable[["Campaign", Worker, str, str, str], Trial]


@dataclass(frozen=True, slots=True)
class Campaign:
    """What to run and how; `command(backend)` starts a worker for it.

    `larger` runs enlarged cases instead; `trial` is made for a kernel in place of running its
    cases, from the campaign, worker, backend, module and kernel.
    """

    packages: tuple[str, ...]
    backends: tuple[str, ...]
    command: Callable[[str], tuple[str, ...]]
    filters: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    seed: int = 0
    jobs: int = 1
    fail_fast: bool = False
    limits: Limits = field(default_factory=Limits)
    larger: bool = False
    trial: MakeTrial | None = None

    def run(self) -> Iterator[Row | Finished]:
        """The rows, in the order in which they are done; raises `Lost` when the packages
        themselves cannot be walked."""
        todo = self._jobs()
        rows: queue.Queue[Row | Finished | BaseException | None] = queue.Queue()
        stop, live = threading.Event(), list[Worker]()
        threads = [
            threading.Thread(target=self._drain, args=(todo, rows, stop, live))
            for _ in range(min(self.jobs, todo.qsize()))
        ]
        for thread in threads:
            thread.start()
        running = len(threads)
        try:
            while running:
                row = rows.get()
                if row is None:
                    running -= 1
                elif isinstance(row, BaseException):
                    raise row
                else:
                    if self.fail_fast and isinstance(row, Row) and row.faults:
                        stop.set()
                    yield row
        except (KeyboardInterrupt, GeneratorExit):  # nobody waits for what still runs
            stop.set()
            for worker in live:
                worker.abandon()
            raise
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def unready(self) -> dict[str, str]:
        """Which of the backends cannot be used on this machine, and why; a worker of each says."""
        found: dict[str, str] = {}
        for backend in self.backends:
            with Worker(self.command(backend), self.limits) as worker:
                _, fault = ask(worker, {"do": "ready", "backends": [backend]})
            if fault is not None:
                found[backend] = fault[1]
        return found

    def chosen(self, name: str) -> bool:
        """Whether the filters keep a kernel: part of its name, or a pattern with `*` and `?`."""
        # Brackets belong to names here, not to patterns.
        patterns = [f.replace("[", "[[]") for f in self.filters]
        return not self.filters or any(
            f in name or fnmatchcase(name, p) for f, p in zip(self.filters, patterns, strict=True)
        )

    def _jobs(self) -> queue.SimpleQueue[tuple[str, str]]:
        found: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        with Worker(self.command(self.backends[0]), self.limits) as worker:
            answers = worker.ask({"do": "modules", "packages": self.packages})
        if answers and answers[-1]["type"] == "error":
            raise Lost("error", answers[-1]["text"])
        for backend in self.backends:
            for answer in answers:
                found.put((backend, answer["name"]))
        return found

    def _drain(
        self,
        todo: queue.SimpleQueue[tuple[str, str]],
        rows: queue.Queue[Row | Finished | BaseException | None],
        stop: threading.Event,
        live: list[Worker],
    ) -> None:
        workers: dict[str, Worker] = {}
        try:
            while not stop.is_set():
                backend, module = todo.get_nowait()
                if backend not in workers:
                    workers[backend] = Worker(self.command(backend), self.limits)
                    live.append(workers[backend])
                for row in self._module(workers[backend], backend, module, stop):
                    rows.put(row)
        except queue.Empty:
            pass
        except BaseException as fault:
            rows.put(fault)
        finally:
            for worker in workers.values():
                worker.close()
            rows.put(None)

    def _module(
        self, worker: Worker, backend: str, module: str, stop: threading.Event
    ) -> Iterator[Row | Finished]:
        request = {"do": "list", "module": module, "dtypes": self.dtypes, "larger": self.larger}
        listed, fault = ask(worker, request)
        if fault is not None:
            yield Row(backend, module, "", 0, 0.0, (Fault("import", *fault),))
            yield Finished(backend, module)
        for kernel, answers in groupby(listed, key=lambda answer: answer["kernel"]):
            trial = (self.trial or _Trial)(self, worker, backend, module, kernel)
            for answer in answers:
                if stop.is_set():
                    return
                yield from trial.rows(answer)
            yield from trial.unserved()
            yield Finished(backend, kernel)


@dataclass(slots=True)
class _Trial:
    """One kernel on one backend, while it runs."""

    campaign: Campaign
    worker: Worker
    backend: str
    module: str
    kernel: str
    losses: int = 0
    whole: bool = True
    served: dict[str, bool] = field(default_factory=dict[str, bool])

    def rows(self, answer: Message) -> Iterator[Row]:
        """The row of one dtype and variant, or of what its suite lacks."""
        if answer["type"] == "suite":
            if self.campaign.chosen(self.kernel):
                yield self._row("", 0, 0.0, [Fault("suite", "error", answer["text"])])
        elif self.campaign.chosen(named(self.kernel, answer["label"])):
            yield self._run(answer)
        else:
            self.whole = False

    def unserved(self) -> Iterator[Row]:
        """A row when some size is refused by every alternative of `choose`."""
        left = [base for base, reached in self.served.items() if not reached]
        if self.whole and left:
            text = "no alternative of `choose` serves this size"
            yield self._row("", 0, 0.0, [Fault(base, "wrong", text) for base in left])

    def _run(self, group: Message) -> Row:
        faults: list[Fault] = []
        seconds, ran = 0.0, 0
        for index, case, base in group["cases"]:
            if self.losses > LOSSES_ALLOWED:
                left = len(group["cases"]) - ran
                faults.append(Fault(case, "error", f"{left} cases not run after repeated losses"))
                self.whole = False
                break
            request: Message = {
                "do": "run",
                "module": self.module,
                "kernel": self.kernel,
                "index": index,
            }
            request |= {"seed": self.campaign.seed, "larger": self.campaign.larger}
            answers, fault = ask(self.worker, request)
            ran += 1
            status = answers[0]["status"] if answers else "lost"
            if fault is not None:
                faults.append(Fault(case, *fault))
                self.losses += fault[0] != "error"
            elif status == "fail":
                faults.append(Fault(case, "wrong", answers[0]["text"]))
            self.served[base] = self.served.get(base, False) or status != "inapplicable"
            seconds += sum(a["seconds"] for a in answers)
        return self._row(group["label"], ran, seconds, faults)

    def _row(self, label: str, cases: int, seconds: float, faults: list[Fault]) -> Row:
        return Row(self.backend, self.kernel, label, cases, seconds, tuple(faults))


def named(kernel: str, label: str) -> str:
    """`rms_norm[f16,VEC=4]`, or the bare name."""
    return f"{kernel}[{label}]" if label else kernel


def ask(worker: Worker, request: dict[str, Any]) -> tuple[list[Message], tuple[str, str] | None]:
    """The answers, and the kind and text of what went wrong."""
    try:
        answers = worker.ask(request)
    except Lost as lost:
        return [], (lost.kind, lost.text)
    if answers and answers[-1]["type"] == "error":
        return answers[:-1], (answers[-1]["kind"], answers[-1]["text"])
    return answers, None
