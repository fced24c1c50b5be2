"""What a launch costs the host: the first binding, later ones, and a bound handle."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from iron.check.expand import Declared
from iron.runtime.driver import Driver

REPEATED = 30


def first_bind(kernel: Declared, arguments: Mapping[str, Any]) -> tuple[Any, float]:
    """A handle, and the seconds until it could be called: read, lowered, compiled or fetched."""
    started = perf_counter()
    handle = kernel.bind(**arguments)
    return handle, perf_counter() - started


def later_bind(kernel: Declared, arguments: Mapping[str, Any]) -> float:
    """Seconds of checking the arguments and finding the compiled kernel; the middle of many."""
    return _middle(lambda: kernel.bind(**arguments))


def handle_call(driver: Driver, handle: Callable[[], Any]) -> float:
    """Seconds until a handle's call returns; on a device the work goes on after that.

    On a host the work is done inside the call, so there the handle is that of a kernel that does
    nothing.
    """
    taken = _middle(handle)
    driver.synchronise()
    return taken


def _middle(call: Callable[[], Any]) -> float:
    taken: list[float] = []
    for _ in range(REPEATED):
        started = perf_counter()
        call()
        taken.append(perf_counter() - started)
    return statistics.median(taken)
