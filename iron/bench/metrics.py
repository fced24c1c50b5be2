"""What follows from a row's timings: rates, shares of the ceilings, verdicts and doubts.

Pure arithmetic on documents; nothing is run. Each figure's definition is in docs/measuring.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from iron.bench import ceilings as ceilings_of
from iron.bench import spread as spread_of
from iron.bench.ceilings import Ceilings
from iron.bench.spread import Spread

AHEAD = 1.03
"""A peer's time over ours from which a row is ahead, unless their bands overlap."""

NEAR = 0.9
"""The share of the limit from which a row is near it."""

READS_MOSTLY = 0.1
"""Written over read bytes below which the read ceiling is the limit, not that of a copy."""

UNSTEADY = 0.1
OVER = 1.05
"""A rate this far above its ceiling is not believed."""

LAUNCHES = 3.0
"""Times of an empty launch below which a row measures launching."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Peer:
    """The peer that a row is compared with."""

    name: str
    version: str
    time: Spread
    error: float


@dataclass(frozen=True, slots=True)
class Figures:
    """A row's derived figures; None where a part is not declared or not measured.

    `bandwidth` and `arithmetic` are shares of their ceilings, `intensity` is operations a byte,
    `limit` the seconds below which the ceilings say no kernel can be.
    """

    time: Spread
    rate: float
    gflops: float | None
    bandwidth: float
    arithmetic: float | None
    intensity: float | None
    limit: float
    share: float
    bottleneck: str
    best: Peer | None
    ratio: float | None
    verdict: str
    near: bool
    doubts: tuple[str, ...]
    launch: float

    @property
    def apart(self) -> float:
        """`share` with the time of an empty launch set apart: what the kernel itself reaches.

        At most 1: a launch overlaps with the first and last groups of a kernel.
        """
        return self.limit / max(self.limit, self.time.median - self.launch)

    @property
    def most(self) -> float | None:
        """The best peer's time over the limit: `ratio` where the row takes no longer than that."""
        return self.best.time.median / self.limit if self.best and self.limit else None

    @property
    def words(self) -> str:
        """The verdict as the table shows it."""
        return " ".join(w for w in (self.verdict, "NEAR-LIMIT" if self.near else "") if w)


def figures(row: Row, top: Ceilings) -> Figures:
    """The figures of one row; `top` holds the best ceilings of the whole run."""
    time = spread_of.read(row["time"])
    here = ceilings_of.read(row["ceilings"])
    moved, flops = row["read"] + row["written"], row["flops"]
    memory = _memory(row, here)
    rate, operations = moved / time.median, flops / time.median if flops else None
    limit = max(moved / memory, flops / here.operations if flops else 0.0)
    share = limit / time.median
    best = best_peer(row)
    ratio = best.time.median / time.median if best else None
    return Figures(
        time,
        rate / 1e9,
        operations / 1e9 if operations else None,
        rate / memory,
        operations / here.operations if operations else None,
        flops / moved if flops and moved else None,
        limit,
        share,
        bottleneck(row, here, share),
        best,
        ratio,
        _verdict(time, best, ratio),
        NEAR <= share <= OVER,
        doubts(row, top),
        here.launch,
    )


def _memory(row: Row, ceilings: Ceilings) -> float:
    """The bytes a second that bound the row."""
    return ceilings.read if row["written"] < READS_MOSTLY * row["read"] else ceilings.copy


def best_peer(row: Row) -> Peer | None:
    """The fastest peer whose result agreed."""
    timed = [p for p in row["peers"] if "time" in p]
    found = [Peer(p["name"], p["version"], spread_of.read(p["time"]), p["error"]) for p in timed]
    return min(found, key=lambda p: p.time.median, default=None)


def _verdict(time: Spread, best: Peer | None, ratio: float | None) -> str:
    if best is None or ratio is None:
        return ""
    if time.overlaps(best.time) or 1 / AHEAD <= ratio <= AHEAD:
        return "TIED"
    return "AHEAD" if ratio > AHEAD else "BEHIND"


def bottleneck(row: Row, ceilings: Ceilings, share: float) -> str:
    """What the row is held by, from its place on the roofline and the compiler's report."""
    if row["time"]["median"] < LAUNCHES * ceilings.launch:
        return "latency"
    found = row["resources"]
    if found.get("spill_bytes"):
        return "registers"
    if found.get("occupancy", 100) < 25:
        return "occupancy"
    moved, flops = row["read"] + row["written"], row["flops"] or 0.0
    memory = moved / _memory(row, ceilings)
    return "memory" if memory >= flops / ceilings.operations else "arithmetic"


def doubts(row: Row, top: Ceilings) -> tuple[str, ...]:
    """Why the row may not be believed, as phrases."""
    found: list[str] = []
    seconds, moved = row["time"]["median"], row["read"] + row["written"]
    memory = max(top.read, top.copy)
    if row["cache"] == "cold" and moved / seconds > OVER * memory:
        times = moved / seconds / memory
        found.append(f"moves {times:.2f} times what the memory can")
    most = max(top.flops, ceilings_of.read(row["ceilings"]).matrix)
    if row["flops"] and row["flops"] / seconds > OVER * most:
        times = row["flops"] / seconds / most
        found.append(f"computes {times:.2f} times what the device can")
    if row["time"]["cv"] > UNSTEADY:
        found.append(f"unsteady: cv {100 * row['time']['cv']:.0f} %")
    best = best_peer(row)
    if best is not None and best.time.cv > UNSTEADY:
        found.append(f"{best.name} unsteady: cv {100 * best.time.cv:.0f} %")
    return tuple(found)


def flat(rows: Sequence[Row]) -> dict[int, str]:
    """Rows of one kernel that take as long as a row of half their bytes, by place in `rows`.

    Rows that measure launching are left out: there the curve is flat by right.
    """
    out: dict[int, str] = {}
    groups: dict[tuple[str, str], list[int]] = {}
    for at, row in enumerate(rows):
        groups.setdefault((row["kernel"], row["tags"]), []).append(at)
    for members in groups.values():
        members.sort(key=lambda at: rows[at]["read"] + rows[at]["written"])
        for small, large in pairwise(members):
            less, more = rows[small], rows[large]
            grown = (more["read"] + more["written"]) / max(1.0, less["read"] + less["written"])
            slower = more["time"]["median"] / less["time"]["median"]
            floor = LAUNCHES * more["ceilings"]["launch"]
            if grown >= 2 and slower < 1.1 and less["time"]["median"] > floor:
                out[large] = f"flat: {grown:.1f} times the bytes of {less['shape']}, no more time"
    return out
