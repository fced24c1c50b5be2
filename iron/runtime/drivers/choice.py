"""Which form of a kernel a launch gets, by where its arguments lie and what the sizes are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar

from iron.backends.forms import Form
from iron.ir.host import evaluate

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an argument of elements of `size` bytes lies on the device; strides count elements."""

    pointer: int
    size: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def aligned(self, bytes: int) -> bool:
        """True when every row along the last axis begins at a multiple of `bytes`."""
        rows = zip(self.shape[:-1], self.strides[:-1], strict=True)
        return self.pointer % bytes == 0 and all(
            n == 1 or s * self.size % bytes == 0 for n, s in rows
        )

    def room(self, axis: int) -> bool:
        """True when as many addresses lie before the array as the steps along an axis take."""
        return self.pointer >= self.shape[axis] * self.strides[axis] * self.size

    @property
    def straight(self) -> bool:
        """True when neighbours along the last axis are neighbours in memory."""
        return not self.shape or self.shape[-1] == 1 or self.strides[-1] == 1


class Choice(Generic[C]):
    """The forms of a kernel, best first, each made when it is first looked at."""

    def __init__(self, forms: Iterator[Form[C]]) -> None:
        self._more = forms
        self._known: list[Form[C]] = []

    def form(self, number: int) -> Form[C]:
        """The form of that number."""
        while len(self._known) <= number:
            self._known.append(next(self._more))
        return self._known[number]

    def of(
        self,
        places: Mapping[str, Place],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> tuple[Form[C], tuple[int, ...]]:
        """The first form that these arguments allow, and its grid."""
        for number in count():
            form = self.form(number)
            if not all(places[n].aligned(size) for n, size in form.aligned.items()):
                continue
            if not all(places[n].straight for n in form.unit):
                continue
            if not all(places[n].room(axis) for n, axis in form.preceded):
                continue
            if not form.regrouped:
                return form, grid
            extents, failed = evaluate(form.kernel, scalars, dims)
            if not failed:
                return form, extents
        raise AssertionError("the last form takes everything")
