"""Drops masks in the turns of a loop that need none: peel.

where(keep, x, -inf), with keep a conjunction of comparisons that become false as the counter grows,
is x as long as all of keep holds. Such a loop becomes two: the turns before `clean` without the
mask, and the others as they were. Masks that begin at the front stay in every turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from iron.dtypes import DType, bool_
from iron.ir.build import Builder
from iron.ir.core import Kernel, Op, Value, const_of, is_const, stop_flag
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.types import Tile, element

GAPS = {"lt": 1, "le": 0, "gt": 1, "ge": 0}


def peel(kernel: Kernel) -> Kernel:
    """`kernel` with its loops split where their masks begin to matter.

    Integers are taken not to wrap: they are sums of places inside of tensors.
    """
    if not any(op.name == "for" and _masks(op) for op in kernel.body.walk()):
        return kernel
    return replace_blocks(kernel, body=_Peel().sweep.block(kernel.body))


def counted(loop: Op) -> tuple[int, int]:
    """How many masks of a loop drop nothing in its first turns, and how many others it has."""
    masks = [
        op
        for op in loop.regions[0].ops
        if op.name == "where" and isinstance(op.results[0].type, Tile) and _lowest(op.args[2])
    ]
    gone = len(_masks(loop))
    return gone, len(masks) - gone


@dataclass(frozen=True, slots=True)
class Form:
    """slope * counter + constant + the sum of count * scalar over `terms`, of the old kernel."""

    slope: int = 0
    constant: int = 0
    terms: tuple[tuple[int, Value], ...] = ()

    def plus(self, other: Form, times: int = 1) -> Form:
        """This and `times` the other."""
        more = tuple((times * count, value) for count, value in other.terms)
        slope, constant = self.slope + times * other.slope, self.constant + times * other.constant
        return Form(slope, constant, self.terms + more)


class _Peel:
    """The sweep, and the masks that the copy of a loop being made leaves out."""

    def __init__(self) -> None:
        self.sweep = Sweep({"for": self.loop, "where": self.where})
        self.without: set[Op] = set()

    def where(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """The masked value itself, where nothing is masked."""
        return (args[1],) if op in self.without else None

    def loop(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """Two loops, the first of which has no masks."""
        masks = _masks(op)
        if not masks:
            return None
        low, high, step = args[:3]
        clean = self._clean(b, [room for rooms in masks.values() for room in rooms], low.type)
        middle = b.emit("max", low, b.emit("min", clean, high))
        self.without |= set(masks)
        first = self._copy(b, op, (low, middle, step, *args[3:]))
        self.without -= set(masks)
        return self._copy(b, op, (middle, high, step, *first))

    def _copy(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...]:
        body = self.sweep.block(op.regions[0])
        b.loc, b.exact = op.loc, op.exact
        return b.emit_all("for", args, op.attrs, (body,), op.surface)

    def _clean(self, b: Builder, rooms: list[Form], dtype: object) -> Value:
        """The first turn in which some room is below 0; each shrinks as the counter grows."""
        assert isinstance(dtype, DType)
        found: Value | None = None
        for room in rooms:
            total = b.const(room.constant, dtype)
            for count, value in room.terms:
                part = b.emit("mul", self.sweep.values[value], b.const(count, dtype))
                total = b.emit("add", total, part)
            turns = b.emit("floordiv", total, b.const(-room.slope, dtype))
            turns = b.emit("add", turns, b.const(1, dtype))
            found = turns if found is None else b.emit("min", found, turns)
        assert found is not None
        return found


def _masks(loop: Op) -> dict[Op, list[Form]]:
    """The masks of a loop that drop nothing in its first turns, with what is left of the room of
    each comparison: nothing is dropped while all of them are at least 0."""
    (body,) = loop.regions
    step = loop.args[2]
    if stop_flag(loop) is not None or not is_const(step) or const_of(step) != 1:
        return {}
    inside = {r for op in body.ops for r in op.results} | set(body.params)
    forms = _Forms(body.params[0], inside)
    found: dict[Op, list[Form]] = {}
    for op in body.ops:
        if op.name == "where" and isinstance(op.results[0].type, Tile) and _lowest(op.args[2]):
            rooms = forms.rooms(op.args[0])
            if rooms and all(r is not None and r.slope < 0 for r in rooms):
                found[op] = [r for r in rooms if r is not None]
    return found


class _Forms:
    """Bounds of integer tiles of one loop's body as forms of its counter."""

    def __init__(self, counter: Value, inside: set[Value]) -> None:
        self.counter = counter
        self.inside = inside

    def rooms(self, keep: Value) -> list[Form | None]:
        """The least room of every comparison of a conjunction; None for what is none."""
        op = keep.op
        if op is not None and op.name in ("tile_expand", "tile_broadcast"):
            return self.rooms(op.args[0])
        if op is not None and op.name == "and" and element(keep.type) is bool_:
            return [r for a in op.args for r in self.rooms(a)]
        if op is None or op.name not in GAPS or not element(op.args[0].type).is_integer:
            return [None]
        less, more = op.args if op.name in ("lt", "le") else op.args[::-1]
        most, least = self.bound(less, True), self.bound(more, False)
        if most is None or least is None:
            return [None]
        return [least.plus(most, -1).plus(Form(constant=-GAPS[op.name]))]

    def bound(self, value: Value, greatest: bool) -> Form | None:
        """The greatest or least element of a tile, or a scalar itself, in the counter's dtype.

        None for what is no such form.
        """
        if element(value.type) is not self.counter.type:
            return None
        if value is self.counter:
            return Form(slope=1)
        if value not in self.inside and not isinstance(value.type, Tile):
            return (
                Form(constant=int(const_of(value)))
                if is_const(value)
                else Form(terms=((1, value),))
            )
        rule = _BOUNDS.get(value.op.name) if value.op is not None else None
        return rule(self, value.op, greatest) if rule is not None and value.op is not None else None

    def same(self, op: Op, greatest: bool) -> Form | None:
        """Of an operand."""
        return self.bound(op.args[0], greatest)

    def literal(self, op: Op, greatest: bool) -> Form | None:
        """Of a constant."""
        return Form(constant=int(const_of(op.results[0])))

    def iota(self, op: Op, greatest: bool) -> Form | None:
        """0 to the count."""
        return Form(constant=op.attr("count") - 1 if greatest else 0)

    def add(self, op: Op, greatest: bool) -> Form | None:
        """Of a sum."""
        a, b = (self.bound(v, greatest) for v in op.args)
        return a.plus(b) if a is not None and b is not None else None

    def sub(self, op: Op, greatest: bool) -> Form | None:
        """Of a difference."""
        a, b = self.bound(op.args[0], greatest), self.bound(op.args[1], not greatest)
        return a.plus(b, -1) if a is not None and b is not None else None

    def max(self, op: Op, greatest: bool) -> Form | None:
        """Of the greater of two: it is at least a constant one."""
        found = [self.bound(v, False) for v in op.args]
        known = [f for f in found if f is not None and f == Form(constant=f.constant)]
        return known[0] if known and not greatest else None

    def mul(self, op: Op, greatest: bool) -> Form | None:
        """Of a product with a constant."""
        for x, c in (op.args, op.args[::-1]):
            by = self.bound(c, True)
            if by is not None and by == Form(constant=by.constant):
                held = self.bound(x, greatest == (by.constant >= 0))
                return Form().plus(held, by.constant) if held is not None else None
        return None


def _lowest(value: Value) -> bool:
    op = value.op
    if op is None or op.name != "tile_full" or not is_const(op.args[0]):
        return False
    return bool(np.isneginf(const_of(op.args[0])))


_BOUNDS: dict[str, Callable[[_Forms, Op, bool], Form | None]] = {
    **dict.fromkeys(("tile_full", "tile_expand", "tile_broadcast"), _Forms.same),
    "const": _Forms.literal,
    "tile_iota": _Forms.iota,
    "add": _Forms.add,
    "sub": _Forms.sub,
    "mul": _Forms.mul,
    "max": _Forms.max,
}
