"""Figures as people read them: three digits and a unit."""

from __future__ import annotations


def seconds(value: float) -> str:
    """A time: `12.3 us`, `4.56 ms`."""
    for scale, unit in ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms")):
        if value < 999.5 * scale:
            return f"{digits(value / scale)} {unit}"
    return f"{digits(value)} s"


def microseconds(value: float) -> str:
    """A time in microseconds, without the unit."""
    return digits(value * 1e6)


def percent(share: float | None) -> str:
    """A share: `87 %`; nothing for None."""
    return "" if share is None else f"{100 * share:.0f} %"


def digits(value: float | None) -> str:
    """Three digits, or all of those before the point; nothing for None."""
    if value is None:
        return ""
    size = abs(value)
    if size >= 99.95 or size == 0:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.01 else f"{value:.2g}"


def times(ratio: float | None) -> str:
    """A ratio: `1.32x`."""
    return "" if ratio is None else f"{digits(ratio)}x"
