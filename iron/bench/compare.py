"""Two runs side by side: what became slower, what faster, what appeared and what is gone.

A change counts when the medians differ by more than the threshold, the bands of the middle 60 % of
the timings do not meet, and both still hold when each time is taken in units of what the machine
could do at that moment: its ceilings stand in every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from iron.bench import ceilings as ceilings_of
from iron.bench import spread as spread_of
from iron.bench.ceilings import Ceilings
from iron.bench.snapshot import Document, name_of
from iron.bench.spread import Spread
from iron.errors import error

THRESHOLD: Final = 5.0
SORTS: Final = ("name", "delta", "pct")
TINY: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Change:
    """One row in both runs: seconds before and after, and the machine's limits after over before.

    `kind` is `slower`, `faster` or `same`.
    """

    name: str
    before: float
    after: float
    machine: float
    kind: str

    @property
    def delta(self) -> float:
        """Seconds more."""
        return self.after - self.before

    @property
    def percent(self) -> float:
        """Per cent more."""
        return 100.0 * (self.after / self.before - 1.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows: changes, names that only one run has, and what else differs."""

    changes: tuple[Change, ...]
    added: tuple[str, ...]
    gone: tuple[str, ...]
    notes: tuple[str, ...]

    def of(self, kind: str) -> tuple[Change, ...]:
        """The changes of one kind."""
        return tuple(c for c in self.changes if c.kind == kind)


def compare(
    before: Document, after: Document, threshold: float = THRESHOLD, sort: str = "pct"
) -> Comparison:
    """Compares rows of equal names; `threshold` is in per cent. Errors: E0803 for an odd order."""
    if sort not in SORTS:
        raise error("E0803", f"--sort {sort}", help=f"orders are {', '.join(SORTS)}")
    old = {name_of(r): r for r in before["rows"]}
    new = {name_of(r): r for r in after["rows"]}
    changes = [_change(n, old[n], new[n], threshold) for n in new if n in old]
    keys = {
        "name": lambda c: c.name,
        "delta": lambda c: -c.delta,
        "pct": lambda c: -c.percent,
    }
    return Comparison(
        tuple(sorted(changes, key=keys[sort])),
        tuple(n for n in new if n not in old),
        tuple(n for n in old if n not in new),
        _notes(before, after),
    )


def _change(name: str, old: Mapping[str, Any], new: Mapping[str, Any], threshold: float) -> Change:
    was, now = spread_of.read(old["time"]), spread_of.read(new["time"])
    machine = _machine(old, new)
    kinds = {_kind(was, now, 1.0, threshold), _kind(was, now, machine, threshold)}
    kind = kinds.pop() if len(kinds) == 1 else "same"
    return Change(name, was.median, now.median, machine, kind)


def _kind(was: Spread, now: Spread, machine: float, threshold: float) -> str:
    """`slower`, `faster` or `same`, on a machine whose limits take `machine` times as long."""
    percent = 100.0 * (now.median / (was.median * machine) - 1.0)
    meet = now.p20 <= was.p80 * machine and was.p20 * machine <= now.p80
    if abs(percent) <= threshold or meet:
        return "same"
    return "slower" if percent > 0 else "faster"


def _machine(old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
    """By what factor the row's own limit became slower between the runs."""
    was, now = ceilings_of.read(old["ceilings"]), ceilings_of.read(new["ceilings"])
    return _limit(new, now) / _limit(new, was)


def _limit(row: Mapping[str, Any], ceilings: Ceilings) -> float:
    moved = row["read"] + row["written"]
    memory = ceilings.read if row["written"] < 0.1 * row["read"] else ceilings.copy
    return max(moved / memory, (row["flops"] or 0.0) / ceilings.operations, ceilings.launch, TINY)


def _notes(before: Document, after: Document) -> tuple[str, ...]:
    out: list[str] = []
    for field, what in (("backend", "backends"), ("machine", "machines")):
        old, new = before[field], after[field]
        if field == "machine":
            old, new = old.get("device"), new.get("device")
        if old != new:
            out.append(f"different {what}: {old}, {new}")
    return tuple(out)
