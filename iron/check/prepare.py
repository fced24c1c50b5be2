"""A concrete case's arguments: inputs from the case function, outputs from the declared shapes.

Inputs are rounded to their dtypes before the oracle sees them, as float64; outputs are poisoned and
fenced.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from iron.check.arrays import Fenced, fenced, poison
from iron.check.expand import ConcreteCase
from iron.check.inputs import Inputs
from iron.check.tolerance import Array, Bound, CaseError, bound, rounded
from iron.dtypes import DType
from iron.lang.dim import Dim, TypeVar, evaluate
from iron.lang.parameter import MISSING, ConstSpec, ParamSpec
from iron.lang.suite import Case, Tolerance


@dataclass(frozen=True, slots=True)
class Output:
    """One output: where it is written, what it must be, and how far it may lie from that."""

    held: Fenced
    reference: Any
    allowed: Bound
    dtype: DType


@dataclass(frozen=True, slots=True)
class Prepared:
    """A case's arguments in the kernel's order, copies of its inputs, and its outputs."""

    arguments: dict[str, Any]
    inputs: dict[str, Array]
    outputs: dict[str, Output]


@dataclass(frozen=True, slots=True)
class Given:
    """A case's inputs, rounded, with the sizes and names that follow from them.

    `outputs` holds the shape of each output that the call writes.
    """

    specs: Mapping[str, ParamSpec]
    inputs: dict[str, Any]
    env: dict[str, Any]
    outputs: dict[str, tuple[int, ...]]


def given(case: ConcreteCase, rng: Inputs) -> Given:
    """What the case function gives, without asking the oracle."""
    known = {**case.axes, **case.dtypes, **case.formats, **case.variant}
    told = _call(case.case.make, known, rng=rng)
    specs = {k: s for k, s in case.kernel.signature.items() if isinstance(s, ParamSpec)}
    unknown = [name for name in told if name not in specs]
    if unknown:
        raise CaseError(f"the case gives {unknown}, which the kernel does not have")
    inputs = _inputs(specs, told, case.dtypes)
    env = _sizes(specs, inputs, case)
    written = {
        name: _shape(name, spec, inputs, env)
        for name, spec in specs.items()
        if spec.kind in ("out", "inout") and not (name in told and told[name] is None)
    }
    return Given(specs, inputs, env, written)


def arguments(case: ConcreteCase, found: Given, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The call's arguments in the kernel's order, its outputs being `outputs`."""
    values = {**found.inputs, **outputs, **case.consts}
    absent = {name: None for name, spec in found.specs.items() if spec.optional}
    return {k: {**absent, **values}[k] for k in case.kernel.signature if k in absent | values}


def output_dtype(case: ConcreteCase, name: str) -> DType:
    """The element type of an output."""
    spec = case.kernel.signature[name]
    assert isinstance(spec, ParamSpec)
    return _dtype(spec, case.dtypes)


def prepare(case: ConcreteCase, seed: int = 0, rng: Inputs | None = None) -> Prepared:
    """Inputs rounded to their dtypes, the oracle's answer in float64, and poisoned outputs."""
    found = given(case, rng or Inputs(seed, case.label))
    specs, inputs = found.specs, found.inputs
    told, conditions = _oracle(case, specs, inputs, found.env)
    outputs: dict[str, Output] = {}
    for name, shape in found.outputs.items():
        want = _reference(name, told, shape)
        outputs[name] = _output(
            name, specs[name], want, conditions.get(name), inputs, case, found.env
        )
    extra = [name for name in told if name not in outputs]
    if extra:
        raise CaseError(f"the oracle gives {extra}, which are no outputs")
    kept = {
        name: np.array(value)
        for name, value in inputs.items()
        if specs[name].kind == "in" and isinstance(value, np.ndarray)
    }
    held = {name: out.held.array for name, out in outputs.items()}
    return Prepared(arguments(case, found, held), kept, outputs)


