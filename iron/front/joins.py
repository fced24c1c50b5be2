"""Run-time branches, and what a name means after its two sides meet.

A number that meets a value takes the value's type; two different numbers become f32, bool or an
integer; sides that disagree in kind, type or list shape leave the name broken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.dtypes import DType
from iron.front.scope import Aliased, Broken, Weak, leaves, references, replaced, same_shape
from iron.front.state import Trace
from iron.front.values import (
    as_value,
    described,
    dtype_of,
    is_number,
    joined_dtype,
    misfit,
)
from iron.ir.core import Block, Value
from iron.ir.types import Type, element

Names = dict[str, object]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a branch: its block, the builder's memo to continue it, its names at the end."""

    block: Block
    memo: dict[Any, tuple[Value, ...]]
    names: Names


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a joined leaf among the results of the branch."""

    at: int


def branch(
    trace: Trace,
    condition: Value,
    then: Callable[[], None],
    other: Callable[[], None],
    names: Sequence[str],
) -> None:
    """Reads both sides into an `if` and joins `names`."""
    before, at = trace.names, trace.at
    sides = [_side(trace, read, before) for read in (then, other)]
    trace.at = at
    trace.frame.names = after = dict(before)
    yields: tuple[list[Value], list[Value]] = ([], [])
    for name in names:
        if any(name in side.names for side in sides):
            after[name] = _join_name(trace, name, sides, yields)
    for side, values in zip(sides, yields, strict=True):
        with trace.builder.into(side.block, side.memo):
            trace.emit_all("yield", tuple(values))
    regions = tuple(side.block for side in sides)
    results = trace.emit_all("if", (condition,), regions=regions)
    for name in names:
        if name in after:
            after[name] = _filled(after[name], results, name)


def _side(trace: Trace, read: Callable[[], None], before: Names) -> Side:
    trace.frame.names = dict(before)
    trace.depth += 1
    with trace.builder.block() as block:
        read()
        memo = trace.builder.memo
    trace.depth -= 1
    return Side(block, memo, trace.frame.names)


def _join_name(
    trace: Trace, name: str, sides: Sequence[Side], yields: tuple[list[Value], list[Value]]
) -> object:
    """The joined object, with a `Slot` for every leaf that becomes a result."""
    missing = Broken(f"`{name}` has a value on one side only of the branch on line {trace.line()}")
    a, b = (side.names.get(name, missing) for side in sides)
    if a is b or (unchanged(a, b) and not lists_of(a)):
        return a
    for x in (a, b):
        if isinstance(x, Broken):
            return x
    if not same_shape(a, b):
        return Broken(
            f"`{name}` is {_kind(a)} on one side of the branch on line {trace.line()} "
            f"and {_kind(b)} on the other"
        )
    pairs: list[object] = []
    for x, y in zip(leaves(a), leaves(b), strict=True):
        joined = _join_leaf(trace, x, y, sides)
        if joined is None:
            return _disagreement(trace, name, x, y)
        pairs.append(joined)
    return replaced(a, _slots(pairs, yields), _second_names(trace, a, b, sides))


def _kind(x: object) -> str:
    return (
        f"{type(x).__name__.lower()} of {len(x)}" if isinstance(x, list | tuple) else described(x)
    )


def _disagreement(trace: Trace, name: str, x: object, y: object) -> Broken:
    return Broken(
        f"`{name}` is {described(x)} on one side of the branch on line {trace.line()} "
        f"and {described(y)} on the other"
    )


@dataclass(frozen=True, slots=True)
class Pair:
    """The two values of a leaf, one for each side."""

    then: Value
    other: Value


def _slots(pairs: Sequence[object], yields: tuple[list[Value], list[Value]]) -> Any:
    for p in pairs:
        if isinstance(p, Pair):
            yields[0].append(p.then)
            yields[1].append(p.other)
            yield Slot(len(yields[0]) - 1)
        else:
            yield p


def _second_names(trace: Trace, a: object, b: object, sides: Sequence[Side]) -> Iterator[bool]:
    """For each list inside, outermost first: whether it had a second name on either side."""
    for pair in zip(lists_of(a), lists_of(b), strict=True):
        found = [has_second_name(trace, x, side.names) for x, side in zip(pair, sides, strict=True)]
        yield any(found)


def has_second_name(trace: Trace, held: object, names: Names) -> bool:
    """Whether another name may hold the very list `held`; if so, every holder learns it."""
    if list_names(trace, held, names) > 1:
        trace.shared_lists[id(held)] = held
    return isinstance(held, Aliased) or id(held) in trace.shared_lists


def lists_of(x: object) -> list[object]:
    """The lists in nested lists and tuples, outermost first."""
    if not isinstance(x, list | tuple):
        return []
    inside = [y for item in x for y in lists_of(item)]
    return [x, *inside] if isinstance(x, list) else inside


def list_names(trace: Trace, held: object, names: Names) -> int:
    """How many names and lists hold the very list `held`, in any function being read."""
    outer = [f.names for f in trace.frames[:-1]]
    return sum(references(held, x) for space in (names, *outer) for x in space.values())


def _filled(x: object, results: Sequence[Value], name: str) -> object:
    if isinstance(x, Slot):
        value = results[x.at]
        value.name = value.name or name
        return value
    if isinstance(x, list | tuple):
        inside = [_filled(y, results, name) for y in x]
        kind: Any = type(x)
        return kind(*inside) if hasattr(x, "_fields") else kind(inside)
    return x


def unchanged(a: object, b: object) -> bool:
    """True when both sides hold the very same object, or equal compile-time objects."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, Broken):
        return False
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(unchanged(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, np.generic | np.ndarray) and isinstance(b, np.generic | np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, Value):
        return False
    try:
        return bool(a == b)
    except Exception:
        return False


def _join_leaf(trace: Trace, x: object, y: object, sides: Sequence[Side]) -> object:
    """The kept object, a `Pair` of values of one type, or None when the sides disagree."""
    if unchanged(x, y):
        return x
    t = common_type(trace, x, y)
    if t is None:
        return None
    out: list[Value] = []
    for leaf, side in zip((x, y), sides, strict=True):
        with trace.builder.into(side.block, side.memo):
            out.append(as_value(trace, leaf, t))
    return Pair(*out) if out[0].type is out[1].type else None


def common_type(trace: Trace, x: object, y: object) -> Type | None:
    """The type in which two leaves can meet; None when there is none."""
    if not all(isinstance(v, Value | Weak) or is_number(v) for v in (x, y)):
        return None
    firm = [t for v in (x, y) if (t := firm_type(v)) is not None]
    wide = [t for t in firm if element(t) is trace.index]
    t = (wide or firm or [joined_dtype(trace, x, y)])[0]
    return t if all(_fits(trace, v, t) for v in (x, y)) else None


def firm_type(x: object) -> Type | None:
    """The type a leaf insists on."""
    return x.type if isinstance(x, Value) else dtype_of(x)


def _fits(trace: Trace, x: object, t: Type) -> bool:
    to = element(t)
    if isinstance(x, Weak):
        return to.is_float or (to.is_integer and to.bits >= 32)
    if isinstance(x, Value):
        return x.type is t or (to is trace.index and isinstance(x.type, DType))
    own = dtype_of(x)
    plain: Any = x.item() if isinstance(x, np.generic) else x
    return own is to if own is not None else not misfit(plain, to)


def carryable(x: object) -> bool:
    """True when every leaf is a number or a value, so that a loop can carry it."""
    return all(isinstance(v, Value | Weak) or is_number(v) for v in leaves(x))
