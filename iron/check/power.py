"""The power of a case: wrong results that its bound must reject, tried before any kernel runs.

A bound that accepts zeros, the mean, a rolled output or a copied neighbour would accept a broken
kernel as well; the inputs are then at fault, not the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from iron.check.tolerance import Array, Bound, compare, rounded
from iron.dtypes import DType


def faults(reference: Any, allowed: Bound, dtype: DType) -> list[str]:
    """The wrong results that the bound accepts, each as a sentence."""
    out: list[str] = []
    for name, wrong in wrong_results(reference, dtype):
        if compare(wrong, reference, allowed, dtype).bad == 0:
            out.append(f"{name} would pass")
    return out


def wrong_results(reference: Any, dtype: DType) -> Iterator[tuple[str, Array]]:
    """Zeros, the mean, rolls along each axis longer than 1, and one element copied over another."""
    want = rounded(reference, dtype)
    mask = np.ma.getmaskarray(reference)
    if want.size == 0 or mask.all():
        return
    yield "all zeros", np.zeros_like(want)
    if want.size == 1:
        return
    yield "the mean everywhere", _mean(want, mask)
    for axis, extent in enumerate(want.shape):
        if extent > 1:
            yield f"the output rolled by one along axis {axis}", np.roll(want, 1, axis)
    yield "one element replaced by its neighbour", _neighbour(want, mask)


def _mean(want: Array, mask: Array) -> Array:
    seen = want[~mask].astype(np.float64)
    seen = seen[np.isfinite(seen)]
    mean = seen.mean() if seen.size else 0.0
    with np.errstate(all="ignore"):
        return np.full(want.shape, np.asarray(mean).astype(want.dtype), want.dtype)


def _neighbour(want: Array, mask: Array) -> Array:
    """The last element that differs from the one before it, replaced by that one."""
    flat, seen = want.reshape(-1), ~mask.reshape(-1)
    differs = (flat[1:] != flat[:-1]) & seen[1:]
    places = np.flatnonzero(differs)
    wrong = flat.copy()
    if places.size:
        wrong[places[-1] + 1] = flat[places[-1]]
    return wrong.reshape(want.shape)
