"""Products of a simdgroup in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.dtypes import DTYPES, bf16
from iron.ir import scalar
from iron.ir.core import Op
from iron.ir.interp.collectives import together
from iron.ir.interp.machine import Machine, Mask
from iron.ir.interp.memory import access, addresses, touched
from iron.ir.ops.matrix import ROW_BYTES, ROWS, words_of

Lanes = np.ndarray[Any, Any]
TF32 = np.uint32(0xFFFFE000)
"""The bits of an f32 that a product of tf32 reads."""


def _product(m: Machine, op: Op, mask: Mask) -> list[Lanes]:
    together(m, op, mask)
    many = words_of(op.args)
    words = np.stack([m.spread(w) for w in op.args[:many]], 1)
    given = [m.spread(s) for s in op.args[many:]]
    sums = np.concatenate([s.reshape(m.lanes, -1) for s in given], 1)
    elem = op.attr("elem")
    if op.attr("columns") == 8:
        a, b, back = _of_8(words)
    else:
        a, b, back = _of_16(words, sums.shape[1])
    wide = np.int64 if elem in ("i8", "u8") else np.float32
    product = _elements(a, elem).astype(wide) @ _elements(b, elem).astype(wide).transpose(0, 2, 1)
    out = sums + back(product).astype(sums.dtype)
    results: list[Lanes] = []
    at = 0
    for held in given:
        width = held.size // m.lanes
        results.append(out[:, at : at + width].reshape(held.shape))
        at += width
    return results


def _of_8(words: Lanes) -> tuple[Lanes, Lanes, Any]:
    """Rows of a and columns of b word by word, and what takes a product back to lanes."""
    by_lane = words.reshape(-1, 8, 4, 6)  # g, t
    a = by_lane[..., :4].reshape(-1, 8, 4, 2, 2).transpose(0, 4, 1, 3, 2).reshape(-1, 16, 8)
    b = by_lane[..., 4:].transpose(0, 1, 3, 2).reshape(-1, 8, 8)

    def back(product: Lanes) -> Lanes:
        return product.reshape(-1, 2, 8, 4, 2).transpose(0, 2, 3, 1, 4).reshape(-1, 4)

    return a, b, back


def _of_16(words: Lanes, width: int) -> tuple[Lanes, Lanes, Any]:
    """As `_of_8`; a lane holds `width` columns."""
    parts = 16 // width
    by_lane = words.reshape(-1, parts, 16, 2, 8 // parts).transpose(3, 0, 2, 1, 4)  # t, g
    a, b = by_lane.reshape(2, -1, 16, 8)

    def back(product: Lanes) -> Lanes:
        return product.reshape(-1, 16, parts, width).transpose(0, 2, 1, 3).reshape(-1, width)

    return a, b, back


def _elements(words: Lanes, elem: str) -> Lanes:
    words = np.ascontiguousarray(words)
    if elem == "tf32":
        return (words & TF32).view(np.float32)
    return words.view(DTYPES[elem].np)


def _load(m: Machine, op: Op, mask: Mask) -> list[Lanes]:
    together(m, op, mask)
    buffer, (many, turned) = m.buffers[op.args[0]], op.attrs
    size = buffer.data.itemsize
    start = np.broadcast_to(addresses(m, op, op.args[1:], ROW_BYTES // size, mask), (m.lanes,))
    if (start * size % ROW_BYTES).any():
        raise m.fault("E0901", f"a row that is no multiple of {ROW_BYTES} bytes", op)
    rows = start.reshape(-1, 4, ROWS)[:, :many]  # matrix, row
    word = np.arange(4 // size)
    if turned:
        at = rows.reshape(-1, many, 1, 4, 2) + np.arange(ROWS)[:, None, None]
    else:
        at = rows[..., None, None] + (np.arange(4)[:, None] * len(word) + word)
    at = at.transpose(0, 2, 3, 1, 4).reshape(m.lanes, -1)
    access(m, op, "reads", at, mask)
    words = np.ascontiguousarray(buffer.read(at)).view(np.uint32)
    return list(words.T)


def _pair(m: Machine, op: Op, mask: Mask) -> tuple[Lanes]:
    both = np.stack([scalar.cast(m.spread(a), op.attr("dtype")) for a in op.args], 1)
    return (both.view(np.uint32)[:, 0],)


def _panel(m: Machine, op: Op, mask: Mask) -> tuple[()]:
    """Group by group; column n of the sums is that of thread n, which reads what it needs."""
    together(m, op, mask)
    acc, a, b = (m.buffers[v] for v in op.args[:3])
    row, column = (m.spread(v).reshape(m.groups, -1)[:, 0] for v in op.args[3:])
    active = np.ones(m.lanes, bool) if mask is None else mask
    rows, (_, many, lanes), depth = op.attr("rows"), acc.shape, a.shape[1]
    for g in np.flatnonzero(active.reshape(m.groups, -1)[:, 0]):
        first, c = int(row[g]), int(column[g])
        i = (first + np.arange(rows))[:, None]
        of_acc = g * acc.per_group + (i * many + c) * lanes + np.arange(lanes)
        of_a = g * a.per_group + i * depth + np.arange(depth)
        step = c * (depth // 2) + np.arange(depth // 2)[:, None]
        of_b = g * b.per_group + step * lanes + np.arange(lanes)
        own = int(g) * m.kernel.threads + np.arange(lanes)
        for buffer, at in ((a, of_a[:, :, None] + 0 * own), (b, of_b)):
            touched(m, op, buffer, "reads", at.reshape(-1), np.tile(own, at.size // lanes))
        touched(m, op, acc, "updates", of_acc.reshape(-1), np.tile(own, rows))
        left = a.read(of_a).astype(np.float32)
        pairs = np.ascontiguousarray(b.read(of_b)).view(bf16.np).reshape(-1, lanes, 2)
        right = pairs.transpose(0, 2, 1).reshape(depth, lanes).astype(np.float32)
        acc.write(of_acc, acc.read(of_acc) + left @ right)
    return ()


HANDLERS = {"pair": _pair, "panel_mma": _panel, "simd_load": _load, "simd_mma": _product}
