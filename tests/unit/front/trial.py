"""Kernels written in a test, read by the front end and run on the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from iron.dtypes import of_numpy
from iron.errors import KernelError, error
from iron.front import PackedArg, TensorArg, bind, specialise
from iron.front.bind import Binding
from iron.ir import interp
from iron.ir.core import Kernel
from iron.ir.host import evaluate
from iron.ir.verify import verify
from iron.lang import KernelFunction, ParamSpec

Array = np.ndarray[Any, Any]


def binding(fn: KernelFunction, given: Mapping[str, Any], simd: int = 32) -> Binding:
    """The binding of a call with numpy arrays, numbers and Consts by name."""
    described: dict[str, Any] = {}
    consts: dict[str, Any] = {}
    scalars: list[str] = []
    for name, spec in fn.signature.items():
        if name not in given:
            continue
        if not isinstance(spec, ParamSpec):
            consts[name] = given[name]
        elif spec.kind == "scalar":
            scalars.append(name)
        else:
            described[name] = described_argument(given[name])
    dtypes = {n: given[n] for n in given if n not in fn.signature}
    return bind(fn, described, consts, dtypes, scalars=tuple(scalars), simd=simd)


def described_argument(value: Any) -> Any:
    """What binding needs to know of an array, a packed weight, or None."""
    if value is None:
        return None
    if hasattr(value, "planes"):
        planes = {n: described_argument(p) for n, p in value.planes.items()}
        return PackedArg(value.fmt, planes, value.shape)
    dtype = of_numpy(value.dtype)
    assert dtype is not None
    return TensorArg(dtype, value.shape, tuple(s // value.itemsize for s in value.strides))


def read(fn: KernelFunction, simd: int = 32, **given: Any) -> Kernel:
    """The verified IR of one specialisation."""
    kernel = specialise(fn, binding(fn, given, simd), simd)
    verify(kernel)
    return kernel


def run(fn: KernelFunction, simd: int = 32, **given: Any) -> Kernel:
    """Runs `fn` on the interpreter, writing outputs in place."""
    bound = binding(fn, given, simd)
    kernel = read(fn, simd, **given)
    arrays: dict[str, Array] = {}
    for name, value in given.items():
        if hasattr(value, "planes"):
            arrays |= {f"{name}.{p}": a for p, a in value.planes.items()}
        elif isinstance(value, np.ndarray):
            arrays[name] = value
    scalars = {n: given[n] for n in bound.scalars}
    grid, failed = evaluate(kernel, scalars, bound.dims)
    if failed:
        raise error("E0702", f"requirement failed: {failed[0].message}", failed[0].loc, fn.name)
    partial = frozenset(p.name for p in kernel.params if p.partial)
    interp.run(lowered(kernel), arrays, scalars, bound.dims, grid, partial=partial)
    return kernel


def lowered(kernel: Kernel) -> Kernel:
    """`kernel` with elementary functions replaced by their bodies."""
    from iron.passes.elementary import elementary

    return elementary(kernel)


def refusal(fn: KernelFunction, **given: Any) -> KernelError:
    """The error with which `fn` is refused."""
    try:
        run(fn, **given)
    except KernelError as wrong:
        return wrong
    raise AssertionError(f"{fn!r} was accepted")
