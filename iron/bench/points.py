"""Bench records made concrete: sizes x dtypes, each one call with inputs of its own.

A bench that gives no inputs takes those of the first case that asks for nothing but its sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from iron.check.expand import ConcreteCase, Declared, variables_of
from iron.check.inputs import Inputs
from iron.check.tolerance import Array
from iron.dtypes import DType
from iron.errors import KernelError, error
from iron.lang.dim import TypeVar
from iron.lang.parameter import MISSING, ConstSpec
from iron.lang.suite import Bench, Case, Tolerance

BLOCK = 1 << 20
"""Elements after which random inputs repeat: 4 MiB of f32, beyond what a branch predictor sees."""


@dataclass(frozen=True, slots=True)
class Point:
    """One call to time. `case` holds the sizes, dtypes and Consts, `bench` what is counted."""

    case: ConcreteCase
    bench: Bench

    @property
    def tags(self) -> str:
        """Dtypes, formats and Consts: `f16,OP=silu`."""
        signature = self.case.kernel.signature
        named = [str(t) for t in self.case.dtypes.values()]
        named += [_text(f) for f in self.case.formats.values()]
        consts = {k: v for k, v in self.case.axes.items() if k in signature}
        return ",".join([*named, *(f"{k}={_text(v)}" for k, v in consts.items())])

    @property
    def shape(self) -> str:
        """The sizes: `R=4096,N=4096`."""
        signature = self.case.kernel.signature
        sizes = {k: v for k, v in self.case.axes.items() if k not in signature}
        return ",".join(f"{k}={_text(v)}" for k, v in sizes.items())


def points(kernel: Declared) -> list[Point]:
    """Every call that the kernel's benches ask for, in their order."""
    return [point for bench in kernel.suite.benches for point in _spread(kernel, bench)]


def _spread(kernel: Declared, bench: Bench) -> Iterator[Point]:
    """A size given as a list is one bench for each value, a dtype left out one for each float."""
    variables, defaults = variables_of(kernel), _variants(kernel)
    axes: dict[str, tuple[Any, ...]] = {}
    for name, variable in variables.items():
        if name not in bench.sizes:
            floats = tuple(o for o in variable.options if isinstance(o, DType) and o.is_float)
            axes[name] = floats or tuple(variable.options)
    for name, value in bench.sizes.items():
        axes[name] = tuple(value) if isinstance(value, list | tuple) else (value,)
    for values in product(*axes.values()):
        given = dict(zip(axes, values, strict=True))
        sizes = {k: v for k, v in given.items() if k not in variables}
        dtypes = {k: given[k] for k, v in variables.items() if isinstance(v, TypeVar)}
        formats = {k: given[k] for k, v in variables.items() if not isinstance(v, TypeVar)}
        known = {*given, "rng"}
        case = Case(sizes, _tolerance(kernel, dtypes), bench.make or _maker(kernel, known))
        variant = {k: v for k, v in defaults.items() if k not in sizes}
        yield Point(ConcreteCase(kernel, case, sizes, dtypes, formats, variant, {}), bench)


def _variants(kernel: Declared) -> dict[str, Any]:
    """What the variants are where neither call nor bench says: the default, or the first."""
    out: dict[str, Any] = {}
    for name, values in kernel.variants.items():
        spec = kernel.signature[name]
        assert isinstance(spec, ConstSpec)
        out[name] = values[0] if spec.default is MISSING else spec.default
    return out


def _tolerance(
    kernel: Declared, dtypes: Mapping[str, DType]
) -> Tolerance | Mapping[str, Tolerance]:
    """That of the first case in these dtypes, since it says what is rounded to which of them."""
    cases = kernel.suite.cases
    alike = (c for c in cases if all(t in c.axes.get(name, (t,)) for name, t in dtypes.items()))
    return next((c.tol for c in (*alike, *cases)), Tolerance("EXACT"))


def _maker(kernel: Declared, known: set[str]) -> Callable[..., dict[str, Any]]:
    for case in kernel.suite.cases:
        wanted = inspect.signature(case.make).parameters.values()
        if all(p.name in known or p.default is not p.empty for p in wanted):
            return case.make
    raise _without_inputs(kernel)


def _without_inputs(kernel: Declared) -> KernelError:
    return error(
        "E0803",
        f"a bench of {kernel.name} gives no inputs, and no case asks for just its sizes",
        kernel.loc,
        kernel.name,
        help="add `make=lambda rng, ...: {...}` to the bench",
    )


def _text(value: Any) -> str:
    """A size for people: whole multiples of 2^20 are written as such."""
    if isinstance(value, int) and not isinstance(value, bool) and value and value % (1 << 20) == 0:
        return f"{value >> 20}Mi"
    return str(getattr(value, "name", value))


class BenchInputs(Inputs):
    """Random inputs made fast: large arrays repeat a block of `BLOCK` numbers, in f32."""

    def normal(self, *shape: int, mean: float = 0.0, deviation: float = 1.0) -> Array:
        """Normal numbers."""
        if np.prod(shape, dtype=np.int64) <= BLOCK:
            return super().normal(*shape, mean=mean, deviation=deviation)
        block = self.generator.standard_normal(BLOCK, np.float32)
        return np.resize(block * np.float32(deviation) + np.float32(mean), shape)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Array:
        """Numbers of low .. high."""
        if np.prod(shape, dtype=np.int64) <= BLOCK:
            return super().uniform(*shape, low=low, high=high)
        block = self.generator.random(BLOCK, np.float32)
        return np.resize(block * np.float32(high - low) + np.float32(low), shape)

    def integers(self, *shape: int, low: int = 0, high: int = 256) -> Array:
        """Integers of low .. high - 1."""
        if np.prod(shape, dtype=np.int64) <= BLOCK:
            return super().integers(*shape, low=low, high=high)
        return np.resize(self.generator.integers(low, high, BLOCK, np.int32), shape)

    def distinct(self, *shape: int, low: float = -1.0, high: float = 1.0) -> Array:
        """Numbers of low .. high; those of a large array repeat."""
        if np.prod(shape, dtype=np.int64) <= BLOCK:
            return super().distinct(*shape, low=low, high=high)
        return self.uniform(*shape, low=low, high=high)

    def packed(self, fmt: Any, n: int, k: int) -> Any:
        """A weight [n, k] in `fmt` whose rows repeat those of its first `BLOCK` elements."""
        from iron.quant.tensor import QTensor

        rows = max(1, BLOCK // k)
        if n <= rows:
            return super().packed(fmt, n, k)
        part = super().packed(fmt, rows, k)
        planes = {
            name: np.resize(p, (p.shape[0] * n // rows, *p.shape[1:]))
            for name, p in part.planes.items()
        }
        return QTensor(part.fmt, planes, (n, k))
