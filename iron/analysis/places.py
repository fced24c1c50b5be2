"""Where accesses of parameters lie, as linear forms of thread, groups and loop turns.

A form owns its elements when different threads, groups and turns touch different ones: read as
the digits of a mixed radix, each coefficient exceeds all that the smaller digits can reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from iron.analysis.ranges import Ranges, ranges
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.table import Trait
from iron.ir.types import count

THREAD = "thread"

Symbol = str | int | Op | Value
"""The thread, a launch axis, a loop (its turns from 0), or a value that is one for all threads."""


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

    `sizes` bounds how many values a symbol takes (None: no bound is known).
    """

    accesses: Mapping[str, list[Access] | None]
    sizes: Mapping[Symbol, int | None]

    def owns(self, a: Access) -> bool:
        """True when different threads, groups and turns touch different elements."""
        seen: set[Symbol] = set()
        for axis, form in enumerate(a.forms):
            reach = a.width if axis == len(a.forms) - 1 else 1
            for symbol, factor in _digits(form):
                if factor < reach or symbol in seen:
                    return False
                seen.add(symbol)
                size = self.sizes[symbol]
                reach = factor * size if size is not None else 1 << 200
        return all(
            size == 1 or symbol in seen or (isinstance(symbol, Op) and symbol not in a.loops)
            for symbol, size in self.sizes.items()
        )

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
        factors = [f for _, f in _digits(other)]
        for symbol, factor in _digits(mine):
            above = [f for f in factors if f > factor]
            size = self.sizes[symbol]
            if above and (size is None or factor * size > min(above)):
                return False
        return True


def _in_block(read: Access, store: Access) -> bool:
    """True when, on the last axis, `read` keeps to its owner's block, or hits nothing stored.

    A block runs from what a store writes to where the next owner begins.
    """
    ahead = read.forms[-1].constant - store.forms[-1].constant
    factors = [f for _, f in _digits(store.forms[-1])]
    if not factors:
        return ahead == 0 and read.width == store.width
    room = factors[0]
    if 0 <= ahead <= room - read.width or (ahead == 0 and read.width == store.width):
        return True
    between = store.width <= ahead % room <= room - read.width
    return between and all(f % room == 0 for f in factors)


def _digits(form: Form) -> list[tuple[Symbol, int]]:
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


def places(kernel: Kernel) -> Places:
    """The accesses of the tensor parameters of `kernel`."""
    walk = _Walk(kernel)
    walk.block(kernel.body, (), ())
    return Places(walk.found, walk.sizes)


class _NoForm(Exception):
    """An index that is no linear form."""


class _Walk:
    """One walk over the body; forms are found on demand."""

    def __init__(self, kernel: Kernel) -> None:
        self.facts: Ranges = ranges(kernel)
        self.names = {v: p.name for p, v in zip(kernel.params, kernel.body.params, strict=True)}
        self.found: dict[str, list[Access] | None] = {n: [] for n in self.names.values()}
        self.sizes: dict[Symbol, int | None] = {THREAD: kernel.threads}
        self.sizes.update((axis, g.high + 1) for axis, g in enumerate(self.facts.groups))
        self.counters: dict[Value, Op] = {}
        self.forms: dict[Value, Form] = {}

    def block(self, block: Block, loops: tuple[Op, ...], path: tuple[tuple[int, int], ...]) -> None:
        for i, op in enumerate(block.ops):
            if op.name in ("load", "store", "atomic") and op.args[0] in self.names:
                self._access(op, loops, (*path, (i, 0)))
            if op.name == "for":
                self.counters[op.regions[0].params[0]] = op
                self.sizes[op] = self._turns(op)
            for r, region in enumerate(op.regions):
                inner = (*loops, op) if op.name == "for" else loops
                self.block(region, inner, (*path, (i, r)))

    def _turns(self, op: Op) -> int | None:
        low, high, step = (self.facts.at(op, i) for i in range(3))
        if low is None or high is None or step is None or step.low < 1:
            return None
        return max(1, -((low.low - high.high) // step.low))

    def _access(self, op: Op, loops: tuple[Op, ...], path: tuple[tuple[int, int], ...]) -> None:
        name = self.names[op.args[0]]
        known = self.found[name]
        if known is None:
            return
        indices = op.args[1:] if op.name == "load" else op.args[1:-1]
        value = op.results[0] if op.name == "load" else op.args[-1]
        try:
            forms = tuple(map(self.form, indices))
        except _NoForm:
            self.found[name] = None
            return
        known.append(Access(op, forms, max(1, count(value.type)), loops, path))

    def form(self, value: Value) -> Form:
        """The linear form of an index; _NoForm when there is none."""
        found = self.forms.get(value)
        if found is None:
            found = self.forms[value] = self._form(value)
        return found

    def _form(self, value: Value) -> Form:
        known = self.facts.of(value)
        if known is not None and known.constant is not None:
            return Form({}, known.constant)
        if value in self.names:
            return self._symbol(value, 1)
        if (loop := self.counters.get(value)) is not None:
            step = self.facts.at(loop, 2)
            if step is None or step.constant is None:
                raise _NoForm
            return self.form(loop.args[0]).plus(Form({loop: 1}, 0), step.constant)
        op = value.op
        rule = _RULES.get(op.name) if op is not None else None
        if op is not None and rule is not None:
            exact = op.name in ("thread", "group") or op in self.facts.exact
            form = rule(self, op) if exact else None
            if form is not None:
                return form
        if op is not None and self._for_all(op):
            return self._symbol(value, 1)
        raise _NoForm

    def _symbol(self, symbol: Symbol, size: int | None) -> Form:
        self.sizes.setdefault(symbol, size)
        return Form({symbol: 1}, 0)

    def _for_all(self, op: Op) -> bool:
        """True when the value is made of parameters alone, so one for every thread and turn."""
        if not op.row.has(Trait.PURE) or op.name in ("thread", "group"):
            return False
        return all(a in self.names or (a.op is not None and self._for_all(a.op)) for a in op.args)


def _scaled(w: _Walk, op: Op) -> Form | None:
    for i in (0, 1):
        by = w.facts.at(op, 1 - i)
        if by is not None and by.constant is not None:
            return Form({}, 0).plus(w.form(op.args[i]), by.constant)
    return None


def _shifted(w: _Walk, op: Op) -> Form | None:
    by = w.facts.at(op, 1)
    if by is None or by.constant is None:
        return None
    return Form({}, 0).plus(w.form(op.args[0]), 1 << by.constant)


_RULES: dict[str, Callable[[_Walk, Op], Form | None]] = {
    "thread": lambda w, op: Form({THREAD: 1}, 0),
    "group": lambda w, op: Form({op.attr("axis"): 1}, 0),
    "add": lambda w, op: w.form(op.args[0]).plus(w.form(op.args[1])),
    "sub": lambda w, op: w.form(op.args[0]).plus(w.form(op.args[1]), -1),
    "mul": _scaled,
    "shl": _shifted,
    "cast": lambda w, op: w.form(op.args[0]),
}
