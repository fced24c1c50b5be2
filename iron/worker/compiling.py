"""A worker's answer to `build`: the code of some cases of a kernel for one target.

One message for each different kernel: its manifest record, with its files written below `into`
when that is given, or why it could not be built.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iron.check.expand import ConcreteCase
from iron.check.prepare import Prepared, prepare
from iron.check.specialisations import specialise
from iron.emit.build import build, text
from iron.emit.directory import write
from iron.emit.family import Destination
from iron.emit.manifest import Specialised
from iron.emit.targets import destination
from iron.errors import KernelError
from iron.lang.declare import PlanFunction
from iron.worker.protocol import Message

FRAMES_SHOWN = 4


@dataclass(slots=True)
class Compiling:
    """Builds on request; the arguments of the last group of cases are kept for its next target."""

    held: dict[int, Prepared] = field(default_factory=dict[int, Prepared])
    group: tuple[object, ...] = ()

    def answer(self, request: Message, found: Sequence[ConcreteCase]) -> Iterator[Message]:
        """The messages for `request`, whose `indices` name cases in `found`."""
        group = (request["module"], request["kernel"], *request["indices"])
        if group != self.group:
            self.held, self.group = {}, group
        to = destination(request["target"])
        seen: set[str] = set()
        for index in request["indices"]:
            case = found[index]
            if isinstance(case.kernel, PlanFunction):
                continue  # it is the kernels that it launches
            try:
                if index not in self.held:
                    self.held[index] = prepare(case)
                of = specialise(case, self.held[index], to.target)
                if of is None or of.symbol in seen:
                    continue
                seen.add(of.symbol)
                yield _built(of, to, request)
            except Exception as fault:
                yield {"type": "refused", "case": case.label, "text": _told(fault)}


def _built(of: Specialised, to: Destination, request: Message) -> Message:
    if request.get("text"):
        return {"type": "text", "alias": of.alias, "symbol": of.symbol, "text": text(of, to)}
    made = build(of, to, request["kinds"])
    if request["into"]:
        for path, data in made.files.items():
            write(Path(request["into"]), path, data)
    return {"type": "built", "record": dict(made.record), "seconds": dict(made.seconds)}


def _told(fault: Exception) -> str:
    if isinstance(fault, KernelError):
        return str(fault)
    return "".join(traceback.format_exception(fault, limit=-FRAMES_SHOWN)).rstrip()
