"""Runs every bench of every kernel on one backend, one after the other, and turns losses into rows.

A kernel that takes its worker down is one red row. A peer that does is left out, and the row is
run again without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from iron.worker.campaign import Campaign, ask, named
from iron.worker.protocol import Message
from iron.worker.supervise import Lost, Worker


@dataclass(frozen=True, slots=True)
class Timed:
    """One bench: its row of figures, or the kind and text of what went wrong."""

    backend: str
    kernel: str
    tags: str
    shape: str
    row: dict[str, Any] | None = None
    machine: dict[str, Any] = field(default_factory=dict[str, Any])
    kind: str = ""
    text: str = ""

    @property
    def name(self) -> str:
        """Kernel, tags and sizes: `softmax[f32](R=64,N=148Ki)`."""
        return f"{named(self.kernel, self.tags)}({self.shape})"


@dataclass(frozen=True, slots=True)
class Season:
    """What to time. `campaign` says which kernels and how workers are started.

    With `tune` a row is the fastest configuration of a bench that has some, searched `again` where
    that is known.
    """

    campaign: Campaign
    cold: bool = True
    peers: tuple[str, ...] = ()
    beside: str = ""
    limits: dict[str, Any] = field(default_factory=dict[str, Any])
    tune: bool = False
    again: bool = False
    beat: Callable[[str, str], None] | None = None

    @property
    def backend(self) -> str:
        """The backend that is timed."""
        return self.campaign.backends[0]

    def run(self) -> Iterator[Timed]:
        """The rows in the order of the kernels; raises `Lost` when the backend cannot be used here
        or the packages cannot be walked."""
        campaign = self.campaign
        with Worker(campaign.command(self.backend), campaign.limits) as worker:
            backends = [b for b in (self.backend, self.beside) if b]
            _, fault = ask(worker, {"do": "ready", "backends": backends})
            if fault is not None:
                raise Lost("unready", fault[1])
            for module in self._modules(worker):
                for blank, index in self._listed(worker, module):
                    timed = blank if index is None else self._point(worker, module, index, blank)
                    yield timed
                    if campaign.fail_fast and timed.row is None:
                        return

    def named(self) -> Iterator[Timed]:
        """What `run` would time, without rows; with a kind, what cannot be listed."""
        with Worker(self.campaign.command(self.backend), self.campaign.limits) as worker:
            for module in self._modules(worker):
                for blank, _ in self._listed(worker, module):
                    yield blank

    def _modules(self, worker: Worker) -> list[str]:
        answers = worker.ask({"do": "modules", "packages": self.campaign.packages})
        if answers and answers[-1]["type"] == "error":
            raise Lost("error", answers[-1]["text"])
        return [a["name"] for a in answers]

    def _listed(self, worker: Worker, module: str) -> Iterator[tuple[Timed, int | None]]:
        """The chosen benches of a module and their numbers; none where one cannot be listed."""
        request = {"do": "benches", "module": module, "dtypes": self.campaign.dtypes}
        listed, fault = ask(worker, request)
        if fault is not None:
            yield Timed(self.backend, module, "", "", kind=fault[0], text=fault[1]), None
        for point in listed:
            if point["type"] == "suite":
                if self.campaign.chosen(point["kernel"]):
                    blank = Timed(self.backend, point["kernel"], "", "")
                    yield replace(blank, kind="suite", text=point["text"]), None
                continue
            blank = Timed(self.backend, point["kernel"], point["tags"], point["shape"])
            if self.campaign.chosen(blank.name) and (point["space"] > 1 or not self.tune):
                yield blank, point["index"]

    def _point(self, worker: Worker, module: str, index: int, blank: Timed) -> Timed:
        without: list[str] = []
        while True:
            request: Message = {
                "do": "tune" if self.tune else "bench",
                "module": module,
                "kernel": blank.kernel,
                "index": index,
                "cold": self.cold,
                "peers": self.peers,
                "beside": self.beside,
                "without": without,
                "seed": self.campaign.seed,
                "limits": self.limits,
                "again": self.again,
            }
            said: list[str] = []
            done = self._ask(worker, request, blank, said)
            blamed = said[-1].removeprefix("peer ") if said and said[-1][:5] == "peer " else ""
            lost = done.kind in ("crash", "hang", "memory")
            if not lost or not blamed or blamed in without:
                return done
            without.append(blamed)

    def _ask(self, worker: Worker, request: Message, blank: Timed, said: list[str]) -> Timed:
        """The row; what the worker said on the way is added to `said`."""

        def hear(message: Message) -> None:
            if message["type"] == "beat":
                said.append(message["text"])
                if self.beat is not None:
                    self.beat(blank.name, message["text"])

        try:
            answers = worker.ask(request, hear)
        except Lost as lost:
            return replace(blank, kind=lost.kind, text=lost.text)
        last = answers[-1]
        if last["type"] != "row":
            return replace(blank, kind=last["kind"], text=last["text"])
        return replace(blank, row=last["row"], machine=last["machine"])
