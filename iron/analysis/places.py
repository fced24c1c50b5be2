"""Where accesses of parameters lie, as linear forms of thread, groups and loop turns.

A form owns its elements when different threads, groups and turns touch different ones: read as
the digits of a mixed radix, each coefficient exceeds all that the smaller digits can reach. The
quotient and the remainder of one number by a positive one count as that number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iron.ir.core import Op, Value

THREAD = "thread"


@dataclass(frozen=True, slots=True)
class Part:
    """The quotient of `number` by `by`, which is positive and one for all threads, or the rest."""

    number: Value
    by: Value
    rest: bool


Symbol = str | int | Op | Value | Part
"""The thread, a launch axis, a loop (its turns from 0), a value that is one for all threads, or a
part of a number."""


@dataclass(frozen=True, slots=True)
class Form:
    """constant + the sum of coefficient x symbol."""

    parts: Mapping[Symbol, int]
    constant: int

    def plus(self, other: Form, times: int = 1) -> Form:
        """self + times x other."""
        parts = dict(self.parts)
        for symbol, factor in other.parts.items():
            parts[symbol] = parts.get(symbol, 0) + times * factor
        parts = {s: f for s, f in parts.items() if f}
        return Form(parts, self.constant + times * other.constant)

    @property
    def part(self) -> Part | None:
        """The part of a number that alone decides the form, if it is one."""
        varying = [s for s in self.parts if not isinstance(s, Value)]
        return varying[0] if len(varying) == 1 and isinstance(varying[0], Part) else None


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One load or store: a form for each axis, the neighbours it covers, the loops around it.

    `path` holds the position in each block from the body inwards, with the region entered there.
    """

    op: Op
    forms: tuple[Form, ...]
    width: int
    loops: tuple[Op, ...]
    path: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Places:
    """The accesses of a kernel by parameter; None for a parameter with an index of no form.

    `sizes` bounds how many values a symbol takes (None: no bound is known), `ends` holds for a loop
    the forms of its counter and of the bound that the counter stays below. `numbers` has the forms
    of numbers of which parts are indices, `least` the least value of one for all threads.
    """

    accesses: Mapping[str, list[Access] | None]
    sizes: Mapping[Symbol, int | None]
    ends: Mapping[Op, tuple[Form, Form]]
    numbers: Mapping[Value, Form]
    least: Mapping[Value, int]

    def owns(self, a: Access) -> bool:
        """True when different threads, groups and turns touch different elements."""
        seen: set[Symbol] = set()
        last = len(a.forms) - 1
        axes = [(form, a.width if axis == last else 1) for axis, form in enumerate(a.forms)]
        for form, width in self._joined(axes):
            reach = width
            for symbol, factor in digits(form):
                if factor < reach or symbol in seen or isinstance(symbol, Part):
                    return False
                seen.add(symbol)
                size = self.sizes[symbol]
                reach = factor * size if size is not None else 1 << 200
        return all(
            size == 1 or symbol in seen or (isinstance(symbol, Op) and symbol not in a.loops)
            for symbol, size in self.sizes.items()
        )

    def _joined(self, axes: list[tuple[Form, int]]) -> list[tuple[Form, int]]:
        """The axes with a number in place of two that hold its quotient and its rest."""
        at = {form.part: i for i, (form, width) in enumerate(axes) if width == 1}
        for part, i in at.items():
            other = part and at.get(Part(part.number, part.by, not part.rest))
            if part is not None and other is not None:
                left = [axis for k, axis in enumerate(axes) if k not in (i, other)]
                return self._joined([*left, (self.numbers[part.number], 1)])
        return axes

    def apart(self, a: Access, b: Access) -> bool:
        """True when on some axis all that `a` touches lies below all that `b` does, or above."""
        for axis in range(len(a.forms)):
            last = axis == len(a.forms) - 1
            for one, other in ((a, b), (b, a)):
                top, low = self._highest(one, axis), self._lowest(other.forms[axis])
                width = one.width if last else 1
                if top is not None and low is not None:
                    gap = self._least(low.plus(top, -1))
                    if gap is not None and gap >= width:
                        return True
        return False

    def _lowest(self, form: Form) -> Form | None:
        """The form where all that varies is 0; None when something is subtracted."""
        if any(f < 0 or isinstance(s, Part) for s, f in digits(form)):
            return None
        return Form({s: f for s, f in form.parts.items() if isinstance(s, Value)}, form.constant)

    def _highest(self, a: Access, axis: int) -> Form | None:
        """The form where all that varies is as great as it gets; None without a bound."""
        form = a.forms[axis]
        for loop in reversed(a.loops):
            factor, (counter, end) = form.parts.get(loop, 0), self.ends.get(loop, (None, None))
            if factor > 0 and counter is not None and end is not None:
                times, rest = divmod(factor, counter.parts[loop])
                if not rest:
                    form = form.plus(counter, -times).plus(end, times).plus(Form({}, -1), times)
        total = Form({s: f for s, f in form.parts.items() if isinstance(s, Value)}, form.constant)
        for symbol, factor in digits(form):
            size = self.sizes.get(symbol)
            if factor > 0 and size is None:
                return None
            total = total.plus(Form({}, factor * (size - 1) if size and factor > 0 else 0))
        return total

    def _least(self, form: Form) -> int | None:
        """The least value of a form of values that are one for all threads."""
        total = form.constant
        for symbol, factor in form.parts.items():
            if factor < 0 or not isinstance(symbol, Value) or symbol not in self.least:
                return None
            total += factor * self.least[symbol]
        return total

    def shared_only_with_itself(self, read: Access, store: Access) -> bool:
        """True when what `read` touches is stored, if at all, by the same thread in the same turn.

        The store must own its elements. A loop around only one of the two may stand for a loop
        around only the other when their coefficients agree.
        """
        common = set(read.loops) & set(store.loops)
        last = len(store.forms) - 1
        for axis, (mine, other) in enumerate(zip(read.forms, store.forms, strict=True)):
            if _shape(mine, common) != _shape(other, common):
                return False
            if not self._digits_fit(mine, other):
                return False
            if axis == last:
                if not _in_block(read, store):
                    return False
            elif mine.constant != other.constant:
                return False
        return True

    def _digits_fit(self, mine: Form, other: Form) -> bool:
        """No digit of `mine` runs into the next one of `other`."""
        factors = [f for _, f in digits(other)]
        for symbol, factor in digits(mine):
            above = [f for f in factors if f > factor]
            size = self.sizes.get(symbol)
            if above and (size is None or factor * size > min(above)):
                return False
        return True


