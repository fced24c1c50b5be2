"""The protocol of a ring under random interleavings, and wrong protocols that must not survive it.

A model in which nothing but the protocol exists: barriers with phases and arrivals, fills that land
at any time, and reads that take a slot's content only when they are awaited.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import product
from random import Random

import pytest

Role = Generator[Callable[[], bool], None, None]


@dataclass
class Protocol:
    """The protocol of `iron.ir.ops.ring`, or a wrong one: what a role leaves out or does late."""

    claims: bool = True
    waits: bool = True
    awaits: bool = True
    late: bool = False
    flips: bool = True
    readers: int = 0
    restarts: bool = False


@dataclass
class Mbarrier:
    """A phase ends when all arrivals of it have come and what was promised has landed."""

    arrivals: int
    left: int = 0
    promised: int = 0
    phases: int = 0

    def __post_init__(self) -> None:
        self.left = self.arrivals

    def arrive(self, promised: int = 0) -> None:
        self.left, self.promised = self.left - 1, self.promised + promised
        self.settle()

    def land(self) -> None:
        self.promised -= 1
        self.settle()

    def settle(self) -> None:
        if self.left <= 0 and self.promised == 0:
            self.left, self.phases = self.arrivals, self.phases + 1

    def passed(self, phase: int) -> bool:
        return self.phases % 2 != phase


@dataclass
class Ring:
    """One group: `slots` slots, `consumers` readers, tiles of `trips` turns."""

    slots: int
    consumers: int
    trips: tuple[int, ...]
    protocol: Protocol
    dice: Random
    content: list[int] = field(default_factory=list)
    landing: list[Callable[[], None]] = field(default_factory=list)

    def turns(self) -> list[tuple[int, int, int]]:
        """(fill, slot, phase) of every turn."""
        out, slot, phase, fill = [], 0, 0, 0
        for trips in self.trips:
            if self.protocol.restarts:
                slot, phase = 0, 0
            for _ in range(trips):
                out.append((fill, slot, phase))
                fill, slot = fill + 1, slot + 1
                if slot == self.slots:
                    slot, phase = 0, phase ^ 1 if self.protocol.flips else phase
        return out

    def producer(self) -> Role:
        for fill, slot, phase in self.turns():
            if self.protocol.claims:
                yield lambda s=slot, p=phase: self.free[s].passed(p ^ 1)
            self.full[slot].arrive(1)

            def land(slot: int = slot, fill: int = fill) -> None:
                self.content[slot] = fill
                self.full[slot].land()

            self.landing.append(land)
            yield lambda: True

    def consumer(self) -> Role:
        before: int | None = None
        for fill, slot, phase in self.turns():
            if self.protocol.waits:
                yield lambda s=slot, p=phase: self.full[s].passed(p)
            if not self.protocol.awaits:
                self.free[slot].arrive()
                yield lambda: True
            yield lambda: True
            assert self.content[slot] == fill, "a slot is read that holds another tile"
            if self.protocol.awaits and not self.protocol.late:
                self.free[slot].arrive()
            if self.protocol.late and before is not None:
                self.free[before].arrive()
            before = slot
        if self.protocol.late and before is not None:
            self.free[before].arrive()

    def run(self) -> None:
        """Raises AssertionError for a wrong read, or when nobody can go on."""
        count = self.protocol.readers or self.consumers
        self.full = [Mbarrier(1) for _ in range(self.slots)]
        self.free = [Mbarrier(count) for _ in range(self.slots)]
        self.content = [-1] * self.slots
        roles = [self.producer(), *(self.consumer() for _ in range(self.consumers))]
        waiting = [(role, [lambda: True]) for role in roles]
        while waiting or self.landing:
            ready = [w for w in waiting if w[1][0]()]
            if self.landing and (not ready or self.dice.random() < 0.4):
                self.landing.pop(self.dice.randrange(len(self.landing)))()
                continue
            assert ready, "nobody can go on"
            chosen = self.dice.choice(ready)
            try:
                chosen[1][0] = next(chosen[0])
            except StopIteration:
                waiting.remove(chosen)


def trips(slots: int) -> list[int]:
    return sorted({0, 1, slots - 1, slots, slots + 1, 3 * slots})


def survives(slots: int, consumers: int, tiles: int, protocol: Protocol, seeds: int) -> bool:
    for count, seed in product(trips(slots), range(seeds)):
        try:
            Ring(slots, consumers, (count,) * tiles, protocol, Random(seed)).run()
        except AssertionError:
            return False
    return True


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("consumers", [1, 2, 3])
def test_the_protocol_holds(slots, consumers):
    for tiles in (1, 2, 3):
        assert survives(slots, consumers, tiles, Protocol(), seeds=3)


def test_uneven_tiles():
    for seed in range(30):
        dice = Random(seed)
        counts = tuple(dice.randrange(7) for _ in range(3))
        Ring(dice.randrange(1, 5), dice.randrange(1, 4), counts, Protocol(), dice).run()


@pytest.mark.parametrize(
    ("wrong", "slots"),
    [
        (Protocol(late=True), (1,)),  # each waits for the other
        (Protocol(claims=False), (1, 2, 3)),
        (Protocol(waits=False), (1, 2, 3)),
        (Protocol(awaits=False), (1, 2, 3)),
        (Protocol(flips=False), (1, 2, 3)),
        (Protocol(readers=1), (1, 2, 3)),
        (Protocol(readers=3), (1, 2, 3)),
        (Protocol(restarts=True), (2, 3)),
    ],
    ids=lambda v: str(v) if not isinstance(v, Protocol) else repr(v)[9:60],
)
def test_wrong_protocols_fail(wrong, slots):
    for count in slots:
        assert not survives(count, 2, 3, wrong, seeds=20)


def test_a_late_release_needs_two_slots():
    """Which is why nothing is freed late: any number of slots works."""
    assert survives(2, 2, 3, Protocol(late=True), seeds=5)