def _inputs(
    specs: Mapping[str, ParamSpec], given: Mapping[str, Any], dtypes: Mapping[str, DType]
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, spec in specs.items():
        value = given.get(name, None if spec.default is MISSING else spec.default)
        if value is not None:
            out[name] = _input(name, spec, value, dtypes)
        elif spec.kind != "out" and not spec.optional:
            raise CaseError(f"the case does not give {name}")
    return out


def _output(
    name: str,
    spec: ParamSpec,
    want: Any,
    condition: Any,
    inputs: Mapping[str, Any],
    case: ConcreteCase,
    env: Mapping[str, Any],
) -> Output:
    dtype = _dtype(spec, case.dtypes)
    fill = inputs[name] if spec.kind == "inout" else poison(rounded(want, dtype), dtype)
    allowed = bound(_tolerance(case.case, name), want, condition, dtype, env)
    return Output(fenced(want.shape, dtype, fill), want, allowed, dtype)


def _call(function: Callable[..., Any], known: Mapping[str, Any], **more: Any) -> Any:
    """`function` with the parameters it names."""
    offered = {**known, **more}
    wanted = inspect.signature(function).parameters
    missing = [n for n, p in wanted.items() if n not in offered and p.default is p.empty]
    if missing:
        raise CaseError(f"{function.__code__.co_firstlineno}: nothing gives {missing}")
    try:
        return function(**{name: offered[name] for name in wanted if name in offered})
    except MemoryError:  # the process's limit, not the function's fault alone
        raise
    except Exception as fault:
        kind, code = type(fault).__name__, function.__code__
        at = f"{PurePath(code.co_filename).name}:{code.co_firstlineno}"
        raise CaseError(f"the function at {at} raised {kind}: {fault}") from fault


def _dtype(spec: ParamSpec, dtypes: Mapping[str, DType]) -> DType:
    found = dtypes[spec.dtype.name] if isinstance(spec.dtype, TypeVar) else spec.dtype
    assert found is not None
    return found


def _input(name: str, spec: ParamSpec, value: Any, dtypes: Mapping[str, DType]) -> Any:
    if spec.kind == "out":
        raise CaseError(f"the case gives the output {name}")
    if spec.kind == "packed":
        return value
    dtype = _dtype(spec, dtypes)
    if spec.kind == "scalar":
        return dtype(value).item()
    array = np.asarray(value)
    if array.dtype == dtype.np:
        return array  # as it is: views with gaps and exact bits stay
    with np.errstate(all="ignore"):
        if array.dtype == np.float64 and dtype.is_float:
            array = array.astype(np.float32)
        return np.ascontiguousarray(array.astype(dtype.np))


def _sizes(
    specs: Mapping[str, ParamSpec], inputs: Mapping[str, Any], case: ConcreteCase
) -> dict[str, Any]:
    """The dims of the inputs and axes, with the Consts and dtypes of the case."""
    env: dict[str, Any] = {**case.axes, **case.consts, **case.dtypes}
    for name, value in inputs.items():
        dims = specs[name].dims
        if not dims or specs[name].kind == "scalar":
            continue
        shape = tuple(value.shape)
        if len(shape) != len(dims):
            raise CaseError(f"{name} has {len(shape)} axes, {len(dims)} are declared")
        for size, extent in zip(dims, shape, strict=True):
            if isinstance(size, Dim) and env.setdefault(size.name, extent) != extent:
                raise CaseError(f"dim {size} is {env[size.name]} elsewhere but {extent} in {name}")
    _defaults(case.kernel.signature, env)
    for name, value in inputs.items():
        if specs[name].dims and specs[name].kind != "scalar":
            _matches(name, specs[name], tuple(value.shape), env)
    return env


def _defaults(signature: Mapping[str, Any], env: dict[str, Any]) -> None:
    """Adds the Consts that nothing gives and whose defaults follow from what is known."""
    for name, spec in signature.items():
        if not isinstance(spec, ConstSpec) or name in env or spec.default is MISSING:
            continue
        if not inspect.isfunction(spec.default):
            env[name] = spec.default
        elif all(wanted in env for wanted in inspect.signature(spec.default).parameters):
            env[name] = _call(spec.default, env)


def _matches(name: str, spec: ParamSpec, shape: tuple[int, ...], env: Mapping[str, Any]) -> None:
    want = tuple(evaluate(size, env) for size in spec.dims or ())
    if want != shape:
        raise CaseError(f"{name} has shape {shape}, {want} is declared")


def _shape(
    name: str, spec: ParamSpec, inputs: Mapping[str, Any], env: Mapping[str, Any]
) -> tuple[int, ...]:
    if spec.dims is None:
        shapes = [v.shape for v in inputs.values() if isinstance(v, np.ndarray)]
        return tuple(inputs[name].shape if name in inputs else shapes[0])
    try:
        return tuple(evaluate(size, env) for size in spec.dims)
    except KeyError as unknown:
        raise CaseError(f"nothing gives {unknown}, an extent of {name}; add an axis") from None


def _oracle(
    case: ConcreteCase,
    specs: Mapping[str, ParamSpec],
    inputs: Mapping[str, Any],
    env: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reference values and conditions; floats go in as float64, absent optionals as None."""
    if case.kernel.suite.oracle is None:
        raise CaseError(f"{case.kernel.name} has no oracle")
    seen = {name: inputs.get(name) for name, spec in specs.items() if spec.kind != "out"}
    for name, value in seen.items():
        if isinstance(value, np.ndarray) and _dtype(specs[name], case.dtypes).is_float:
            seen[name] = value.astype(np.float64)
    known = {**env, **case.formats, **case.variant, **seen}
    with np.errstate(all="ignore"):
        told = _call(case.kernel.suite.oracle, known)
    return told if isinstance(told, tuple) else (told, {})


def _reference(name: str, told: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    if name not in told:
        raise CaseError(f"the oracle says nothing about {name}")
    want = np.ma.asarray(told[name]) if np.ma.isMA(told[name]) else np.asarray(told[name])
    if want.shape != shape:
        raise CaseError(f"the oracle's {name} has shape {want.shape}, {shape} is declared")
    return want


def _tolerance(case: Case, output: str) -> Tolerance:
    if isinstance(case.tol, Tolerance):
        return case.tol
    if output not in case.tol:
        raise CaseError(f"the case states no tolerance class for {output}")
    return case.tol[output]
