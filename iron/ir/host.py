"""Host evaluation: the launch extents and preconditions of a kernel, from its scalars and dims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iron.errors import error
from iron.ir import scalar
from iron.ir.core import Kernel, Op, Require, Value


def evaluate(
    kernel: Kernel, scalars: Mapping[str, Any], dims: Mapping[str, int]
) -> tuple[tuple[int, ...], list[Require]]:
    """The group counts of each launch axis, and the requirements that do not hold.

    Values of `scalars` and `dims` are converted to their parameter's dtype. An extent below 0
    counts as 0: empty work. Raises KeyError for a name that is missing.
    """
    given: dict[str, Any] = {**scalars, **dims}
    env: dict[Value, Any] = {}
    for param, value in zip(kernel.host_params, kernel.host.params, strict=True):
        env[value] = host_scalar(given[param.name], value)
    with scalar.quiet():
        for op in kernel.host.ops[:-1]:
            env[op.results[0]] = _value(op, env)
    out = [env[v] for v in kernel.host.yielded]
    extents = tuple(max(0, int(v)) for v in out[: kernel.rank])
    held = out[kernel.rank :]
    failed = [r for r, ok in zip(kernel.requires, held, strict=True) if not ok]
    return extents, failed


def host_scalar(given: Any, value: Value) -> Any:
    """A host argument as a numpy scalar of its parameter's dtype."""
    return scalar.cast(given, value.type)  # pyright: ignore[reportArgumentType]


def _value(op: Op, env: Mapping[Value, Any]) -> Any:
    if op.name == "const":
        return op.attrs[0]
    if op.row.ref is None:
        raise error("E0901", f"`{op.name}` cannot be evaluated on the host", op.loc)
    return op.row.ref(*(env[a] for a in op.args), *op.attrs)
