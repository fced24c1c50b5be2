"""Host arrays for a device with memory of its own: where each lies in one image, with fences.

Arrays that overlap share one region. Between regions lies poison; what a launch changed there, or
in a region that nothing writes, is a fault. This module knows no device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.errors import KernelError, error

Host = np.ndarray[Any, Any]

FENCE = 256
"""Bytes of poison on each side of a region; a multiple of the alignment of device memory."""
POISON = 0xFF
"""A NaN in every float type, -1 in every integer type."""
ALIGNED = 16
"""A region keeps its host address modulo this, so that alignment stays what it is."""


@dataclass(frozen=True, slots=True)
class Region:
    """Host bytes `low .. low + size` that lie at `at` of the image; `names` share them."""

    low: int
    size: int
    at: int
    names: tuple[str, ...]
    written: bool


@dataclass(frozen=True, slots=True)
class Image:
    """The regions of a call, and the bytes of the whole."""

    regions: tuple[Region, ...]
    places: Mapping[str, int]
    size: int

    def fill(self, into: Host | None = None) -> Host:
        """The image, in memory of its own or in `into`: poison, and every region's bytes."""
        held = np.empty(self.size, np.uint8) if into is None else into
        end = 0
        for r in self.regions:
            held[end : r.at] = POISON
            ctypes.memmove(_address(held) + r.at, r.low, r.size)
            end = r.at + r.size
        held[end:] = POISON
        return held

    def take(self, before: Host | None, after: Host, kernel: str) -> None:
        """Copies written regions back. E0404 and E0401 for other bytes that changed.

        Without `before`, inputs are not looked at.
        """
        end = 0
        for r in self.regions:
            self._untouched(after[end : r.at], r.names, "before", kernel)
            inside = slice(r.at, r.at + r.size)
            end = r.at + r.size
            if r.written:
                ctypes.memmove(r.low, _address(after) + r.at, r.size)
            elif before is not None and not np.array_equal(before[inside], after[inside]):
                raise error("E0401", f"the launch changed `{r.names[0]}`, an input", kernel=kernel)
        last = self.regions[-1].names if self.regions else ("nothing",)
        self._untouched(after[end:], last, "after", kernel)

    def _untouched(self, fence: Host, names: tuple[str, ...], where: str, kernel: str) -> None:
        wrong = np.flatnonzero(fence != POISON)
        if wrong.size:
            raise _outside(int(wrong.size), names, where, kernel)


def image(arrays: Mapping[str, Host], written: frozenset[str]) -> Image:
    """Where each array of a call goes."""
    spans = sorted((*span(a), name) for name, a in arrays.items() if a.size)
    groups: list[tuple[int, int, list[str]]] = []
    for low, high, name in spans:
        if groups and low < groups[-1][1]:
            first, last, names = groups[-1]
            groups[-1] = (first, max(last, high), [*names, name])
        else:
            groups.append((low, high, [name]))
    regions: list[Region] = []
    at = 0
    for low, high, names in groups:
        at = _up(at, FENCE) + FENCE + low % ALIGNED
        regions.append(Region(low, high - low, at, tuple(names), bool(written & set(names))))
        at += high - low
    places = {name: FENCE for name, a in arrays.items() if not a.size}
    for r in regions:
        for name in r.names:
            first = arrays[name].__array_interface__["data"][0]
            places[name] = r.at + first - r.low
    return Image(tuple(regions), places, _up(at, FENCE) + FENCE)


def span(array: Host) -> tuple[int, int]:
    """The half-open range of addresses that the elements of an array lie in."""
    first = array.__array_interface__["data"][0]
    reaches = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    low = first + sum(min(0, r) for r in reaches)
    return low, first + sum(max(0, r) for r in reaches) + array.itemsize


def _address(array: Host) -> int:
    return array.__array_interface__["data"][0]


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _outside(size: int, names: tuple[str, ...], where: str, kernel: str) -> KernelError:
    return error(
        "E0404",
        f"the launch wrote {size} bytes {where} `{names[0]}`",
        kernel=kernel,
        help='run the call under `iron.use("interp")`, which names the line',
    )
