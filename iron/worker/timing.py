"""A worker's answers about benches: which a module has, and the row of one.

Between the parts of a row it sends a beat, so that silence means a hanging kernel.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import Any

from iron.bench.ceilings import Scale, flush
from iron.bench.contest import Options, Row, contest
from iron.bench.measure import Beside
from iron.bench.points import Point, points
from iron.bench.search import search, space
from iron.bench.verify import Wrong
from iron.check.expand import Declared
from iron.check.tolerance import CaseError
from iron.errors import KernelError
from iron.runtime.current import use
from iron.runtime.driver import Driver, driver
from iron.worker import discover
from iron.worker.protocol import Message


class Timing:
    """Benches on one backend; the kernels that set the scale are bound once."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._scale: Scale | None = None
        self._beside: dict[tuple[str, bool], Beside] = {}

    def __call__(self, request: Message) -> Iterator[Message]:
        """Answers `benches`, the list of a module, `bench`, the row of one, and `tune`, the
        fastest configuration of one."""
        found = discover.kernels(request["module"])
        if request["do"] == "benches":
            for name, kernel in found.items():
                yield from self._listing(name, kernel, set(request["dtypes"]))
            return
        point = points(found[request["kernel"]])[request["index"]]
        yield from self._told(
            self._search if request["do"] == "tune" else self._row, point, request
        )

    def _listing(self, name: str, kernel: Declared, dtypes: set[str]) -> Iterator[Message]:
        try:
            every = points(kernel)
        except KernelError as fault:
            yield {"type": "suite", "kernel": name, "text": str(fault)}
            return
        for index, point in enumerate(every):
            named = {str(t) for t in point.case.dtypes.values()}
            if not dtypes or not named or named & dtypes:
                yield {
                    "type": "point",
                    "kernel": name,
                    "index": index,
                    "tags": point.tags,
                    "shape": point.shape,
                    "space": len(space(kernel, point.case)),
                }

    def _told(
        self, run: Callable[[Point, Message], Iterator[str | Row]], point: Point, request: Message
    ) -> Iterator[Message]:
        chosen = driver(self._backend)
        if self._scale is None:
            yield {"type": "beat", "text": "ceilings"}
            self._scale = Scale(chosen)
        try:
            for said in run(point, request):
                if isinstance(said, str):
                    yield {"type": "beat", "text": said}
                else:
                    yield {"type": "row", "row": said, "machine": machine(chosen)}
        except Wrong as fault:
            yield {"type": "fault", "kind": "wrong", "text": str(fault)}
        except CaseError as fault:
            yield {"type": "fault", "kind": "error", "text": f"bench: {fault}"}

    def _row(self, point: Point, request: Message) -> Iterator[str | Row]:
        options = Options(
            cold=request["cold"],
            peers=tuple(request["peers"]),
            without=tuple(request["without"]),
            seed=request["seed"],
            limits=request.get("limits", {}),
        )
        assert self._scale is not None
        other = self._other(request.get("beside", ""), options.cold)
        yield from contest(point, driver(self._backend), self._scale, options, other)

    def _search(self, point: Point, request: Message) -> Iterator[str | Row]:
        assert self._scale is not None
        return search(
            point,
            driver(self._backend),
            self._scale,
            request["cold"],
            request["seed"],
            request.get("limits", {}),
            request.get("again", False),
        )

    def _other(self, backend: str, cold: bool) -> Beside | None:
        """Where the kernel runs too, with what empties the caches there."""
        if not backend:
            return None
        if (backend, cold) not in self._beside:
            other = driver(backend)
            with use(other):
                self._beside[backend, cold] = Beside(other, flush(other) if cold else None)
        return self._beside[backend, cold]


def machine(chosen: Driver) -> dict[str, Any]:
    """What the figures were measured on: device, driver, compiler."""
    from iron.runtime.device import device_of, report

    facts = dict(report(chosen.name).facts)
    target = chosen.target()
    return {
        "device": device_of(chosen),
        "target": " ".join(t for t in (target.name, target.cpu) if t),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{k: v for k, v in facts.items() if isinstance(v, str | int)},
    }
