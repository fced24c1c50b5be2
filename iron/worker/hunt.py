"""Known-bad forms of a kernel against its cases: one row a kernel, red where a mutant lives.

Copies of one source line that unrolling or inlining makes are one mutant, rejected as soon as one
copy is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from iron.worker.campaign import Campaign, Fault, Row, ask, named
from iron.worker.protocol import Message
from iron.worker.supervise import Worker

LOSSES_ALLOWED = 2  # a group of cases that loses its worker more often is not tried further


def listed(text: str) -> dict[str, set[str]]:
    """The mutants that may live, by kernel: lines `kernel: mutant`, `#` begins a reason."""
    out: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            kernel, _, mutant = line.partition(": ")
            out.setdefault(kernel, set()).add(mutant)
    return out


@dataclass(slots=True)
class Hunt:
    """The mutants of one kernel while they are tried."""

    campaign: Campaign
    worker: Worker
    backend: str
    module: str
    kernel: str
    survivors: Mapping[str, set[str]]
    accepted: set[str] = field(default_factory=set[str])
    rejected: set[str] = field(default_factory=set[str])
    faults: list[Fault] = field(default_factory=list[Fault])
    seconds: float = 0.0
    tried: bool = False

    def rows(self, answer: Message) -> Iterator[Row]:
        """Tries the mutants of one dtype and variant; the kernel's row comes at the end."""
        if answer["type"] == "kernel" and self.campaign.chosen(named(self.kernel, answer["label"])):
            self.tried = True
            started = perf_counter()
            self._group(answer)
            self.seconds += perf_counter() - started
        yield from ()

    def unserved(self) -> Iterator[Row]:
        """The kernel's row: its mutants, and those that live without being listed."""
        alive = self.accepted - self.rejected - self.survivors.get(self.kernel, set())
        text = "every case accepts it"
        faults = [*self.faults, *(Fault(name, "mutant", text) for name in sorted(alive))]
        count = len(self.accepted | self.rejected)
        if self.tried and (count or faults):
            yield Row(self.backend, self.kernel, "", count, self.seconds, tuple(faults), "mutants")

    def _group(self, group: Message) -> None:
        request: Message = {
            "do": "mutants",
            "module": self.module,
            "kernel": self.kernel,
            "indices": [index for index, _, _ in group["cases"]],
            "dtypes": self.campaign.dtypes,
            "seed": self.campaign.seed,
        }
        answers, fault = ask(self.worker, request)
        if fault is not None:
            self.faults.append(Fault(group["label"], *fault))
            return
        losses = 0
        for at, name in enumerate(answers[0]["names"]):
            if name in self.rejected:
                continue
            answers, fault = ask(self.worker, {**request, "at": at})
            lives = fault is None and answers[0]["lives"]
            (self.accepted if lives else self.rejected).add(name)
            losses += fault is not None and fault[0] != "error"
            if losses > LOSSES_ALLOWED:
                text = "mutants not tried after repeated losses of the worker"
                self.faults.append(Fault(group["label"], "error", text))
                return
