"""One elementwise computation: instructions on a dtype at a number of lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iron.backends.cpu.types import lanes, literal, scalar, spread, suffix
from iron.backends.cpu.writer import Writer
from iron.dtypes import DType


@dataclass(frozen=True, slots=True)
class Lanes:
    """Writes instructions on `width` lanes of `dtype`; one lane is a scalar."""

    w: Writer
    dtype: DType
    width: int

    @property
    def ll(self) -> str:
        """The scalar type."""
        return scalar(self.dtype)

    @property
    def t(self) -> str:
        """The type of the whole value."""
        return lanes(self.ll, self.width)

    @property
    def flags(self) -> str:
        """The type of a comparison's result."""
        return lanes("i1", self.width)

    def of(self, dtype: DType) -> Lanes:
        """The same number of lanes of another dtype."""
        return Lanes(self.w, dtype, self.width)

    def const(self, value: Any) -> str:
        """A constant in every lane."""
        return spread(literal(value, self.dtype), self.ll, self.width)

    def op(self, opcode: str, a: str, b: str) -> str:
        """A two-operand instruction."""
        return self.w.let(f"{opcode} {self.t} {a}, {b}")

    def compare(self, predicate: str, a: str, b: str) -> str:
        """`fcmp` or `icmp` by the dtype."""
        kind = "fcmp" if self.dtype.kind == "f" else "icmp"
        return self.w.let(f"{kind} {predicate} {self.t} {a}, {b}")

    def order(self, relation: str, a: str, b: str) -> str:
        """`lt`, `le`, `gt` or `ge`; false when either is NaN."""
        return self.compare({"f": "o", "i": "s"}.get(self.dtype.kind, "u") + relation, a, b)

    def is_nan(self, x: str) -> str:
        """Which lanes of a float are NaN."""
        return self.compare("uno", x, x)

    def select(self, condition: str, a: str, b: str) -> str:
        """`a` where the condition holds, else `b`."""
        return self.w.let(f"select {self.flags} {condition}, {self.t} {a}, {self.t} {b}")

    def convert(self, opcode: str, x: str, to: str) -> str:
        """A conversion instruction to the scalar type `to`."""
        return self.w.let(f"{opcode} {self.t} {x} to {lanes(to, self.width)}")

    def call(self, name: str, *operands: str, flag: str = "") -> str:
        """An intrinsic on this type; `flag` is a last i1 operand."""
        args = [(self.t, x) for x in operands]
        if flag:
            args.append(("i1", flag))
        return self.w.call(self.t, f"llvm.{name}.{suffix(self.ll, self.width)}", *args)
