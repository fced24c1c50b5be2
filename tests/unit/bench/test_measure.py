"""The order of calls: turns, the flush before each timed call, sparing contenders, how many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from time import perf_counter

import pytest

from iron.bench.measure import SPARING, Beside, Contender, Protocol, Timings, measure, rest


class Recorder:
    """A driver whose clock ticks as each call says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def named(self, name: str, seconds: float = 1e-3) -> Callable[[], float]:
        def call() -> float:
            self.said.append(name)
            return seconds

        return call

    def elapsed(self, calls: Sequence[Callable[[], float]]) -> list[float]:
        return [call() for call in calls]

    def synchronise(self) -> None:
        self.said.append("synchronise")


def run(driver: Recorder, contenders: list[Contender], protocol: Protocol) -> Timings:
    timings = Timings()
    for _ in measure(driver, contenders, protocol, timings):
        pass
    return timings


def test_contenders_take_turns_behind_a_flush():
    driver = Recorder()
    contenders = [Contender(n, driver.named(n)) for n in "ab"]
    run(driver, contenders, Protocol(driver.named("flush"), least=3, most=3))
    assert driver.said[:5] == ["a", "a", "b", "b", "synchronise"]
    assert driver.said[5:7] == ["a", "b"]
    assert driver.said[7:] == ["flush", "a", "flush", "b"] * 3


def test_warm_calls_follow_themselves():
    driver = Recorder()
    protocol = Protocol(None, least=2, most=2)
    run(driver, [Contender(n, driver.named(n)) for n in "ab"], protocol)
    assert driver.said[7:] == ["a", "a", "b", "b"] * 2
    assert protocol.cache == "warm"


def test_the_flush_is_never_in_a_time():
    driver = Recorder()
    flush = driver.named("flush", 9.0)
    timings = run(driver, [Contender("a", driver.named("a", 0.25))], Protocol(flush, 5, 5))
    assert timings.seconds == {"a": [0.25] * 5}


def test_another_driver_takes_its_turn_by_its_own_clock():
    first, second = Recorder(), Recorder()
    beside = Beside(second, second.named("flush", 9.0))
    contenders = [
        Contender("a", first.named("a", 0.25)),
        Contender("b", second.named("b", 0.5), beside=beside),
    ]
    timings = run(first, contenders, Protocol(first.named("flush"), least=3, most=3))
    assert timings.seconds == {"a": [0.25] * 3, "b": [0.5] * 3}
    assert first.said == ["a", "a", "synchronise", "a", *["flush", "a"] * 3]
    assert second.said == ["b", "b", "synchronise", *["flush", "b"] * 3]


def test_those_that_set_the_scale_take_every_fourth_turn():
    driver = Recorder()
    contenders = [Contender("a", driver.named("a")), Contender("s", driver.named("s"), True)]
    timings = run(driver, contenders, Protocol(None, 12, 12))
    assert len(timings.seconds["a"]) == 12
    assert len(timings.seconds["s"]) == 12 // SPARING


@pytest.mark.parametrize(("each", "turns"), [(10.0, 30), (0.01, 150), (1e-6, 300)])
def test_at_least_thirty_timings(each: float, turns: int):
    driver = Recorder()
    timings = run(driver, [Contender("a", driver.named("a", each))], Protocol(None))
    assert len(timings.seconds["a"]) == turns


def test_threads_that_spin_after_a_call_are_waited_for():
    """As those of numpy and torch do, on a core that the next contender needs."""

    def spin(seconds: float) -> None:
        end = perf_counter() + seconds
        while perf_counter() < end:
            pass

    def waited(seconds: float, most: float) -> float:
        spinning = Thread(target=spin, args=(seconds,))
        spinning.start()
        started = perf_counter()
        rest(most)
        spent = perf_counter() - started
        spinning.join()
        return spent

    assert waited(0.06, 5.0) > 0.05
    assert waited(0.3, 0.05) < 0.25
    assert waited(0.0, 5.0) < 4.0
