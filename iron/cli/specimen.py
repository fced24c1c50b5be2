"""One kernel chosen by name and bound to its first case that fits: what `iron inspect` looks at."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from iron.check.expand import ConcreteCase, Declared, expand
from iron.check.interpret import read_call
from iron.check.prepare import prepare
from iron.check.tolerance import CaseError
from iron.cli.configuration import Configuration
from iron.errors import KernelError, error
from iron.front.specialise import traced
from iron.ir.core import Kernel
from iron.ir.host import evaluate
from iron.lang.declare import KernelFunction
from iron.lang.parameter import ConstSpec
from iron.runtime.specialisation import candidates
from iron.targets.target import Target
from iron.worker.discover import kernels, modules


@dataclass(frozen=True, slots=True)
class Specimen:
    """A kernel in IR before any pass, the case whose sizes it is bound to, and its Consts."""

    case: ConcreteCase
    kernel: Kernel
    dims: Mapping[str, int]
    consts: Mapping[str, Any]


def library(resolved: Configuration) -> tuple[dict[str, Declared], list[str]]:
    """Every kernel and plan of the configured packages by name, and what could not be imported."""
    root = resolved.project
    if root is not None:
        sys.path[:0] = [p for p in (str(root), str(root / "src")) if p not in sys.path]
    found: dict[str, Declared] = {}
    faults: list[str] = []
    for module in modules(resolved["kernels"]):
        try:
            found.update(kernels(module))
        except (Exception, SystemExit) as fault:  # a user's module may raise anything
            faults.append(f"{module}: {type(fault).__name__}: {fault}")
    return found, faults


def named(found: Mapping[str, Declared], name: str, faults: list[str]) -> Declared:
    """The kernel called `name`; E0803 with the nearest names when there is none."""
    if name in found:
        return found[name]
    near = difflib.get_close_matches(name, list(found), 3)
    near = near or [known for known in found if name in known][:3]
    close = " or ".join(f"`{n}`" for n in near)
    notes = tuple(f"cannot be imported: {fault}" for fault in faults)
    advice = f"did you mean {close}?" if near else "`iron inspect` lists the kernels"
    raise error("E0803", f"there is no kernel `{name}`", notes=notes, help=advice)


def options(declared: Declared) -> dict[str, list[str]]:
    """The values that `--dtype` and `--variant` may name, as the kernel's cases have them."""
    out: dict[str, list[str]] = {}
    for case in expand(declared):
        pairs = [("dtype", str(t)) for t in case.dtypes.values()]
        pairs += [(k, spelled(v)) for k, v in _axes(case).items()]
        for name, value in pairs:
            if value not in out.setdefault(name, []):
                out[name].append(value)
    return out


def choose(
    declared: KernelFunction, target: Target, dtype: str | None, variant: Mapping[str, str]
) -> Specimen:
    """The kernel for its first case that fits, with the Consts that a call on `target` tries
    first. E0803 when no case fits; the case's own refusal when none can be read."""
    refused: KernelError | None = None
    own, extra = _split(declared, variant)
    for case in _fitting(declared, dtype, own):
        kept = {n: v for n, v in case.consts.items() if n not in case.choice or n in own}
        for consts in candidates(declared, target, {**kept, **extra}):
            try:
                return _read(declared, case, consts, target)
            except KernelError as wrong:
                refused = refused or wrong
    if refused is not None:
        raise refused
    asked = [f"--dtype {dtype}"] if dtype else []
    asked += [f"--variant {k}={v}" for k, v in own.items()]
    known = tuple(f"{n}: {', '.join(values)}" for n, values in options(declared).items())
    reason = f"has {' '.join(asked)}" if asked else "is declared, and its sizes are a case's"
    raise error("E0803", f"no case of `{declared.name}` {reason}", notes=known)


def _split(
    declared: KernelFunction, variant: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, int]]:
    """What the cases must have, and whole numbers for Consts that no case has, such as THREADS."""
    axes = {(n, spelled(v)) for case in expand(declared) for n, v in _axes(case).items()}
    own: dict[str, str] = {}
    extra: dict[str, int] = {}
    for name, value in variant.items():
        free = (name, value) not in axes and isinstance(declared.signature.get(name), ConstSpec)
        if free and value.lstrip("-").isdigit():
            extra[name] = int(value)
        else:
            own[name] = value
    return own, extra


def _fitting(
    declared: Declared, dtype: str | None, variant: Mapping[str, str]
) -> Iterator[ConcreteCase]:
    for case in expand(declared):
        axes = {name: spelled(value) for name, value in _axes(case).items()}
        right = dtype is None or dtype in [str(t) for t in case.dtypes.values()]
        if right and all(axes.get(name) == value for name, value in variant.items()):
            yield case


def _axes(case: ConcreteCase) -> dict[str, Any]:
    return {**case.axes, **case.formats, **case.variant, **case.choice}


def spelled(value: Any) -> str:
    """A variant's value as `--variant` takes it."""
    return str(getattr(value, "name", value))


def _read(
    declared: KernelFunction, case: ConcreteCase, consts: Mapping[str, Any], target: Target
) -> Specimen:
    """The kernel at one binding for a target; E0702 where a requirement does not hold there."""
    try:
        arguments = {**prepare(case).arguments, **consts}
    except CaseError as wrong:
        raise error("E0803", f"{case.label}: {wrong}") from None
    read = read_call(declared, arguments, target.simd, shared_bytes=target.shared_bytes)
    _, failed = evaluate(read.kernel, read.scalars, read.binding.dims)
    if failed:
        raise error("E0702", failed[0].message, failed[0].loc, declared.name)
    kernel = traced(declared, read.binding, target.simd).kernel
    bound = read.binding.consts
    taken = replace(case, choice={name: bound[name] for name in case.choice})
    return Specimen(taken, kernel, read.binding.dims, bound)
