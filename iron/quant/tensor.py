"""A packed weight on the host: its format, its planes and its logical shape, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.dtypes import DType, f32, of_numpy
from iron.errors import error
from iron.quant.format import Format

Array = np.ndarray[Any, Any]
TILE = 1 << 20  # elements decoded at once: enough to pay for the calls, few enough for a cache


@dataclass(frozen=True, slots=True, eq=False)
class QTensor:
    """A weight of `shape` [..., N, K] in the format `fmt`.

    Leading axes (experts) are folded into the rows of every plane. Planes may be views of a
    mapped file. Raises E0701 when a plane is missing, unknown, or has a wrong dtype or shape.
    """

    fmt: Format
    planes: Mapping[str, Array]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        problem = fault(self.fmt, self.planes, self.shape)
        if problem:
            raise error("E0701", problem)

    @property
    def rows(self) -> int:
        """Rows of the folded matrix: the product of all axes but the last."""
        return math.prod(self.shape[:-1])

    @property
    def cols(self) -> int:
        """Elements along K."""
        return self.shape[-1]

    @property
    def nbytes(self) -> int:
        """Bytes of all planes."""
        return sum(p.nbytes for p in self.planes.values())

    @property
    def bits_per_weight(self) -> float:
        """Bits of all planes over the number of weights."""
        return 8 * self.nbytes / max(1, math.prod(self.shape))

    def decode(self, dtype: DType = f32) -> Array:
        """The weights as an array of `shape`: the codec's f32, rounded once to `dtype`."""
        out = np.empty((self.rows, self.cols), dtype.np)
        step = max(1, TILE // max(1, self.cols))
        for low in range(0, self.rows, step):
            high = min(self.rows, low + step)
            with np.errstate(all="ignore"):
                out[low:high] = dtype(self.decode_rows(low, high))
        return out.reshape(self.shape)

    def decode_rows(self, low: int, high: int) -> Array:
        """Rows [low, high) of the folded matrix in f32."""
        fmt, k = self.fmt, self.cols
        n = np.arange(low, high)[:, None]
        view = Planes(self.planes, n)
        chunks = k // fmt.vec
        whole = chunks * fmt.vec
        with np.errstate(all="ignore"):
            x = np.empty((high - low, k), np.float32)
            if chunks:
                parts = x[:, :whole].reshape(high - low, chunks, fmt.vec)
                for e, part in enumerate(fmt.codes(view, n, np.arange(chunks)[None, :])):
                    parts[:, :, e] = part
            if whole < k:
                tail = np.arange(whole, k)[None, :]
                x[:, whole:] = fmt.code(view, n, tail // fmt.block, tail % fmt.block)
            return self._combined(x, view, n)

    def _combined(self, x: Array, view: Planes, n: Array) -> Array:
        from iron.quant.codec import combine

        fmt, k = self.fmt, self.cols
        groups = -(-k // fmt.group) if fmt.group else 1
        s, t = fmt.factors(view, n, np.arange(groups)[None, :])
        if s is None:
            return x
        span = fmt.group or k
        if groups * span == k:
            x = x.reshape(len(x), groups, span)
            s, t = s[..., None], None if t is None else t[..., None]
        else:
            s, t = (None if f is None else np.repeat(f, span, 1)[:, :k] for f in (s, t))
        return combine(fmt, x, s, t).reshape(len(x), k)


def fault(fmt: Format, planes: Mapping[str, Array], shape: tuple[int, ...]) -> str:
    """What is wrong with these planes for a weight of this shape, or an empty string."""
    if len(shape) < 2:
        return f"{fmt}: a packed weight has at least two axes, not shape {shape}"
    n, k = math.prod(shape[:-1]), shape[-1]
    if k % fmt.multiple:
        return f"{fmt}: K = {k} is not a multiple of {fmt.multiple}"
    known = {p.name for p in fmt.planes}
    for name in planes:
        if name not in known:
            return f"{fmt} has no plane called {name}; it has {', '.join(sorted(known))}"
    for plane in fmt.planes:
        if plane.name not in planes:
            return f"{fmt}: the plane {plane.name} is missing"
        held = planes[plane.name]
        dtype = of_numpy(held.dtype)
        if dtype not in plane.dtypes:
            wanted = " or ".join(map(str, plane.dtypes))
            return f"{fmt}: the plane {plane.name} is {held.dtype}, expected {wanted}"
        if held.shape != plane.shape(n, k):
            return (
                f"{fmt}: the plane {plane.name} has shape {held.shape}, "
                f"a weight of shape {shape} needs {plane.shape(n, k)}"
            )
    return ""


class Planes:
    """The planes as the codec indexes them on the host: `w.codes[n, i]` with broadcasting.

    Whole rows `n` (the array given at construction) take the fast way: one gather of columns.
    """

    __slots__ = ("_n", "_planes")

    def __init__(self, planes: Mapping[str, Array], n: Array | None = None) -> None:
        self._planes = planes
        self._n = n

    def __getattr__(self, name: str) -> Rows:
        try:
            return Rows(self._planes[name], self._n)
        except KeyError:
            raise AttributeError(name) from None


class Rows:
    """One plane, indexed by row and column arrays."""

    __slots__ = ("_n", "_plane")

    def __init__(self, plane: Array, n: Array | None) -> None:
        self._plane = plane
        self._n = n

    @property
    def shape(self) -> tuple[int, ...]:
        """The plane's extents."""
        return self._plane.shape

    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        n, i = index
        if n is self._n and n is not None and (np.ndim(i) == 0 or np.shape(i)[0] == 1):
            rows = self._plane[n[0, 0] : n[-1, 0] + 1]
            return np.take(rows, np.ravel(i), axis=1)
        return self._plane[n, i]
