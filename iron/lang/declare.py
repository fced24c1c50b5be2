"""Declarations: what `@kernel`, `@plan` and `@inline` make of a function, as plain records.

Nothing is compiled here; calling a kernel hands it to `iron.runtime`.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from iron.errors import KernelError, Loc, error
from iron.lang.parameter import ConstSpec, ParamSpec, read_signature
from iron.lang.suite import Bench, Suite, Tolerance

if TYPE_CHECKING:
    from types import FunctionType

P = typing.ParamSpec("P")
Result = TypeVar("Result")
Maker = Callable[..., dict[str, Any]]
Signature = dict[str, ParamSpec | ConstSpec]


@dataclass(frozen=True, slots=True, eq=False)
class InlineFunction(Generic[P, Result]):
    """A function that kernels inline and the host calls on numpy arrays: one body for both."""

    fn: Callable[P, Result]
    exact: bool = False

    @property
    def name(self) -> str:
        """The function's name."""
        return self.fn.__name__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        """The body on numpy scalars and arrays; integers wrap without a warning."""
        import numpy as np

        with np.errstate(all="ignore"):
            return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<inline {self.name}>"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class KernelFunction:
    """A declared kernel: its Python function, parameters and coverage. Calling it launches it.

    `variants` are code paths that are part of its meaning, `choose` paths of equal meaning in
    order of preference by target family, `schedule` defaults by target, `tune` the search space.
    """

    fn: FunctionType
    signature: Signature
    variants: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, Any])
    choose: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict[str, Any])
    schedule: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])
    tune: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, Any])
    exact: bool = False
    suite: Suite = field(default_factory=Suite)

    @property
    def name(self) -> str:
        """The function's name, which is the kernel's."""
        return self.fn.__name__

    @property
    def loc(self) -> Loc:
        """Where the function is defined."""
        return _where(self.fn)

    def choices(self, family: str) -> list[dict[str, Any]]:
        """The alternatives of `choose` on targets of `family` (`gpu`, `cpu`), best first."""
        orders = [by.get(family, next(iter(by.values()))) for by in self.choose.values()]
        return [dict(zip(self.choose, picked, strict=True)) for picked in product(*orders)]

    def oracle(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: the formula in numpy float64; see `suite`.

        It takes inputs (and Consts, dims, if it names them) and returns `{output: value}`, or that
        and `{output: condition}`.
        """
        return self.suite.set_oracle(fn)

    def case(
        self,
        *,
        tol: Tolerance | Mapping[str, Tolerance],
        degenerate: str = "",
        **axes: Sequence[Any],
    ) -> Callable[[Maker], Maker]:
        """Decorator: inputs for every combination of `axes`, checked by the class `tol`.

        `degenerate` gives the reason why the power check may fail for these inputs.
        """
        return self.suite.add_case(tol, degenerate, axes)

    def bench(
        self,
        *,
        flops: Callable[..., float] | None = None,
        bytes: Callable[..., float] | None = None,
        make: Maker | None = None,
        reference: str = "",
        **sizes: Any,
    ) -> None:
        """Adds a size to time; bytes default to the sizes of the In and Out parameters."""
        self.suite.benches.append(Bench(sizes, flops, bytes, make, reference))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launches the kernel; see `iron.runtime.launch.call` for arguments, result and errors."""
        return _runtime().call(self, args, kwargs)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A handle with everything checked and compiled, for launching many times."""
        return _runtime().bind(self, args, kwargs)

    def prepare(self, *args: Any, **kwargs: Any) -> Any:
        """Compiles for these arguments without launching."""
        return _runtime().prepare(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


@dataclass(frozen=True, slots=True, eq=False)
class PlanFunction:
    """A declared plan: calls of kernels and plans with scratch between them, launched as one."""

    fn: FunctionType
    signature: Signature
    variants: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, Any])
    suite: Suite = field(default_factory=Suite)

    @property
    def name(self) -> str:
        """The function's name, which is the plan's."""
        return self.fn.__name__

    @property
    def loc(self) -> Loc:
        """Where the function is defined."""
        return _where(self.fn)

    def oracle(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: as `KernelFunction.oracle`."""
        return self.suite.set_oracle(fn)

    def case(
        self,
        *,
        tol: Tolerance | Mapping[str, Tolerance],
        degenerate: str = "",
        **axes: Sequence[Any],
    ) -> Callable[[Maker], Maker]:
        """Decorator: as `KernelFunction.case`."""
        return self.suite.add_case(tol, degenerate, axes)

    def bench(
        self,
        *,
        flops: Callable[..., float] | None = None,
        bytes: Callable[..., float] | None = None,
        make: Maker | None = None,
        reference: str = "",
        **sizes: Any,
    ) -> None:
        """As `KernelFunction.bench`."""
        self.suite.benches.append(Bench(sizes, flops, bytes, make, reference))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the plan; see `iron.runtime.launch.call`."""
        return _runtime().call(self, args, kwargs)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A handle with everything checked, compiled and allocated, for running many times."""
        return _runtime().bind(self, args, kwargs)

    def prepare(self, *args: Any, **kwargs: Any) -> Any:
        """Compiles every kernel of the plan for these arguments without launching."""
        return _runtime().prepare(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<plan {self.name}>"


Choice = Sequence[Any] | Mapping[str, Sequence[Any]]


@overload
def kernel(fn: Callable[..., Any], /) -> KernelFunction: ...
@overload
def kernel(
    *,
    variants: Mapping[str, Sequence[Any]] | None = None,
    choose: Mapping[str, Choice] | None = None,
    schedule: Mapping[str, Mapping[str, Any]] | None = None,
    tune: Mapping[str, Sequence[Any]] | None = None,
    exact: bool = False,
) -> Callable[[Callable[..., Any]], KernelFunction]: ...
def kernel(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    variants: Mapping[str, Sequence[Any]] | None = None,
    choose: Mapping[str, Choice] | None = None,
    schedule: Mapping[str, Mapping[str, Any]] | None = None,
    tune: Mapping[str, Sequence[Any]] | None = None,
    exact: bool = False,
) -> KernelFunction | Callable[[Callable[..., Any]], KernelFunction]:
    """Declares the function below as a kernel; E0114 when a parameter is declared wrongly.

    `exact` forbids contraction and reassociation of its floats.

    >>> @kernel
    ... def double(x: In[f32, N], y: Out[f32, N]):
    ...     (i,) = each(N)
    ...     y[i] = 2 * x[i]
    """

    def declare(function: Callable[..., Any]) -> KernelFunction:
        declared = KernelFunction(
            cast("FunctionType", function),
            read_signature(function),
            {k: tuple(v) for k, v in (variants or {}).items()},
            {k: _by_family(v) for k, v in (choose or {}).items()},
            {k: dict(v) for k, v in (schedule or {}).items()},
            {k: tuple(v) for k, v in (tune or {}).items()},
            exact,
        )
        scheduled = [key for keys in declared.schedule.values() for key in keys]
        _known(declared, *declared.variants, *declared.choose, *declared.tune, *scheduled)
        return declared

    return declare if fn is None else declare(fn)


@overload
def plan(fn: Callable[..., Any], /) -> PlanFunction: ...
@overload
def plan(
    *, variants: Mapping[str, Sequence[Any]] | None = None
) -> Callable[[Callable[..., Any]], PlanFunction]: ...
def plan(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    variants: Mapping[str, Sequence[Any]] | None = None,
) -> PlanFunction | Callable[[Callable[..., Any]], PlanFunction]:
    """Declares the function below as a plan; E0114 when a parameter is declared wrongly.

    >>> @plan
    ... def twice(x: In[f32, N], y: Out[f32, N]):
    ...     between = scratch(f32, N)
    ...     double(x, between)
    ...     double(between, y)
    """

    def declare(function: Callable[..., Any]) -> PlanFunction:
        held = {k: tuple(v) for k, v in (variants or {}).items()}
        declared = PlanFunction(cast("FunctionType", function), read_signature(function), held)
        _known(declared, *held)
        return declared

    return declare if fn is None else declare(fn)


@overload
def inline(fn: Callable[P, Result], /) -> InlineFunction[P, Result]: ...
@overload
def inline(
    *, exact: bool = False
) -> Callable[[Callable[P, Result]], InlineFunction[P, Result]]: ...
def inline(fn: Callable[..., Any] | None = None, /, *, exact: bool = False) -> Any:
    """Marks a function that kernels may inline; on the host it runs on numpy arrays.

    >>> @inline
    ... def silu(x):
    ...     return x * sigmoid(x)
    >>> silu(f32(0))
    np.float32(0.0)
    """
    if fn is None:
        return lambda function: InlineFunction(function, exact)  # pyright: ignore[reportUnknownLambdaType]
    return InlineFunction(fn, exact)


def _by_family(order: Choice) -> dict[str, tuple[Any, ...]]:
    if isinstance(order, Mapping):
        return {family: tuple(values) for family, values in order.items()}
    return {"gpu": tuple(order), "cpu": tuple(order)}


def _known(declared: KernelFunction | PlanFunction, *names: str) -> None:
    for name in names:
        if not isinstance(declared.signature.get(name), ConstSpec):
            raise _wrong(declared.fn, f"`{name}` is not a Const parameter of {declared.name}")


def _wrong(fn: Callable[..., Any], message: str) -> KernelError:
    return error("E0114", message, _where(fn))


def _where(fn: Callable[..., Any]) -> Loc:
    code = inspect.unwrap(fn).__code__
    return Loc(code.co_filename, code.co_firstlineno)


def _runtime() -> Any:
    from importlib import import_module

    return import_module("iron.runtime.launch")
