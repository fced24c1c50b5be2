"""A roofline as inline SVG: operations a byte across, operations a second up, both logarithmic.

The slope is the memory's copy rate, the roof the arithmetic rate. A point below the slope waits for
memory, one below the roof computes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from iron.bench.ceilings import Ceilings
from iron.report.units import digits

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 44


@dataclass(frozen=True, slots=True)
class Dot:
    """One row: operations a byte, operations a second, and what to say about it."""

    name: str
    intensity: float
    rate: float
    kind: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value lies."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def decades(self) -> list[float]:
        """The powers of ten inside."""
        first = math.ceil(math.log10(self.low) - 1e-9)
        last = math.floor(math.log10(self.high) + 1e-9)
        return [10.0**n for n in range(first, last + 1)]


def axis(values: Sequence[float], start: float, end: float) -> Axis:
    """An axis of whole decades around the values."""
    low = 10.0 ** math.floor(math.log10(min(values)))
    high = 10.0 ** math.ceil(math.log10(max(values)))
    return Axis(low, high if high > low else 10 * low, start, end)


def roofline(dots: Sequence[Dot], top: Ceilings) -> str:
    """The plot; rows that declare no operations are not on it."""
    ridge = top.flops / top.copy
    across = axis([*(d.intensity for d in dots), ridge / 4, ridge * 4], LEFT, WIDTH - RIGHT)
    rates = [*(d.rate for d in dots), top.flops, across.low * top.copy]
    up = axis(rates, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg class="roofline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Roofline: {len(dots)} rows">',
        *_grid(across, up),
        *_roof(across, up, top, ridge),
        *(_dot(d, across, up) for d in dots),
        "</svg>",
    ]
    return "\n".join(parts)


def _grid(across: Axis, up: Axis) -> list[str]:
    out: list[str] = []
    low, high = HEIGHT - BOTTOM, TOP
    for value in across.decades():
        x = across.at(value)
        out.append(f'<line class="grid" x1="{x:.1f}" y1="{low}" x2="{x:.1f}" y2="{high}"/>')
        out.append(f'<text x="{x:.1f}" y="{low + 18}" text-anchor="middle">{value:g}</text>')
    for value in up.decades():
        y = up.at(value)
        out.append(
            f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        )
        label = digits(value / 1e9)
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(
        f'<text class="title" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">'
        "operations a byte</text>"
    )
    out.append(
        f'<text class="title" transform="rotate(-90 14 {HEIGHT / 2})" x="14" y="{HEIGHT / 2}" '
        'text-anchor="middle">GFLOP/s</text>'
    )
    return out


def _roof(across: Axis, up: Axis, top: Ceilings, ridge: float) -> list[str]:
    corner = min(max(ridge, across.low), across.high)
    points = [
        (across.low, across.low * top.copy),
        (corner, corner * top.copy),
        (across.high, top.flops),
    ]
    drawn = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in points)
    x, y = across.at(corner), up.at(top.flops)
    label = f"{digits(top.copy / 1e9)} GB/s, {digits(top.flops / 1e9)} GFLOP/s"
    return [
        f'<polyline class="roof" points="{drawn}"/>',
        f'<text x="{x - 8:.1f}" y="{y - 8:.1f}" text-anchor="end">{label}</text>',
    ]


def _dot(dot: Dot, across: Axis, up: Axis) -> str:
    x, y = across.at(dot.intensity), up.at(dot.rate)
    words = (
        f"{dot.name}: {digits(dot.rate / 1e9)} GFLOP/s, {digits(dot.intensity)} operations a byte"
    )
    return (
        f'<circle class="{dot.kind.lower() or "alone"}" cx="{x:.1f}" cy="{y:.1f}" r="5">'
        f"<title>{escape(words)}</title></circle>"
    )
