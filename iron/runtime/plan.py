"""Plans: several launches recorded as one, with scratch memory between them.

A plan's body runs once, in Python, with its dims, dtype variables and parameters bound; the
kernels it calls are bound and recorded instead of launched. Nothing in it reads device data, so
the recording holds for every later run with the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any, cast

import numpy as np

from iron.dtypes import DType
from iron.errors import error
from iron.lang import launch as vocabulary
from iron.lang.declare import PlanFunction
from iron.lang.dim import Dim, DimExpr, TypeVar, evaluate
from iron.runtime.arrays import allocate

Step = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Recording:
    """The steps of a plan so far; `beside` is an argument that decides where scratch lives."""

    plan: str
    steps: list[Step]
    beside: Any


_OPEN: ContextVar[Recording | None] = ContextVar("iron plan recording", default=None)


def recording() -> Recording | None:
    """The plan being recorded, or None outside a plan."""
    return _OPEN.get()


def record(
    fn: PlanFunction,
    parameters: Mapping[str, Any],
    sizes: Mapping[str, int],
    dtypes: Mapping[str, DType],
    beside: Any,
) -> tuple[Step, ...]:
    """The launches of `fn` in order; `parameters` are what its body sees by name."""
    opened = Recording(fn.name, [], beside)
    token = _OPEN.set(opened)
    try:
        _with_sizes(cast(FunctionType, fn.fn), sizes, dtypes)(**parameters)
    finally:
        _OPEN.reset(token)
    return tuple(opened.steps)


def _with_sizes(
    fn: FunctionType, sizes: Mapping[str, int], dtypes: Mapping[str, DType]
) -> FunctionType:
    """`fn` seeing numbers for dims, dtypes for dtype variables, and memory for `scratch`."""

    def bound(value: Any) -> Any:
        if isinstance(value, Dim):
            return sizes.get(value.name, value)
        if isinstance(value, DimExpr) and all(n in sizes for n in value.names):
            return evaluate(value, sizes)
        if isinstance(value, TypeVar):
            return dtypes.get(value.name, value)
        return scratch if value is vocabulary.scratch else value

    names = fn.__code__.co_names
    space = {
        **fn.__globals__,
        **{n: bound(fn.__globals__[n]) for n in names if n in fn.__globals__},
    }
    cells = tuple(CellType(bound(c.cell_contents)) for c in fn.__closure__ or ())
    copy = FunctionType(fn.__code__, space, fn.__name__, fn.__defaults__, cells)
    copy.__kwdefaults__ = fn.__kwdefaults__
    return copy


def scratch(dtype: DType, *shape: int, fill: Any = None) -> Any:
    """Memory of the plan being recorded; with `fill` it is set before the launches that follow."""
    opened = _OPEN.get()
    assert opened is not None
    if any(not isinstance(n, int | np.integer) or n < 0 for n in cast("tuple[Any, ...]", shape)):
        raise error(
            "E0113",
            f"scratch{(dtype, *shape)}: every extent is an int of at least 0",
            kernel=opened.plan,
        )
    array = allocate(tuple(map(int, shape)), dtype, opened.beside, "scratch", opened.plan)
    if fill is not None:
        host = array.host
        opened.steps.append(lambda: host.fill(fill))
    return array.source
