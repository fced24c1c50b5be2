"""Control and conversion ops of the interpreter: regions under masks, vectors, thread numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.ir import scalar
from iron.ir.core import Op
from iron.ir.interp.machine import Array, Machine, Mask
from iron.ir.types import DType, Type, element, held

# --- regions --------------------------------------------------------------------------------------


def _if(m: Machine, op: Op, mask: Mask) -> list[Array]:
    condition = np.asarray(m.env[op.args[0]])
    then, other = op.regions
    if condition.ndim == 0:
        return m.block(then if condition else other, mask)
    taken = condition if mask is None else condition & mask
    left = ~condition if mask is None else ~condition & mask
    if not left.any():
        return m.block(then, mask)
    if not taken.any():
        return m.block(other, mask)
    m.branches.append(op)
    yes, no = m.block(then, taken), m.block(other, left)
    m.branches.pop()
    return [_blend(condition, a, b, r.type) for a, b, r in zip(yes, no, op.results, strict=True)]


def _blend(mask: np.ndarray[Any, Any], a: Array, b: Array, t: Type) -> Array:
    if a is b:
        return a
    return np.where(mask.reshape(-1, *(1,) * len(held(t))), a, b)


def _for(m: Machine, op: Op, mask: Mask) -> list[Array]:
    low, high, step = (np.asarray(m.env[a]) for a in op.args[:3])
    if (step < 1).any():
        raise m.fault("E0901", "a loop step is below 1", op)
    turns = _turns(low, high, step)
    state = [m.env[a] for a in op.args[3:]]
    counter = low
    going: Mask = None
    turn = 0
    while True:
        active = _active(turns > turn, going)
        if not (active if mask is None else active & mask).any():
            return state
        inner = _narrow(active, mask)
        state, stopped = _turn(m, op, counter[()], state, inner, mask)
        if stopped is not None:
            going = ~stopped if going is None else going & ~stopped
        counter, turn = counter + step, turn + 1


def _active(more: np.ndarray[Any, Any], going: Mask) -> np.ndarray[Any, Any]:
    return more if going is None else more & going


def _turns(low: Array, high: Array, step: Array) -> np.ndarray[Any, Any]:
    """How often the body runs, without wrapping near the ends of the counter's type."""
    span = high.astype(np.uint64) - low.astype(np.uint64)
    by = step.astype(np.uint64)
    whole = span // by + (span % by != 0).astype(np.uint64)
    return np.where(low < high, whole, np.uint64(0))


def _narrow(active: np.ndarray[Any, Any], mask: Mask) -> Mask:
    """The mask of one turn: the outer mask itself when none of its lanes has left the loop."""
    if active.ndim == 0:
        return mask
    inner = active if mask is None else active & mask
    left = ~active if mask is None else mask & ~active
    return inner if left.any() else mask


def _turn(
    m: Machine, op: Op, counter: Array, state: list[Array], mask: Mask, outer: Mask
) -> tuple[list[Array], Array]:
    body = op.regions[0]
    m.env[body.params[0]] = counter
    m.env.update(zip(body.params[1:], state, strict=True))
    parted = mask is not outer
    if parted:
        m.branches.append(op)
    out = m.block(body, mask)
    if parted:
        m.branches.pop()
    stopped = np.asarray(out.pop(0)) if op.attr("stop") else None
    if mask is None or not parted:
        return out, stopped
    kept = [
        _blend(mask, new, old, r.type) for new, old, r in zip(out, state, op.results, strict=True)
    ]
    return kept, stopped


# --- vectors --------------------------------------------------------------------------------------


def _const(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    return (op.attrs[0],)


def _splat(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    x = np.asarray(m.env[op.args[0]])
    return (np.broadcast_to(x[..., None], (*x.shape, op.attr("count"))),)


def _pack(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    parts = [np.asarray(m.env[a]) for a in op.args]
    return (np.stack(np.broadcast_arrays(*parts), -1),)


def _extract(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    return (m.env[op.args[0]][..., op.attr("at")],)


def _bitcast(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    x, source, to = np.asarray(m.env[op.args[0]]), op.args[0].type, op.attr("to")
    if isinstance(source, DType) and element(source).bits != to.bits:
        x = x[..., None]
    return (scalar.bitcast(x, to),)


# --- who this thread is ---------------------------------------------------------------------------


def _thread(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    dtype = op.attr("dtype").np
    return (dtype.type(0) if m.kernel.threads == 1 else m.thread.astype(dtype),)


def _group(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    number, axis, dtype = m.in_chunk + m.first_group, op.attr("axis"), op.attr("dtype").np
    for extent in m.grid[:axis]:
        number = number // extent
    number = (number % m.grid[axis]).astype(dtype)
    return (number[0] if m.groups == 1 else number,)


HANDLERS = {
    "if": _if,
    "for": _for,
    "const": _const,
    "splat": _splat,
    "pack": _pack,
    "extract": _extract,
    "bitcast": _bitcast,
    "thread": _thread,
    "group": _group,
}
