"""Names bound by a call's arguments: dims, dtype variables and format variables.

A dim is a size, a dtype variable an element type, a format variable a packing of weights. Their
values are found by `front.bind`; this module knows only how an expression of dims is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from iron.dtypes import DType
from iron.errors import error
from iron.lang.place import outside


def _floordiv(a: int, b: int) -> int:
    return a // b


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _floordiv,
    "%": lambda a, b: a % b,
    "cdiv": lambda a, b: -(-a // b),
}


@dataclass(frozen=True, slots=True)
class Dim:
    """A named size. Two dims of one name are the same dim."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        """The dims this depends on: itself."""
        return (self.name,)

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The size in `env`; KeyError when it is not there."""
        return int(env[self.name])

    def __repr__(self) -> str:
        return self.name

    def __add__(self, other: Any) -> DimExpr:
        return binary("+", self, other)

    def __radd__(self, other: Any) -> DimExpr:
        return binary("+", other, self)

    def __sub__(self, other: Any) -> DimExpr:
        return binary("-", self, other)

    def __rsub__(self, other: Any) -> DimExpr:
        return binary("-", other, self)

    def __mul__(self, other: Any) -> DimExpr:
        return binary("*", self, other)

    def __rmul__(self, other: Any) -> DimExpr:
        return binary("*", other, self)

    def __floordiv__(self, other: Any) -> DimExpr:
        return binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> DimExpr:
        return binary("//", other, self)

    def __mod__(self, other: Any) -> DimExpr:
        return binary("%", self, other)

    def __rmod__(self, other: Any) -> DimExpr:
        return binary("%", other, self)


@dataclass(frozen=True, slots=True)
class DimExpr:
    """`a op b` of dims, numbers and other expressions; `op` is one of `+ - * // % cdiv`."""

    op: str
    a: Dim | DimExpr | int
    b: Dim | DimExpr | int

    @property
    def names(self) -> tuple[str, ...]:
        """The dims this depends on, each once, in order of appearance."""
        found = (*_names(self.a), *_names(self.b))
        return tuple(dict.fromkeys(found))

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The number; KeyError for an unknown dim, ZeroDivisionError for a divisor of 0."""
        return _OPERATIONS[self.op](_value(self.a, env), _value(self.b, env))

    def __repr__(self) -> str:
        if self.op == "cdiv":
            return f"cdiv({self.a}, {self.b})"
        sides = [f"({s})" if isinstance(s, DimExpr) else str(s) for s in (self.a, self.b)]
        return f"{sides[0]} {self.op} {sides[1]}"

    __add__ = Dim.__add__
    __radd__ = Dim.__radd__
    __sub__ = Dim.__sub__
    __rsub__ = Dim.__rsub__
    __mul__ = Dim.__mul__
    __rmul__ = Dim.__rmul__
    __floordiv__ = Dim.__floordiv__
    __rfloordiv__ = Dim.__rfloordiv__
    __mod__ = Dim.__mod__
    __rmod__ = Dim.__rmod__


def _names(side: Dim | DimExpr | int) -> tuple[str, ...]:
    return () if isinstance(side, int) else side.names


def _value(side: Dim | DimExpr | int, env: Mapping[str, int]) -> int:
    return side if isinstance(side, int) else side.evaluate(env)


def binary(op: str, a: Any, b: Any) -> DimExpr:
    """The expression `a op b`; E0114 for an operand that is neither a dim nor an int."""
    for side in (a, b):
        if not isinstance(side, Dim | DimExpr | int) or isinstance(side, bool):
            raise error("E0114", f"a dim meets {side!r}; an expression of dims takes ints and dims")
    return DimExpr(op, a, b)


def evaluate(size: Dim | DimExpr | int, env: Mapping[str, int]) -> int:
    """The number that a declared size stands for."""
    return _value(size, env)


def dims(names: str) -> tuple[int, ...]:
    """One dim for each word of `names`; an editor sees ints.

    >>> dims("R N")
    (R, N)
    """
    words = names.split()
    if not words or len(set(words)) != len(words) or not all(w.isidentifier() for w in words):
        raise error("E0114", f"dims({names!r}): give different names, separated by blanks")
    return tuple(cast(int, Dim(word)) for word in words)


@dataclass(frozen=True, slots=True, eq=False)
class TypeVar:
    """A dtype bound by the arguments of a call: one of `options`; the kernel is compiled for it."""

    name: str
    options: tuple[DType, ...]

    def __call__(self, value: Any) -> Any:
        """A cast inside a kernel; E0113 on the host, where the variable has no value."""
        raise outside(self.name)

    def __repr__(self) -> str:
        return self.name


def dtypes(name: str, *options: DType) -> DType:
    """A dtype variable; an editor sees a dtype.

    >>> dtypes("T", f32, f16)
    T
    """
    if not options or len(set(options)) != len(options):
        raise error("E0114", f"dtypes({name!r}): give one or more different dtypes")
    return cast(DType, TypeVar(name, options))


@dataclass(frozen=True, slots=True, eq=False)
class FormatVar:
    """A weight format bound by the packed argument of a call: one of `options`."""

    name: str
    options: tuple[Any, ...]

    def __repr__(self) -> str:
        return self.name


def formats(name: str, *options: Any) -> Any:
    """A format variable for `Packed[FMT, N, K]`; `options` are records of `quant.format`.

    >>> formats("FMT", "q4_0", "q8_0")
    FMT
    """
    if not options:
        raise error("E0114", f"formats({name!r}): give one or more formats")
    return FormatVar(name, options)
