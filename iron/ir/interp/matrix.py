"""Products of a simdgroup in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.dtypes import DTYPES
from iron.ir.core import Op
from iron.ir.interp.collectives import together
from iron.ir.interp.machine import Machine, Mask
from iron.ir.ops.matrix import LANES, SUMS, WORDS

Lanes = np.ndarray[Any, Any]
TF32 = np.uint32(0xFFFFE000)
"""The bits of an f32 that a product of tf32 reads."""


def _product(m: Machine, op: Op, mask: Mask) -> list[Lanes]:
    together(m, op, mask)
    words = np.stack([m.spread(w) for w in op.args[:WORDS]], 1).reshape(-1, 8, 4, WORDS)
    given = [m.spread(s).reshape(m.lanes, -1) for s in op.args[WORDS:]]
    sums = np.concatenate(given, 1).reshape(-1, 8, 4, 2, 2)  # g, t, row g or g + 8, column
    elem = op.attr("elem")
    # (simdgroup, g, t, words) to rows of a, and columns of b, word by word.
    a = words[..., :4].reshape(-1, 8, 4, 2, 2).transpose(0, 4, 1, 3, 2).reshape(-1, 16, 8)
    b = words[..., 4:].transpose(0, 1, 3, 2).reshape(-1, 8, 8)
    wide = np.int64 if elem in ("i8", "u8") else np.float32
    product = _elements(a, elem).astype(wide) @ _elements(b, elem).astype(wide).transpose(0, 2, 1)
    parts = product.reshape(-1, 2, 8, 4, 2).transpose(0, 2, 3, 1, 4)
    out = (sums + parts.astype(sums.dtype)).reshape(m.lanes, SUMS)
    results: list[Lanes] = []
    at = 0
    for held in given:
        width = held.shape[1]
        results.append(out[:, at : at + width])
        at += width
    shapes = [m.spread(s).shape for s in op.args[WORDS:]]
    return [r.reshape(shape) for r, shape in zip(results, shapes, strict=True)]


def _elements(words: Lanes, elem: str) -> Lanes:
    words = np.ascontiguousarray(words)
    if elem == "tf32":
        return (words & TF32).view(np.float32)
    return words.view(DTYPES[elem].np)


HANDLERS = {"simd_mma": _product}
assert LANES == 32
