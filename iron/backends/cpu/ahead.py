"""What a stream reads next: prefetches some way ahead of wide loads that advance.

Two cores do not fill the memory's pipe with what they ask for themselves: a loop that takes one
line a turn leaves most of the rate unused. Only memory that each group reads for itself is
prefetched; what every group reads stays in the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from iron.backends.cpu.address import address
from iron.backends.cpu.state import Emitter, Names
from iron.dtypes import DType
from iron.ir.core import Op, Value, const_of, is_const
from iron.ir.table import Trait
from iron.ir.types import Tensor

LINE = 64
"""Bytes of a cache line."""

DISTANCE = 2048
"""Bytes ahead of a load: what a core reads while memory answers, twice."""


def prefetch(e: Emitter, buffer: Value, indices: Sequence[Value], pointer: str, size: int) -> None:
    """Asks for the lines that the load of `size` bytes at `pointer` will read some turns on."""
    place = buffer.type
    assert isinstance(place, Tensor)
    if place.space != "in" or e.mask is not None or e.lanes == 1:
        return
    far = _far(e, buffer, indices)
    if far is None:
        return
    for at in range(0, size, LINE):
        ahead = e.w.let(f"getelementptr i8, ptr {pointer}, i64 {far}")
        _ask(e, e.w.let(f"getelementptr i8, ptr {ahead}, i64 {at}") if at else ahead)


def _prefetch(e: Emitter, op: Op) -> list[Names]:
    buffer, *indices = op.args
    _ask(e, address(e, buffer, indices).base)
    return []


def _ask(e: Emitter, pointer: str) -> None:
    hints = [("i32", "0"), ("i32", "3"), ("i32", "1")]  # a read, kept, of data
    e.w.call("void", "llvm.prefetch.p0", ("ptr", pointer), *hints)


def _far(e: Emitter, buffer: Value, indices: Sequence[Value]) -> str | None:
    """Bytes to what is read some turns on; None where the load does not advance evenly."""
    source = max((_source(e, i, {}) for i in indices), default=_Source.FIXED)
    if source in (_Source.FIXED, _Source.FOUND):
        return None
    for loop in reversed(e.turns):
        steps = _Steps(e, loop)
        found = [steps.of(i) for i in indices]
        if None in found:
            return None
        if any(found):
            by = loop.args[2]
            return _bytes(e, buffer, found, const_of(by)) if is_const(by) else None
    steps = _Steps(e, None)
    found = [steps.of(i) for i in indices]
    return None if None in found or not any(found) else _bytes(e, buffer, found, 1)


def _bytes(e: Emitter, buffer: Value, found: Sequence[int | None], times: int) -> str | None:
    """The advance of a turn, or `DISTANCE` where it is less."""
    place = buffer.type
    assert isinstance(place, Tensor)
    _, *strides = e.names(buffer)
    fixed, parts = 0, list[str]()
    for axis, steps in enumerate(found):
        by = (steps or 0) * times * place.elem.bytes
        if axis == len(strides) and place.packed:
            fixed += by
        elif by:
            parts.append(e.w.let(f"mul i64 {strides[axis]}, {by}"))
    if not parts:
        return str(max(fixed, DISTANCE)) if fixed > 0 else None
    total = str(fixed)
    for part in parts:
        total = e.w.let(f"add i64 {total}, {part}")
    return e.w.call("i64", "llvm.smax.i64", ("i64", total), ("i64", str(DISTANCE)))


class _Steps:
    """How far an index moves from one turn of a loop to the next, or from group to group."""

    def __init__(self, e: Emitter, loop: Op | None) -> None:
        self.e = e
        self.counter = loop.regions[0].params[0] if loop is not None else None
        self.inside: set[Value] | None = None
        if loop is not None:
            body = loop.regions[0]
            self.inside = {*body.params, *(r for op in body.walk() for r in op.results)}
        self.known: dict[Value, int | None] = {}

    def of(self, value: Value) -> int | None:
        """A number of steps for each step of the counter; None when it is not constant."""
        if value is self.counter:
            return 1
        if is_const(value) or (self.inside is not None and value not in self.inside):
            return 0
        if value not in self.known:
            self.known[value] = None
            self.known[value] = self._find(value)
        return self.known[value]

    def _find(self, value: Value) -> int | None:
        op = value.op
        if op is None:
            return 0 if self.inside is None else None
        if op.name == "group":
            return 1 if self.counter is None and op.attr("axis") == 0 else 0
        if op.name == "thread":
            return 0
        if not op.row.has(Trait.ELEMENTWISE):
            return None
        steps = [self.of(a) for a in op.args]
        if not any(s is None or s for s in steps):
            return 0
        flat = self.e.strides.assumed(value)
        if flat is not None:  # the rest of a flat index, or its row
            return steps[0] if flat else 0
        rule = _RULES.get(op.name)
        return rule(op.args, steps) if rule is not None else None


def _sum(args: Sequence[Value], steps: Sequence[int | None]) -> int | None:
    a, b = steps
    return None if a is None or b is None else a + b


def _difference(args: Sequence[Value], steps: Sequence[int | None]) -> int | None:
    a, b = steps
    return None if a is None or b is None else a - b


def _product(args: Sequence[Value], steps: Sequence[int | None]) -> int | None:
    for factor, other in ((0, 1), (1, 0)):
        step = steps[other]
        if is_const(args[factor]) and step is not None:
            return step * int(const_of(args[factor]))
    return None


def _shifted(args: Sequence[Value], steps: Sequence[int | None]) -> int | None:
    step, bits = steps[0], args[0].type
    if not is_const(args[1]) or step is None or not isinstance(bits, DType):
        return None
    return step << (int(const_of(args[1])) % bits.bits)


def _clamped(args: Sequence[Value], steps: Sequence[int | None]) -> int | None:
    """Where a bound stands still, the other side moves until it gets there."""
    moving = [s for s in steps if s != 0]
    return moving[0] if len(moving) == 1 else None


def _either(args: Sequence[Value], steps: Sequence[int | None]) -> int | None:
    """Both sides advance alike: a jump now and then costs a wrong guess."""
    return steps[1] if steps[1] == steps[2] else None


def _same(args: Sequence[Value], steps: Sequence[int | None]) -> int | None:
    return steps[0]


_RULES = {
    "add": _sum,
    "sub": _difference,
    "mul": _product,
    "shl": _shifted,
    "min": _clamped,
    "max": _clamped,
    "where": _either,
    "cast": _same,
}


class _Source(IntEnum):
    """What an index comes from, the greatest of its operands'; `ROW` is a group's place in line."""

    FIXED = 0
    OTHER = 1
    ROW = 2
    FOUND = 3
    """Read from memory at such a place: what the next group gets lies anywhere."""


def _source(e: Emitter, value: Value, known: dict[Value, _Source]) -> _Source:
    if value in known:
        return known[value]
    known[value] = _Source.FIXED  # a value carried around a loop says it elsewhere
    op, found = value.op, _Source.FIXED
    sources: list[Value] = []
    for loop in e.turns:
        counter, *carried = loop.regions[0].params
        if value is counter:
            sources += (loop.args[0], loop.args[2])
        elif value in carried:
            sources.append(loop.args[3 + carried.index(value)])
    if op is not None:
        if op.name == "group":
            found = _Source.ROW if op.attr("axis") == 0 else _Source.OTHER
        sources += op.args
        sources += (v for region in op.regions for v in region.yielded)
    found = max([found, *(_source(e, v, known) for v in sources)])
    if op is not None and op.row.has(Trait.READS) and found is _Source.ROW:
        found = _Source.FOUND
    known[value] = found
    return found


RULES = {"prefetch": _prefetch}
