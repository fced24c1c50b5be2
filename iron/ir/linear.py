"""Linear maps over F2: integers as bit vectors, a map as the images of its input's bits.

The value of a map at x is the xor of the images of the bits of x.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Linear:
    """The map of `len(columns)` bits to `width` bits; `columns[i]` is the image of bit i."""

    columns: tuple[int, ...]
    width: int

    def __post_init__(self) -> None:
        if any(c < 0 or c >> self.width for c in self.columns):
            raise ValueError(f"an image has more than {self.width} bits: {self.columns}")

    def __call__(self, x: int) -> int:
        """The image of `x`."""
        out = 0
        for i, column in enumerate(self.columns):
            if x >> i & 1:
                out ^= column
        return out

    @property
    def rank(self) -> int:
        """Dimension of the space of images."""
        return len(_reduced(self.columns))

    @property
    def onto(self) -> bool:
        """True when every value of `width` bits is an image."""
        return self.rank == self.width

    @property
    def exact(self) -> bool:
        """True when every value of `width` bits is the image of exactly one input."""
        return self.onto and len(self.columns) == self.width

    def solve(self, y: int) -> int | None:
        """An input whose image is `y`, the same one each time; None when there is none."""
        return _solve(_reduced(self.columns), y)


def identity(bits: int) -> Linear:
    """The map of `bits` bits to themselves."""
    return Linear(tuple(1 << i for i in range(bits)), bits)


def compose(outer: Linear, inner: Linear) -> Linear:
    """x to outer(inner(x)). Raises ValueError when the widths do not meet."""
    if inner.width != len(outer.columns):
        raise ValueError(f"{inner.width} bits do not fit a map of {len(outer.columns)}")
    return Linear(tuple(outer(c) for c in inner.columns), outer.width)


def invert(f: Linear) -> Linear:
    """A map g with f(g(y)) = y for every y. Raises ValueError unless `f` is onto."""
    if not f.onto:
        raise ValueError(f"only {f.rank} of {f.width} bits are reached")
    pivots = _reduced(f.columns)
    columns = (_solve(pivots, 1 << i) for i in range(f.width))
    return Linear(tuple(c for c in columns if c is not None), len(f.columns))


def product(low: Linear, high: Linear) -> Linear:
    """The two maps side by side: `low` on the low bits, `high` on the bits above."""
    above = tuple(c << low.width for c in high.columns)
    return Linear((*low.columns, *above), low.width + high.width)


def divide(f: Linear, low: Linear) -> Linear | None:
    """The map q with f = product(low, q), or None when `f` does not begin with `low`."""
    n = len(low.columns)
    rest = f.columns[n:]
    if f.columns[:n] != low.columns or f.width < low.width:
        return None
    if any(c & ((1 << low.width) - 1) for c in rest):
        return None
    return Linear(tuple(c >> low.width for c in rest), f.width - low.width)


def spans(columns: Iterable[int], y: int) -> bool:
    """True when `y` is the xor of some of `columns`."""
    return _solve(_reduced(columns), y) is not None


def _reduced(columns: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Highest bit -> (image, input that gives it): a basis of the images, in echelon form."""
    pivots: dict[int, tuple[int, int]] = {}
    for i, column in enumerate(columns):
        image, source = column, 1 << i
        while image and (found := pivots.get(image.bit_length())) is not None:
            image, source = image ^ found[0], source ^ found[1]
        if image:
            pivots[image.bit_length()] = image, source
    return pivots


def _solve(pivots: dict[int, tuple[int, int]], y: int) -> int | None:
    source = 0
    while y:
        found = pivots.get(y.bit_length())
        if found is None:
            return None
        y, source = y ^ found[0], source ^ found[1]
    return source