def _in_block(read: Access, store: Access) -> bool:
    """True when, on the last axis, `read` keeps to its owner's block, or hits nothing stored.

    A block runs from what a store writes to where the next owner begins.
    """
    ahead = read.forms[-1].constant - store.forms[-1].constant
    factors = [f for _, f in digits(store.forms[-1])]
    if not factors:
        return ahead == 0 and read.width == store.width
    room = factors[0]
    if 0 <= ahead <= room - read.width or (ahead == 0 and read.width == store.width):
        return True
    between = store.width <= ahead % room <= room - read.width
    return between and all(f % room == 0 for f in factors)


def digits(form: Form) -> list[tuple[Symbol, int]]:
    """The parts that vary, by rising coefficient; a negative one comes first and fits nowhere."""
    varying = [(s, f) for s, f in form.parts.items() if not isinstance(s, Value)]
    return sorted(varying, key=lambda part: part[1])


def _shape(form: Form, common: set[Op]) -> dict[object, int]:
    """Coefficients by symbol; a loop that is not common is known by its coefficient alone."""
    out: dict[object, int] = {}
    for symbol, factor in form.parts.items():
        private = isinstance(symbol, Op) and symbol not in common
        key = ("turn", factor) if private else symbol
        out[key] = out.get(key, 0) + factor
    return out


def before(read: Access, store: Access) -> bool:
    """True when `read` stands earlier in the program, within the same turn of common loops."""
    return read.path < store.path
