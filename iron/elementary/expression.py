"""Formulas over IR values: operators that emit ops, so that a body reads like its formula.

Numbers beside a value become constants of that value's type. Everything is emitted `exact`: a
body chooses its fused multiply-adds itself, and no pass may form others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from iron.dtypes import DType, f32, i32, u32
from iron.ir.core import Value, const_of, is_const
from iron.ir.types import Vector, count

if TYPE_CHECKING:
    from iron.ir.build import Builder

Number = int | float


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """A value and the builder to go on with.

    `straight` says that regions may not be opened here (host blocks, combining functions), so a
    rare case is computed always and selected.
    """

    b: Builder
    value: Value
    straight: bool = False

    def op(self, name: str, *others: Expr | Number, attrs: tuple[DType, ...] = ()) -> Expr:
        """The op called `name` with this value as its first operand."""
        return self.of(self.b.emit(name, self.value, *map(self.lift, others), attrs=attrs))

    def of(self, value: Value) -> Expr:
        """`value` in the same place."""
        return Expr(self.b, value, self.straight)

    def lift(self, other: Expr | Number) -> Value:
        """The value of `other`; a number takes this value's type."""
        return other.value if isinstance(other, Expr) else self.constant(other).value

    def constant(self, number: Number) -> Expr:
        """`number` with this value's type."""
        return self.of(self.b.const(number, self.value.type))

    def __add__(self, other: Expr | Number) -> Expr:
        return self.op("add", other)

    def __sub__(self, other: Expr | Number) -> Expr:
        return self.op("sub", other)

    def __rsub__(self, other: Number) -> Expr:
        return self.constant(other) - self

    def __mul__(self, other: Expr | Number) -> Expr:
        return self.op("mul", other)

    def __truediv__(self, other: Expr | Number) -> Expr:
        return self.op("div", other)

    def __rtruediv__(self, other: Number) -> Expr:
        return self.constant(other) / self

    def __neg__(self) -> Expr:
        return self.op("neg")

    def __abs__(self) -> Expr:
        return self.op("abs")

    def __and__(self, other: Expr | Number) -> Expr:
        return self.op("and", other)

    def __or__(self, other: Expr | Number) -> Expr:
        return self.op("or", other)

    def __xor__(self, other: Expr | Number) -> Expr:
        return self.op("xor", other)

    def __lshift__(self, other: Expr | Number) -> Expr:
        return self.op("shl", other)

    def __rshift__(self, other: Expr | Number) -> Expr:
        return self.op("shr", other)

    def __lt__(self, other: Expr | Number) -> Expr:
        return self.op("lt", other)

    def __le__(self, other: Expr | Number) -> Expr:
        return self.op("le", other)

    def __gt__(self, other: Expr | Number) -> Expr:
        return self.op("gt", other)

    def __ge__(self, other: Expr | Number) -> Expr:
        return self.op("ge", other)

    def equals(self, other: Expr | Number) -> Expr:
        """Elementwise equality, a bool value."""
        return self.op("eq", other)

    def differs(self, other: Expr | Number) -> Expr:
        """Elementwise inequality, a bool value; true for NaN."""
        return self.op("ne", other)

    def fma(self, by: Expr | Number, plus: Expr | Number) -> Expr:
        """self * by + plus, rounded once."""
        return self.op("fma", by, plus)

    def at_least(self, low: Expr | Number) -> Expr:
        """The greater of the two; a NaN stays."""
        return self.op("max", low)

    def at_most(self, high: Expr | Number) -> Expr:
        """The lesser of the two; a NaN stays."""
        return self.op("min", high)

    def sqrt(self) -> Expr:
        """Square root, correctly rounded."""
        return self.op("sqrt")

    def copysign(self, other: Expr) -> Expr:
        """This magnitude with the sign of `other`."""
        return self.op("copysign", other)

    def to(self, dtype: DType) -> Expr:
        """The value converted to `dtype`."""
        return self.op("cast", attrs=(dtype,))

    def bits(self, dtype: DType) -> Expr:
        """The same bits as `dtype`."""
        return self.op("bitcast", attrs=(dtype,))

    def ints(self) -> Expr:
        """The bits of a float as i32."""
        return self.bits(i32)

    def words(self) -> Expr:
        """The bits of a float as u32."""
        return self.bits(u32)

    def float(self) -> Expr:
        """The f32 that has these bits."""
        return self.bits(f32)


def where(condition: Expr, a: Expr | Number, b: Expr | Number) -> Expr:
    """a where the condition holds, else b; at least one of them is an expression."""
    like = a if isinstance(a, Expr) else b
    assert isinstance(like, Expr)
    return condition.of(condition.b.emit("where", condition.value, like.lift(a), like.lift(b)))


def polynomial(x: Expr, *coefficients: float) -> Expr:
    """The sum of c_i x^i by Horner's rule in fused steps; the highest coefficient comes first."""
    total = x.constant(coefficients[0])
    for c in coefficients[1:]:
        total = total.fma(x, c)
    return total


def unless(
    rare: Expr, usual: Sequence[Expr], otherwise: Callable[[], Sequence[Expr]]
) -> tuple[Expr, ...]:
    """`usual`, but `otherwise()` where `rare` holds; the latter runs only where it is needed."""
    somewhere = _any(rare).value
    if is_const(somewhere):
        return _selected(rare, usual, otherwise()) if const_of(somewhere) else tuple(usual)
    if rare.straight:
        return _selected(rare, usual, otherwise())
    b = rare.b
    with b.block() as then:
        chosen = _selected(rare, usual, otherwise())
        b.emit_all("yield", [e.value for e in chosen])
    with b.block() as keep:
        b.emit_all("yield", [e.value for e in usual])
    results = b.emit_all("if", (somewhere,), regions=(then, keep))
    return tuple(rare.of(r) for r in results)


def _selected(rare: Expr, usual: Sequence[Expr], other: Sequence[Expr]) -> tuple[Expr, ...]:
    return tuple(where(rare, o, u) for u, o in zip(usual, other, strict=True))


def _any(condition: Expr) -> Expr:
    """One bool: whether any element of a vector condition holds."""
    if not isinstance(condition.value.type, Vector):
        return condition
    parts = [
        condition.of(condition.b.emit("extract", condition.value, attrs=(i,)))
        for i in range(count(condition.value.type))
    ]
    return reduce(lambda a, b: a | b, parts)
