"""Finds the accesses of a kernel's tensors, and the linear form of each index."""

from __future__ import annotations

from collections.abc import Callable

from iron.analysis.places import THREAD, Access, Form, Part, Places, Symbol, digits
from iron.analysis.ranges import Ranges, ranges
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.table import Trait
from iron.ir.types import count, element


def places(kernel: Kernel) -> Places:
    """The accesses of the tensor parameters of `kernel`."""
    walk = _Walk(kernel)
    walk.block(kernel.body, (), ())
    return Places(walk.found, walk.sizes, walk.ends(), walk.numbers(), walk.least())


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
            elif op.row.has(Trait.TILE) and op.args and op.args[0] in self.names:
                self.found[self.names[op.args[0]]] = None
            elif op.name == "async_copy" and op.args[1] in self.names:
                self.found[self.names[op.args[1]]] = None
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

    def ends(self) -> dict[Op, tuple[Form, Form]]:
        """The counter and the bound of each loop whose bound is one for all threads."""
        out: dict[Op, tuple[Form, Form]] = {}
        for counter, loop in self.counters.items():
            try:
                form, end = self.form(counter), self.form(loop.args[1])
            except _NoForm:
                continue
            if form.parts.get(loop, 0) > 0 and not digits(end):
                out[loop] = form, end
        return out

    def numbers(self) -> dict[Value, Form]:
        """The forms of the numbers of which parts are indices."""
        symbols = [symbol for form in self.forms.values() for symbol in form.parts]
        return {s.number: self.form(s.number) for s in symbols if isinstance(s, Part)}

    def least(self) -> dict[Value, int]:
        """The least of each value that is one for all threads."""
        known = {v: self.facts.of(v) for v in self.sizes if isinstance(v, Value)}
        return {v: r.low for v, r in known.items() if r is not None}

    def _access(self, op: Op, loops: tuple[Op, ...], path: tuple[tuple[int, int], ...]) -> None:
        name = self.names[op.args[0]]
        known = self.found[name]
        if known is None:
            return
        indices = op.args[1:] if op.name == "load" else op.args[1:-1]
        value = op.results[0] if op.name == "load" else op.args[-1]
        try:
            forms = tuple(map(self._index, indices))
        except _NoForm:
            self.found[name] = None
            return
        known.append(Access(op, forms, max(1, count(value.type)), loops, path))

    def _index(self, value: Value) -> Form:
        """The form of an index of an access.

        A sum that wraps only once, and upwards, is negative and so outside the tensor: an access
        that happens has the sum itself.
        """
        dtype = element(value.type)
        terms = self._terms(value)
        known = [self.facts.of(t) for t in terms]
        if dtype.kind == "i" and None not in known:
            low, high = (sum(getattr(r, end) for r in known) for end in ("low", "high"))
            if low >= dtype.min and high <= dtype.max - dtype.min:
                total = Form({}, 0)
                for t in terms:
                    total = total.plus(self.form(t))
                return total
        return self.form(value)

    def _terms(self, value: Value) -> list[Value]:
        if value.op is None or value.op.name != "add":
            return [value]
        return [t for a in value.op.args for t in self._terms(a)]

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
            return self._symbol(value)
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
            return self._symbol(value)
        if op is not None and op.name in ("mod", "floordiv"):
            return self._part(op)
        raise _NoForm

    def _symbol(self, value: Value) -> Form:
        self.sizes.setdefault(value, 1)
        return Form({value: 1}, 0)

    def _part(self, op: Op) -> Form:
        """A quotient or a rest by a number that is one for all threads and positive here."""
        number, by = op.args
        known = self.facts.at(op, 1)
        if known is None or known.low < 1 or not (by in self.names or self._constant(by)):
            raise _NoForm
        self.form(number)
        return Form({Part(number, by, op.name == "mod"): 1}, 0)

    def _constant(self, value: Value) -> bool:
        return value.op is not None and self._for_all(value.op)

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
