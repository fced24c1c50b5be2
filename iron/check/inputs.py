"""Random inputs of a case: one seeded source, so that a failing case can be run again."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

from iron.check.tolerance import Array


class Inputs:
    """What a case function gets as `rng`: helpers that take a shape and return float64 or int64.

    The values are rounded to the parameter's dtype before the kernel and the oracle see them.
    """

    def __init__(self, seed: int, label: str = "") -> None:
        self.generator = np.random.default_rng([seed, zlib.crc32(label.encode())])

    def normal(self, *shape: int, mean: float = 0.0, deviation: float = 1.0) -> Array:
        """Normal numbers."""
        return self.generator.normal(mean, deviation, shape)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Array:
        """Numbers of low .. high."""
        return self.generator.uniform(low, high, shape)

    def integers(self, *shape: int, low: int = 0, high: int = 256) -> Array:
        """Integers of low .. high - 1."""
        return self.generator.integers(low, high, shape)

    def signs(self, *shape: int) -> Array:
        """-1.0 or 1.0."""
        return self.generator.integers(0, 2, shape) * 2.0 - 1.0

    def permutation(self, n: int) -> Array:
        """0 .. n - 1 in random order."""
        return self.generator.permutation(n)

    def distinct(self, *shape: int, low: float = -1.0, high: float = 1.0) -> Array:
        """Different numbers, evenly spaced in low .. high and in random order."""
        count = math.prod(shape)
        values = np.linspace(low, high, max(1, count))[:count]
        return self.generator.permutation(values).reshape(shape)

    def choice(self, values: Any, *shape: int) -> Array:
        """Elements of `values`."""
        return self.generator.choice(np.asarray(values), shape)

    def packed(self, fmt: Any, n: int, k: int) -> Any:
        """A normal weight [n, k] encoded in the format `fmt` (a Format or its name)."""
        from iron.quant.encode import quantize
        from iron.quant.format import by_name
        from iron.quant.format.tiled import SUFFIX
        from iron.quant.repack import to_tiles

        plain = str(fmt).removesuffix(SUFFIX)
        weight = quantize(self.normal(n, k), by_name(plain))
        return weight if plain == str(fmt) else to_tiles(weight)
