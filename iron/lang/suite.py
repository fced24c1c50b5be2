"""How a kernel is checked and timed, as records beside it; what runs them is `iron.check`, `bench`.

A kernel has one oracle (its formula in numpy float64), cases (inputs for sizes) and benches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from iron.errors import Loc


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A tolerance class; the bound itself is computed in `check.tolerance`.

    `n` is the length of RED and RECUR: a number, a dim, or an expression of dims as text.
    `operand` is the type to which a wider operand is rounded before the product (DOT, ATTN), and
    `quick` says that fast_ functions were used (ELT).
    """

    name: str
    n: Any = None
    operand: Any = None
    quick: bool = False

    def rounded(self, dtype: Any) -> Tolerance:
        """The class with operands rounded to `dtype` (a dtype, a dtype variable or "tf32")."""
        return replace(self, operand=dtype)

    def fast(self) -> Tolerance:
        """The class for kernels that use fast_ functions."""
        return replace(self, quick=True)

    def __repr__(self) -> str:
        inside = "" if self.n is None else f"({self.n})"
        of = "" if self.operand is None else f".rounded({self.operand})"
        return f"{self.name}{inside}{of}{'.fast()' if self.quick else ''}"


EXACT: Final = Tolerance("EXACT")
"""Bit for bit: moves, gathers, integers, packing, indices."""

ELT: Final = Tolerance("ELT")
"""Elementwise arithmetic; condition: the scale at which the element is computed."""

DOT: Final = Tolerance("DOT")
"""Products summed; condition: (sqrt of the sum of squared products, sum of their magnitudes)."""

DOT8: Final = Tolerance("DOT8")
"""Products with an operand rounded to 8-bit codes in blocks; condition: DOT's two terms, and the
sum over blocks of half the code's step times the magnitudes of the other operand."""

SOFT: Final = Tolerance("SOFT")
"""Probabilities; no condition."""

ATTN: Final = Tolerance("ATTN")
"""Attention outputs; condition: (sqrt(sum (p v)^2), sum p |v|), optionally with max |score|."""

CODEC: Final = Tolerance("CODEC")
"""Codes bit for bit; decoded values exact up to one rounding at the store."""


def RED(n: Any) -> Tolerance:
    """Sums, means and norms of n terms; condition: the sum of magnitudes in the result's units.

    >>> RED("N // 2")
    RED(N // 2)
    """
    return Tolerance("RED", n)


def RECUR(n: Any) -> Tolerance:
    """Recurrences of n steps with f32 state; no condition.

    >>> RECUR(16)
    RECUR(16)
    """
    return Tolerance("RECUR", n)


@dataclass(frozen=True, slots=True)
class Case:
    """Inputs for every combination of `axes`.

    An axis is a dim, a Const, a dtype variable, a format variable or a name of the case's own.
    `make(rng, ...)` takes the axes it names and returns `{parameter: input}`, nothing for outputs.
    """

    axes: Mapping[str, tuple[Any, ...]]
    tol: Tolerance | Mapping[str, Tolerance]
    make: Callable[..., dict[str, Any]]
    degenerate: str = ""
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """One size to time: `flops` of the sizes; `reference` is a peer such as `mlx:rms_norm`."""

    sizes: Mapping[str, Any]
    flops: Callable[..., float] | None = None
    bytes: Callable[..., float] | None = None
    make: Callable[..., dict[str, Any]] | None = None
    reference: str = ""


@dataclass(slots=True, eq=False)
class Suite:
    """The oracle, cases and benches of one kernel or plan, filled while its module is imported."""

    oracle: Callable[..., Any] | None = None
    cases: list[Case] = field(default_factory=list[Case])
    benches: list[Bench] = field(default_factory=list[Bench])

    def set_oracle(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Takes `fn` as the oracle; ValueError when there is one."""
        if self.oracle is not None:
            raise ValueError(f"second oracle for one kernel, at line {fn.__code__.co_firstlineno}")
        self.oracle = fn
        return fn

    def add_case(
        self,
        tol: Tolerance | Mapping[str, Tolerance],
        degenerate: str,
        axes: Mapping[str, Sequence[Any]],
    ) -> Callable[[Callable[..., dict[str, Any]]], Callable[..., dict[str, Any]]]:
        """A decorator that adds the case made by the function below it."""

        def add(make: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
            code = make.__code__
            where = Loc(code.co_filename, code.co_firstlineno)
            held = {name: tuple(values) for name, values in axes.items()}
            self.cases.append(Case(held, tol, make, degenerate, where))
            return make

        return add
