"""The access log: who touched an element last, and whether two threads race on it.

A code names one access: the serial number of the running op above the number of the thread in the
whole launch. A barrier remembers the serial number at which a group passed it, so an earlier
access of the same group has a smaller serial number and is ordered; threads of different groups
are never ordered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.ir.core import Op

LANE_BITS = 32
LANE_MASK = (1 << LANE_BITS) - 1
NOBODY = -1

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Access:
    """What one op touches: an address, thread, last barrier and code for each element."""

    kind: str  # "reads", "writes" or "updates"
    op: Op
    at: Array
    lanes: Array
    since: Array
    codes: Array


@dataclass(slots=True)
class Clash:
    """Two accesses that race: the position in the new access, and the code of the old one."""

    position: int
    code: int
    kind: str


class Trace:
    """The last two distinct threads that touched each element, and the first of two groups.

    Within a group the latest two suffice, since later accesses are the unordered ones; between
    groups one thread each of two groups suffices, since no barrier orders them.
    """

    __slots__ = ("first", "foreign", "last", "other", "threads")

    def __init__(self, size: int, threads: int, across: bool) -> None:
        self.threads = threads
        self.last = np.full(size, NOBODY, np.int64)
        self.other = np.full(size, NOBODY, np.int64)
        self.first = np.full(size, NOBODY, np.int64) if across else None
        self.foreign = np.full(size, NOBODY, np.int64) if across else None

    def clash(self, new: Access, kind: str) -> Clash | None:
        """The first element of `new` that an unordered thread touched before."""
        for slot in (self.last, self.other, self.first, self.foreign):
            if slot is None:
                continue
            found = unordered(slot.take(new.at), new, self.threads)
            if found is not None:
                return Clash(found, int(slot[new.at[found]]), kind)
        return None

    def note(self, new: Access) -> None:
        """Remembers the access."""
        at, codes, lanes = new.at, new.codes, new.lanes
        before = self.last.take(at)
        moved = (before & LANE_MASK) != lanes
        if moved.any():
            self.other[at[moved]] = before[moved]
        self.last[at] = codes
        lost = self.last.take(at) != codes
        if lost.any():
            self.other[at[lost]] = codes[lost]
        if self.first is not None and self.foreign is not None:
            self._note_groups(self.first, self.foreign, new)

    def _note_groups(self, first: Array, foreign: Array, new: Access) -> None:
        at, codes, lanes = new.at, new.codes, new.lanes
        fresh = first.take(at) == NOBODY
        if fresh.any():
            first[at[fresh]] = codes[fresh]
        who = first.take(at) & LANE_MASK
        away = who != lanes
        if away.any():
            away &= (who // self.threads != lanes // self.threads) & (foreign.take(at) == NOBODY)
            foreign[at[away]] = codes[away]


def unordered(old: Array, new: Access, threads: int) -> int | None:
    """The first position whose old access is by another thread and not ordered by a barrier."""
    foreign = ((old & LANE_MASK) != new.lanes) & (old != NOBODY)
    if not foreign.any():
        return None
    at = np.flatnonzero(foreign)
    before, lanes = old[at], new.lanes[at]
    bad = before >> LANE_BITS >= new.since[at]
    bad |= (before & LANE_MASK) // threads != lanes // threads
    return int(at[np.argmax(bad)]) if bad.any() else None


class Log:
    """The accesses of one tensor: its last writer, its readers, its atomic updates."""

    __slots__ = ("reads", "threads", "updates", "writes")

    def __init__(self, size: int, threads: int, across: bool, atomics: bool) -> None:
        self.threads = threads
        self.writes = np.full(size, NOBODY, np.int64)
        self.reads = Trace(size, threads, across)
        self.updates = Trace(size, threads, across) if atomics else None

    def take(self, new: Access) -> Clash | None:
        """Enters an access, or returns what it races with."""
        found = self._written(new)
        if found is None and new.kind != "reads":
            found = self.reads.clash(new, "reads")
        if found is None and self.updates is not None and new.kind != "updates":
            found = self.updates.clash(new, "updates")
        return found or self._enter(new)

    def _written(self, new: Access) -> Clash | None:
        old = self.writes.take(new.at)
        found = unordered(old, new, self.threads)
        return None if found is None else Clash(found, int(old[found]), "writes")

    def _enter(self, new: Access) -> Clash | None:
        if new.kind == "reads":
            self.reads.note(new)
        elif new.kind == "updates" and self.updates is not None:
            self.updates.note(new)
        elif new.kind == "writes":
            self.writes[new.at] = new.codes
            lost = self.writes.take(new.at) != new.codes
            if lost.any():
                found = int(np.argmax(lost))
                return Clash(found, int(self.writes[new.at[found]]), "writes")
        return None
