"""Which launches must wait for those before them: by the memory that each reads and writes.

Launches that touch nothing of each other run side by side, and a barrier costs a small launch as
much again as the launch itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Span = tuple[int, int, int]
"""A buffer, and the first byte and the end of a part of it."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The memory that a launch reads, and what it may write."""

    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()


@dataclass(slots=True)
class Hazards:
    """What ran since the last barrier; at first, something unknown."""

    reads: list[Span] = field(default_factory=list[Span])
    writes: list[Span] = field(default_factory=list[Span])
    unknown: bool = True

    def waits(self, step: Touched | None) -> bool:
        """Whether a step needs a barrier before it; None is one that may touch anything."""
        wait = self.unknown or step is None or self._meets(step)
        if wait:
            self.reads.clear()
            self.writes.clear()
        self.unknown = step is None
        if step is not None:
            self.reads += step.reads
            self.writes += step.writes
        return wait

    def _meets(self, step: Touched) -> bool:
        return (
            overlap(step.writes, self.writes)
            or overlap(step.writes, self.reads)
            or overlap(step.reads, self.writes)
        )


def overlap(some: Iterable[Span], others: Sequence[Span]) -> bool:
    """Whether any byte is of both."""
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)
