"""AURA: a vector as its norm and the codes of its rotated direction in a shared codebook.

A random rotation makes the entries of a unit vector nearly N(0, 1 / D), whatever the data, so one
codebook serves every vector. Attention works on rotated keys, so nothing is rotated back there.
"""

from __future__ import annotations

import functools
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from iron.quant.encode.options import Options
from iron.quant.format import Format
from iron.quant.pack import stream

Array = np.ndarray[Any, Any]
SMALL = 1e-8


@functools.cache
def _unit_centroids(bits: int) -> tuple[float, ...]:
    """The 2^bits centroids that minimise the mean square error of N(0, 1), ascending.

    Each is the mean of its cell (Max, "Quantizing for minimum distortion", 1960); Newton's method
    from the asymptotic density, which is N(0, 3).
    """
    normal, count = NormalDist(), 1 << bits
    points = np.array([sqrt(3) * normal.inv_cdf((i + 0.5) / count) for i in range(count)])
    for _ in range(50):
        inner = (points[1:] + points[:-1]) / 2
        mass = np.diff([0.0, *map(normal.cdf, inner), 1.0])
        height = np.array([0.0, *map(normal.pdf, inner), 0.0])
        mean = (height[:-1] - height[1:]) / mass
        below, above = height[1:-1] * (inner - mean[:-1]), height[1:-1] * (mean[1:] - inner)
        slope = np.eye(count)
        np.fill_diagonal(slope[1:, :-1], -above / mass[1:] / 2)
        np.fill_diagonal(slope[:-1, 1:], -below / mass[:-1] / 2)
        slope[np.arange(1, count), np.arange(1, count)] -= above / mass[1:] / 2
        slope[np.arange(count - 1), np.arange(count - 1)] -= below / mass[:-1] / 2
        step = np.linalg.solve(slope, points - mean)
        points = points - step
        if np.abs(step).max() < 1e-13:
            break
    return tuple(points.tolist())


def codebook(bits: int, dim: int) -> Array:
    """The Lloyd-Max centroids of N(0, 1 / dim), f32 [2^bits], ascending."""
    return (np.array(_unit_centroids(bits)) / np.sqrt(dim)).astype(np.float32)


def boundaries(book: Array) -> Array:
    """The midpoints of neighbouring centroids, f32."""
    wide = book.astype(np.float64)
    return ((wide[1:] + wide[:-1]) / 2).astype(np.float32)


def hadamard(signs: Array) -> Array:
    """H diag(signs) / sqrt(D) for D a power of two: an orthogonal rotation, f64 [D, D]."""
    h = np.ones((1, 1))
    while len(h) < len(signs):
        h = np.block([[h, h], [h, -h]])
    return h * signs / np.sqrt(len(signs))


def encode(fmt: Format, w: Array, options: Options) -> dict[str, Array]:
    """Each row x [D]: codes of R x / |x|, and |x| / |centroids| so that the norm is kept.

    A row shorter than 1e-8 has norm 0. Norms and sums are f64, rounded once to f32.
    """
    book = options.codebook
    book = codebook(fmt.bits, w.shape[1]) if book is None else np.asarray(book, np.float32)
    wide = w.astype(np.float64)
    norm = np.sqrt((wide * wide).sum(-1, keepdims=True))
    unit = np.where(norm > SMALL, wide / np.where(norm > SMALL, norm, 1), 0)
    if options.rotation is not None:
        unit = unit @ np.asarray(options.rotation, np.float64).T
    code = (unit[..., None] > boundaries(book).astype(np.float64)).sum(-1).astype(np.uint8)
    held = np.sqrt((book[code].astype(np.float64) ** 2).sum(-1, keepdims=True))
    scale = np.where(norm > SMALL, norm / np.where(held > SMALL, held, 1), 0)
    dtype = options.dtype or fmt.plane("scales").dtypes[0]
    return {
        "codes": stream(code, fmt.bits),
        "scales": dtype(scale.astype(np.float32)),
        "codebook": book[None],
    }
