"""Cases made concrete: sizes x dtypes x formats x variants x alternatives, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from iron.dtypes import DType
from iron.lang.declare import KernelFunction, PlanFunction
from iron.lang.dim import FormatVar, TypeVar
from iron.lang.parameter import ConstSpec, ParamSpec
from iron.lang.suite import Case

Declared = KernelFunction | PlanFunction


@dataclass(frozen=True, slots=True)
class ConcreteCase:
    """One call to check: a case at one point of its axes, dtypes, variants and alternatives."""

    kernel: Declared
    case: Case
    axes: Mapping[str, Any]
    dtypes: Mapping[str, DType]
    formats: Mapping[str, Any]
    variant: Mapping[str, Any]
    choice: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The case as text, such as `rms_norm[bf16,VEC=4](R=3,N=129)`."""
        tags = [str(t) for t in self.dtypes.values()]
        tags += [_named(f) for f in self.formats.values()]
        tags += [f"{k}={_named(v)}" for k, v in (*self.variant.items(), *self.choice.items())]
        sizes = ",".join(f"{k}={_named(v)}" for k, v in self.axes.items())
        return f"{self.kernel.name}[{','.join(tags)}]({sizes})"

    @property
    def consts(self) -> dict[str, Any]:
        """The Consts this case gives by name."""
        signature = self.kernel.signature
        given = {**self.axes, **self.formats, **self.variant, **self.choice}
        return {k: v for k, v in given.items() if isinstance(signature.get(k), ConstSpec)}

    def fits(self, simd: int) -> bool:
        """False when the case names threads that are no whole simdgroups of `simd` lanes."""
        threads = self.consts.get("THREADS", simd)
        return threads == 1 or threads % simd == 0


def _named(value: Any) -> str:
    return str(getattr(value, "name", value))


def expand(kernel: Declared) -> list[ConcreteCase]:
    """Every concrete case of the kernel, in a fixed order."""
    return [c for case in kernel.suite.cases for c in _points(kernel, case)]


def _points(kernel: Declared, case: Case) -> Iterator[ConcreteCase]:
    variables = variables_of(kernel)
    spread = {
        name: variable.options for name, variable in variables.items() if name not in case.axes
    }
    variants = {k: v for k, v in kernel.variants.items() if k not in case.axes}
    alternatives = _alternatives(kernel, case)
    for axes in _product(case.axes):
        for bound_to in _product(spread):
            everything = {**axes, **bound_to}
            for variant, choice in product(list(_product(variants)), alternatives):
                yield ConcreteCase(
                    kernel,
                    case,
                    {k: v for k, v in axes.items() if k not in variables},
                    {k: v for k, v in everything.items() if isinstance(variables.get(k), TypeVar)},
                    {
                        k: v
                        for k, v in everything.items()
                        if isinstance(variables.get(k), FormatVar)
                    },
                    variant,
                    choice,
                )


def variables_of(kernel: Declared) -> dict[str, TypeVar | FormatVar]:
    """The dtype and format variables in the kernel's signature by name."""
    found: dict[str, TypeVar | FormatVar] = {}
    for spec in kernel.signature.values():
        if isinstance(spec, ParamSpec):
            for variable in (spec.dtype, spec.format):
                if isinstance(variable, TypeVar | FormatVar):
                    found[variable.name] = variable
    return found


def _alternatives(kernel: Declared, case: Case) -> list[dict[str, Any]]:
    if isinstance(kernel, PlanFunction):
        return [{}]
    keys = {
        name: tuple(dict.fromkeys(v for order in orders.values() for v in order))
        for name, orders in kernel.choose.items()
        if name not in case.axes
    }
    return list(_product(keys))


def _product(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))
