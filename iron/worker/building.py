"""Builds every kernel of a campaign for some targets: one row a target, dtype and variant.

What was built is collected; a kernel that cannot be built is a red row and stops nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from iron.worker.campaign import Campaign, Fault, Row, ask, named
from iron.worker.protocol import Message
from iron.worker.supervise import Worker


@dataclass(slots=True)
class Order:
    """What to build, and what came of it.

    `text` asks for the text of each kernel instead of artefacts of `kinds`; artefacts are written
    below `into` unless that is empty. `made` holds the answers with their target.
    """

    targets: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    into: str = ""
    text: bool = False
    made: list[tuple[str, Message]] = field(default_factory=list[tuple[str, Message]])

    def trial(
        self, campaign: Campaign, worker: Worker, backend: str, module: str, kernel: str
    ) -> Building:
        """What a campaign does with each kernel."""
        return Building(self, campaign, worker, module, kernel)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The manifest records of everything that was built."""
        return [answer["record"] for _, answer in self.made if answer["type"] == "built"]

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by pass and backend, over everything that was built."""
        total: dict[str, float] = {}
        for _, answer in self.made:
            for name, spent in answer.get("seconds", {}).items():
                total[name] = total.get(name, 0.0) + spent
        return total


@dataclass(slots=True)
class Building:
    """One kernel, while it is built."""

    order: Order
    campaign: Campaign
    worker: Worker
    module: str
    kernel: str
    unfit: str = ""
    tried: bool = False

    def rows(self, answer: Message) -> Iterator[Row]:
        """A row for each target."""
        if answer["type"] == "suite":
            self.unfit = answer["text"]
        elif self.campaign.chosen(named(self.kernel, answer["label"])):
            self.tried = True
            for target in self.order.targets:
                row = self._build(answer, target)
                if row.cases or row.faults:
                    yield row

    def unserved(self) -> Iterator[Row]:
        """A red row for a kernel without cases: nothing says what to build."""
        if self.unfit and not self.tried and self.campaign.chosen(self.kernel):
            fault = Fault("suite", "error", self.unfit)
            yield Row("", self.kernel, "", 0, 0.0, (fault,), "kernels")

    def _build(self, group: Message, target: str) -> Row:
        request: Message = {
            "do": "build",
            "module": self.module,
            "kernel": self.kernel,
            "indices": [index for index, _, _ in group["cases"]],
            "target": target,
            "kinds": self.order.kinds,
            "into": self.order.into,
            "text": self.order.text,
        }
        started = perf_counter()
        answers, fault = ask(self.worker, request)
        faults = [Fault(a["case"], "error", a["text"]) for a in answers if a["type"] == "refused"]
        if fault is not None:
            faults.append(Fault(group["label"], *fault))
        made = [(target, a) for a in answers if a["type"] != "refused"]
        self.order.made += made
        spent = perf_counter() - started
        return Row(target, self.kernel, group["label"], len(made), spent, tuple(faults), "kernels")
