"""Work in the order of its launches: what is under way, what failed, and how long it took."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from iron.errors import KernelError
from iron.runtime.drivers.metal.api import Api
from iron.runtime.drivers.metal.faults import failed

MOST = 32
"""Launches under way; a queue of Metal holds twice as many before it blocks."""


class Queue:
    """One device's launches. Metal runs them in order where they share memory."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._under_way: deque[tuple[Any, str]] = deque()
        self._taken: list[Any] | None = None

    def launch(
        self,
        kernel: str,
        pipeline: Any,
        buffers: Sequence[tuple[Any, int]],
        values: bytes,
        groups: int,
        threads: int,
    ) -> None:
        """Starts a launch; a fault of an earlier one may be raised here."""
        command = self.api.launch(pipeline, buffers, values, groups, threads)
        self._under_way.append((command, kernel))
        if self._taken is not None:
            self._taken.append(command)
        if len(self._under_way) > MOST:
            fault = self._finish()
            if fault is not None:
                raise fault

    def wait(self) -> None:
        """Returns when everything launched is done. Errors: that of the first that failed."""
        faults = [self._finish() for _ in range(len(self._under_way))]
        for fault in faults:
            if fault is not None:
                raise fault

    def _finish(self) -> KernelError | None:
        """Waits for the oldest launch under way, unless another thread has; its fault."""
        try:
            command, kernel = self._under_way.popleft()
        except IndexError:
            return None
        fault = self.api.wait(command)
        return failed(kernel, fault) if fault is not None else None

    def elapsed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        """Runs the calls in order; the GPU's seconds from the begin of each one to its end."""
        taken: list[list[Any]] = []
        try:
            for call in calls:
                self._taken = []
                call()
                taken.append(self._taken)
        finally:
            self._taken = None
        self.wait()
        return [self._seconds(commands) for commands in taken]

    def _seconds(self, commands: Sequence[Any]) -> float:
        spans = [self.api.span(command) for command in commands]
        return max(0.0, spans[-1][1] - spans[0][0]) if spans else 0.0
