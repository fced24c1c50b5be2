"""Rewrites integer arithmetic, comparisons and loops by what is known of their ranges.

Everything holds for Python's floor division: `x // 2^k` is an arithmetic shift and `x % 2^k` a
mask for every x. Rules that split a quotient need sums and products that do not wrap.
"""

from __future__ import annotations

from collections.abc import Callable

from iron.analysis.interval import Range
from iron.analysis.ranges import Ranges, ranges
from iron.ir.build import Builder
from iron.ir.core import Kernel, Op, Value, carried
from iron.ir.rebuild import Rule, Sweep, replace_blocks
from iron.ir.table import TABLE, Trait
from iron.ir.types import element

ROUNDS = 3


def simplify(kernel: Kernel) -> Kernel:
    """`kernel` with cheaper integer arithmetic, decided conditions and single turns unrolled."""
    for _ in range(ROUNDS):
        round_ = _Round(ranges(kernel))
        body = round_.sweep.block(kernel.body)
        kernel = replace_blocks(kernel, body=body)
        if not round_.changed:
            break
    return kernel


class _Round:
    """One sweep with the facts of the kernel it sweeps."""

    def __init__(self, facts: Ranges) -> None:
        self.facts = facts
        self.changed = False
        pure = [
            n for n, row in TABLE.items() if row.has(Trait.PURE) and n not in ("const", "table")
        ]
        rules: dict[str, Rule] = dict.fromkeys(pure, self.pure)
        self.sweep = Sweep({**rules, "for": self.loop})

    def pure(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        found = self._better(b, op)
        if found is None:
            return None
        self.changed = True
        return (found,)

    def _better(self, b: Builder, op: Op) -> Value | None:
        (result,) = op.results
        known = self.facts.of(result)
        if known is None:
            return None
        if known.constant is not None and op.name not in ("splat", "tile_full"):
            return b.const(known.constant, result.type)  # pyright: ignore[reportArgumentType]
        rule = _RULES.get(op.name)
        return rule(Match(self.facts, self.sweep.values, b, op)) if rule else None

    def loop(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """A loop without turns is its initial values; one with a single turn is its body."""
        turns = self.facts.turns(op)
        if turns not in (0, 1):
            return None
        self.changed = True
        if turns == 0:
            return args[3:]
        (body,) = op.regions
        self.sweep.values.update(zip(body.params, (args[0], *args[3:]), strict=True))
        self.sweep.ops(body.ops[:-1])
        return tuple(self.sweep.values[v] for v in carried(op))


class Match:
    """An old op seen by a rule: the structure and facts are old, what is emitted is new."""

    def __init__(self, facts: Ranges, values: dict[Value, Value], b: Builder, op: Op) -> None:
        self.facts = facts
        self.values = values
        self.b = b
        self.op = op

    def of(self, value: Value) -> Match | None:
        """The op that made `value`."""
        return Match(self.facts, self.values, self.b, value.op) if value.op else None

    def at(self, operand: int) -> Range:
        """What an operand can be here."""
        found = self.facts.at(self.op, operand)
        return found if found is not None else Range(-(1 << 64), 1 << 64)

    def new(self, operand: int) -> Value:
        """The new value of an operand."""
        return self.values[self.op.args[operand]]

    def const(self, number: int) -> Value:
        """`number` with the type of the result."""
        return self.b.const(number, self.op.results[0].type)  # pyright: ignore[reportArgumentType]

    def emit(self, name: str, *args: Value) -> Value:
        """A new op."""
        return self.b.emit(name, *args)

    @property
    def bits(self) -> int:
        """The width of the result."""
        return element(self.op.results[0].type).bits

    @property
    def exact(self) -> bool:
        """True when the op never wraps."""
        return self.op in self.facts.exact

    def divided_by(self) -> int | None:
        """c > 0 when the op is x // c or the shift that means it."""
        by = self.at(1).constant if len(self.op.args) == 2 else None
        if by is None:
            return None
        if self.op.name == "shr":
            return 1 << by % self.bits if by % self.bits < self.bits - 1 else None
        return by if self.op.name == "floordiv" and by > 0 else None

    def modulo(self) -> int | None:
        """c > 0 when the op is x % c or the mask that means it."""
        by = self.at(1).constant if len(self.op.args) == 2 else None
        if by is None:
            return None
        if self.op.name == "and":
            return by + 1 if by >= 0 and by & (by + 1) == 0 else None
        return by if self.op.name == "mod" and by > 0 else None

    def factor(self) -> tuple[int, int] | None:
        """(operand, c) when the op is that operand times c > 0 and does not wrap."""
        if not self.exact:
            return None
        if self.op.name == "shl" and (by := self.at(1).constant) is not None:
            return (0, 1 << by % self.bits)
        if self.op.name == "mul":
            for i in (0, 1):
                c = self.at(1 - i).constant
                if c is not None and c > 0:
                    return (i, c)
        return None


def _quotient(m: Match) -> Value | None:
    c = m.divided_by()
    if c is None:
        return None
    x = m.of(m.op.args[0])
    found = _divided(x, c) if x is not None else None
    if found is not None:
        return found
    if m.op.name == "floordiv" and c & (c - 1) == 0:
        return m.emit("shr", m.new(0), m.const(c.bit_length() - 1))
    return None


def _divided(x: Match, c: int) -> Value | None:
    """x // c where x is a product, a quotient, or a sum with a multiple of c."""
    if (by := x.factor()) is not None:
        i, k = by
        if k % c == 0:
            return x.emit("mul", x.new(i), x.const(k // c))
        if c % k == 0:
            return x.emit("floordiv", x.new(i), x.const(c // k))
    if (d := x.divided_by()) is not None and c * d <= element(x.op.results[0].type).max:
        return x.emit("floordiv", x.new(0), x.const(c * d))
    if x.op.name != "add" or not x.exact:
        return None
    for i in (0, 1):
        part = x.of(x.op.args[i])
        by = part.factor() if part is not None else None
        if part is None or by is None or by[1] % c:
            continue
        if x.at(1 - i).within(0, c - 1):
            return x.emit("mul", part.new(by[0]), x.const(by[1] // c))
    return None


def _remainder(m: Match) -> Value | None:
    c = m.modulo()
    if c is None:
        return None
    if m.at(0).within(0, c - 1):
        return m.new(0)
    x = m.of(m.op.args[0])
    power = c & (c - 1) == 0
    if x is not None and x.op.name == "add" and (power or x.exact):
        for i in (0, 1):
            if x.at(i).multiple_of(c):
                return m.emit("mod", x.new(1 - i), m.const(c))
    if x is not None and (d := x.modulo()) is not None and d % c == 0:
        return m.emit("mod", x.new(0), m.const(c))
    if power and m.op.name == "mod":
        return m.emit("and", m.new(0), m.const(c - 1))
    return None


def _product(m: Match) -> Value | None:
    """(x // c) * c is x when x is a multiple of c; constants gather."""
    for i in (0, 1):
        c, x = m.at(1 - i).constant, m.of(m.op.args[i])
        if c is None or x is None:
            continue
        if x.divided_by() == c and x.at(0).multiple_of(c):
            return x.new(0)
        if x.op.name == "mul" and (inner := x.at(1).constant) is not None:
            return m.emit("mul", x.new(0), m.const(inner * c))
    return None


def _shifted(m: Match) -> Value | None:
    by, x = m.at(1).constant, m.of(m.op.args[0])
    if by is None or x is None:
        return None
    c = 1 << by % m.bits
    return x.new(0) if x.divided_by() == c and x.at(0).multiple_of(c) else None


def _sum(m: Match) -> Value | None:
    """(x + c) + d is x + (c + d), which wrapping does not change."""
    for i in (0, 1):
        c, x = m.at(1 - i).constant, m.of(m.op.args[i])
        if c is None or x is None or x.op.name != "add":
            continue
        inner = x.at(1).constant
        if inner is not None:
            return m.emit("add", x.new(0), m.const(inner + c))
    return None


def _difference(m: Match) -> Value | None:
    """x - c is x + -c for signed types; of an unsigned one the sum would wrap."""
    c, dtype = m.at(1).constant, element(m.op.results[0].type)
    if c is None or dtype.kind != "i" or c == dtype.min:
        return None
    return m.emit("add", m.new(0), m.const(-c))


def _lesser(m: Match) -> Value | None:
    a, b = m.at(0), m.at(1)
    if a.high <= b.low:
        return m.new(0)
    return m.new(1) if b.high <= a.low else None


def _greater(m: Match) -> Value | None:
    a, b = m.at(0), m.at(1)
    if a.low >= b.high:
        return m.new(0)
    return m.new(1) if b.low >= a.high else None


def _cast(m: Match) -> Value | None:
    """A cast of a cast that kept the value is one cast."""
    x = m.of(m.op.args[0])
    if x is None or x.op.name != "cast" or not x.exact or element(x.op.args[0].type).is_float:
        return None
    return m.b.emit("cast", x.new(0), attrs=m.op.attrs)


def _not(m: Match) -> Value | None:
    x = m.of(m.op.args[0])
    if x is None or x.op.name not in _OPPOSITE or element(x.op.args[0].type).is_float:
        return None
    return m.emit(_OPPOSITE[x.op.name], x.new(0), x.new(1))


_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}

_RULES: dict[str, Callable[[Match], Value | None]] = {
    "floordiv": _quotient,
    "shr": _quotient,
    "mod": _remainder,
    "and": _remainder,
    "mul": _product,
    "shl": _shifted,
    "add": _sum,
    "sub": _difference,
    "min": _lesser,
    "max": _greater,
    "cast": _cast,
    "not": _not,
}
