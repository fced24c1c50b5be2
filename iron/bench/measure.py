"""The protocol of a measurement: contenders in turns, the caches emptied before each timed call.

A turn is A, B, C, .. A, B, C, ..: what the machine does meanwhile happens to all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter, process_time, sleep
from typing import Any

from iron.bench.spread import Spread, spread
from iron.runtime.driver import Driver

Call = Callable[[], Any]

LEAST = 30
"""Timings a contender gets at least."""

MOST = 300
SECONDS = 1.5
"""Of timed calls that a row aims at, between `LEAST` and `MOST` turns."""

LOOK = 0.5e-3
MOST_REST = 0.5
"""Seconds between two looks at the processor time used, and before it is no longer waited for."""

SPARING = 4
"""A contender that sets the scale takes part in every fourth turn."""


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """Another driver whose calls take turns with those of the first, by its own clock.

    `before` empties the caches there.
    """

    driver: Driver
    before: Call | None


@dataclass(frozen=True, slots=True)
class Contender:
    """What is timed, `beside` another driver or on the first; `sparing` ones skip some turns."""

    name: str
    call: Call
    sparing: bool = False
    beside: Beside | None = None


@dataclass(frozen=True, slots=True)
class Protocol:
    """How turns are taken: `before` runs untimed ahead of each timed call.

    With None the call itself does, so that it finds its data where its last run left it.
    """

    before: Call | None
    least: int = LEAST
    most: int = MOST
    seconds: float = SECONDS

    @property
    def cache(self) -> str:
        """The state of the caches at the start of a timed call."""
        return "warm" if self.before is None else "cold"


@dataclass(slots=True)
class Timings:
    """Seconds by contender, as they come in."""

    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def spreads(self) -> dict[str, Spread]:
        """The figures of each contender."""
        return {name: spread(values) for name, values in self.seconds.items()}


def measure(
    driver: Driver, contenders: list[Contender], protocol: Protocol, timings: Timings
) -> Iterator[tuple[int, int]]:
    """Adds timings of the contenders; yields turns done and turns in all."""
    _settle(driver, contenders)
    here = Beside(driver, protocol.before)
    turns = _turns(driver, contenders, protocol)
    for turn in range(turns):
        now = [c for c in contenders if not c.sparing or turn % SPARING == 0]
        for where in dict.fromkeys(c.beside or here for c in now):
            mine = [c for c in now if (c.beside or here) is where]
            calls: list[Callable[[], None]] = []
            for contender in mine:
                calls += [where.before or contender.call, contender.call]
            for contender, seconds in zip(mine, where.driver.elapsed(calls)[1::2], strict=True):
                timings.seconds.setdefault(contender.name, []).append(seconds)
        yield turn + 1, turns


def rest(most: float = MOST_REST) -> None:
    """Waits until this process stands still, at most so many seconds.

    Libraries let their threads spin for up to a fifth of a second after a call, on cores that the
    next contender needs.
    """
    until = perf_counter() + most
    while perf_counter() < until:
        used = process_time()
        sleep(LOOK)
        if process_time() - used < LOOK / 2:
            return


def _settle(driver: Driver, contenders: list[Contender]) -> None:
    """Compiles what is compiled on first use and touches every page, twice each."""
    for contender in contenders:
        contender.call()
        contender.call()
        if contender.beside is not None:
            contender.beside.driver.synchronise()
    driver.synchronise()


def _turns(driver: Driver, contenders: list[Contender], protocol: Protocol) -> int:
    contenders = [c for c in contenders if c.beside is None]
    taken: Mapping[str, float] = dict(
        zip(
            [c.name for c in contenders],
            driver.elapsed([c.call for c in contenders]),
            strict=True,
        )
    )
    a_turn = sum(taken.values()) or 1e-9
    wanted = int(protocol.seconds / a_turn)
    return max(protocol.least, min(protocol.most, wanted))
