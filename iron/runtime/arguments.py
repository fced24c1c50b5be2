"""Matching a call's arguments to a kernel's parameters; nothing here looks inside an array.

Positional arguments fill the inputs (In, InOut, Scalar, Packed) in declared order; when they are
too many for that, or an array would meet a number, they fill all parameters, outputs included.
Outputs may also be given by name or through `out=`, Consts and dtype variables by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iron.dtypes import DType
from iron.errors import KernelError, error
from iron.lang.declare import KernelFunction, PlanFunction
from iron.lang.dim import TypeVar
from iron.lang.parameter import MISSING, ConstSpec, ParamSpec

Declared = KernelFunction | PlanFunction


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call's arguments by parameter name.

    `given` holds every In, InOut, Scalar and Packed parameter (None for an absent optional one)
    and the outputs the caller supplied; `consts` the Consts and `dtypes` the dtype variables that
    were named.
    """

    given: dict[str, Any]
    consts: dict[str, Any]
    dtypes: dict[str, DType]


def arrange(fn: Declared, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    """The arguments of one call. Errors: E0703, naming the parameter."""
    specs = {n: s for n, s in fn.signature.items() if isinstance(s, ParamSpec)}
    named = dict(kwargs)
    given = _positional(fn, specs, args)
    _spread_out(fn, specs, named)
    consts = {n: named.pop(n) for n in list(named) if isinstance(fn.signature.get(n), ConstSpec)}
    variables = {s.dtype.name for s in specs.values() if isinstance(s.dtype, TypeVar)}
    dtypes = {n: named.pop(n) for n in list(named) if n in variables and n not in specs}
    for name, value in named.items():
        if name not in specs:
            raise _unknown(fn, name)
        if name in given:
            raise _wrong(fn, f"`{name}` is given twice")
        given[name] = value
    _fill_defaults(fn, specs, given)
    return Arguments({n: given[n] for n in specs if n in given}, consts, dtypes)


def _positional(fn: Declared, specs: dict[str, ParamSpec], args: tuple[Any, ...]) -> dict[str, Any]:
    inputs = [n for n, s in specs.items() if s.kind != "out"]
    for names in (inputs, list(specs)):
        if len(args) <= len(names) and _fit([specs[n] for n in names], args):
            return dict(zip(names, args, strict=False))
    if len(args) > len(specs):
        raise _wrong(fn, f"{len(args)} positional arguments for {len(specs)} parameters")
    return dict(zip(inputs if len(args) <= len(inputs) else specs, args, strict=False))


def _fit(specs: list[ParamSpec], args: tuple[Any, ...]) -> bool:
    """True when arrays meet tensors and everything else meets something else."""
    return all(
        value is None or hasattr(value, "__dlpack__") == (spec.kind in ("in", "out", "inout"))
        for spec, value in zip(specs, args, strict=False)
    )


def _spread_out(fn: Declared, specs: dict[str, ParamSpec], named: dict[str, Any]) -> None:
    """Turns `out=` into the outputs' own names."""
    if "out" not in named or "out" in specs:
        return
    out = named.pop("out")
    outputs = [n for n, s in specs.items() if s.kind == "out"]
    if isinstance(out, Mapping):
        pairs = dict(out)
    elif isinstance(out, tuple | list):
        if len(out) != len(outputs):
            raise _wrong(fn, f"`out` holds {len(out)} arrays for {len(outputs)} outputs")
        pairs = dict(zip(outputs, out, strict=True))
    else:
        if len(outputs) != 1:
            raise _wrong(fn, f"`out` must be a tuple of the outputs {', '.join(outputs)}")
        pairs = {outputs[0]: out}
    for name, value in pairs.items():
        if name in named:
            raise _wrong(fn, f"`{name}` is given twice")
        named[name] = value


def _fill_defaults(fn: Declared, specs: dict[str, ParamSpec], given: dict[str, Any]) -> None:
    for name, spec in specs.items():
        if name in given or spec.kind == "out":
            continue
        if spec.default is MISSING:
            raise _wrong(fn, f"`{name}` is missing")
        given[name] = spec.default


def _unknown(fn: Declared, name: str) -> KernelError:
    near = difflib.get_close_matches(name, list(fn.signature), 1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return _wrong(fn, f"there is no parameter `{name}`{hint}")


def _wrong(fn: Declared, message: str) -> KernelError:
    return error("E0703", message, kernel=fn.name, help=f"call it as {usage(fn)}")


def usage(fn: Declared) -> str:
    """How the kernel is called: `rms_norm(x, w=None, eps, *, VEC, THREADS, out=y)`."""
    specs = {n: s for n, s in fn.signature.items() if isinstance(s, ParamSpec)}
    inputs = [_spelled(n, s) for n, s in specs.items() if s.kind != "out"]
    outputs = [n for n, s in specs.items() if s.kind == "out"]
    consts = [n for n, s in fn.signature.items() if isinstance(s, ConstSpec)]
    last = [f"out={outputs[0] if len(outputs) == 1 else tuple(outputs)}"] if outputs else []
    keyword = ["*", *consts] if consts else []
    return f"{fn.name}({', '.join([*inputs, *keyword, *last])})"


def _spelled(name: str, spec: ParamSpec) -> str:
    return name if spec.default is MISSING else f"{name}={spec.default}"
