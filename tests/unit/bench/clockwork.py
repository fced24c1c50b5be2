"""The CPU driver with a clock that a test winds: a launch takes what a table says of its kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from iron.runtime.drivers.cpu import CpuDriver
from iron.runtime.launch import Handle

STREAMS = {
    "stream_copy": 3.4e-3,
    "stream_read": 2.2e-3,
    "arithmetic": 4e-3,
    "nothing": 1e-6,
}


class Clockwork(CpuDriver):
    """Runs everything; `seconds` by kernel name, with one per cent of noise."""

    def __init__(self, seconds: Mapping[str, float], seed: int = 0) -> None:
        super().__init__()
        self.seconds = {**STREAMS, **seconds}
        self.noise = np.random.default_rng(seed)

    def elapsed(self, calls: Sequence[Callable[[], Any]]) -> list[float]:
        """What the table says, after running the calls."""
        return [self.takes(call) for call in calls]

    def takes(self, call: Callable[[], Any]) -> float:
        """Runs one call."""
        call()
        name = kernel_of(call)
        return self.seconds.get(name, 1e-3) * (1 + 0.01 * self.noise.standard_normal())


def kernel_of(call: Callable[[], Any]) -> str:
    """The kernel that a handle launches; a peer has no name here."""
    if not isinstance(call, Handle):
        return "peer"
    symbol = call.executables[0].symbol
    return symbol.removeprefix("iron_")
