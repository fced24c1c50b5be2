"""What a list of timings says: its middle, its tails and how far it can be trusted."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds of `n` timings; `cv` is the standard deviation over the mean.

    The deviation leaves out the slowest and fastest twentieth: one interrupt is not unsteadiness.
    """

    n: int
    median: float
    least: float
    p20: float
    p80: float
    p95: float
    p99: float
    cv: float

    def document(self) -> dict[str, Any]:
        """The figures by name."""
        return asdict(self)

    def overlaps(self, other: Spread) -> bool:
        """True when the bands of the middle 60 % meet."""
        return self.p20 <= other.p80 and other.p20 <= self.p80


def spread(seconds: Sequence[float]) -> Spread:
    """The figures of at least one timing."""
    held = sorted(float(s) for s in seconds)
    cut = len(held) // 20
    core = held[cut : len(held) - cut]
    mean = statistics.fmean(core)
    return Spread(
        len(held),
        statistics.median(held),
        held[0],
        quantile(held, 0.2),
        quantile(held, 0.8),
        quantile(held, 0.95),
        quantile(held, 0.99),
        statistics.pstdev(core) / mean if mean else 0.0,
    )


def quantile(ordered: Sequence[float], q: float) -> float:
    """The value below which the share `q` lies, between neighbours in proportion."""
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def read(document: Mapping[str, Any]) -> Spread:
    """The figures from `Spread.document`."""
    return Spread(**{name: document[name] for name in Spread.__dataclass_fields__})
