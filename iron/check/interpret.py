"""A case's kernel as IR, and its run on the interpreter without the runtime: what mutants need.

`Interpreted` reads a kernel for a case's arguments and runs any IR kernel of the same parameters on
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.check.expand import Declared
from iron.dtypes import of_numpy
from iron.errors import error
from iron.front import Binding, PackedArg, TensorArg, bind, traced
from iron.front.bind import LEAST_SHARED
from iron.ir.core import Kernel
from iron.ir.host import evaluate
from iron.ir.interp import run
from iron.lang.declare import KernelFunction
from iron.lang.parameter import ConstSpec, ParamSpec
from iron.passes.dead import dead
from iron.passes.elementary import elementary
from iron.quant.tensor import QTensor

SIMD = 32


@dataclass(frozen=True, slots=True)
class Interpreted:
    """A kernel read for one call: its IR before any pass, and what a run of it takes.

    `fixed` names the dims that are numbers in the IR.
    """

    kernel: Kernel
    fixed: frozenset[str]
    binding: Binding
    arrays: dict[str, Any]
    scalars: dict[str, Any]
    partial: frozenset[str]

    def run(self, kernel: Kernel) -> None:
        """Runs `kernel`, which has the parameters of the one read; E0702 as a call does."""
        extents, failed = evaluate(kernel, self.scalars, self.binding.dims)
        if failed:
            raise error("E0702", failed[0].message, failed[0].loc, kernel.name)
        lowered = elementary(kernel)
        if 0 not in extents:
            run(
                lowered,
                self.arrays,
                self.scalars,
                self.binding.dims,
                extents,
                partial=self.partial,
            )


def interpret(declared: Declared, arguments: Mapping[str, Any], simd: int = SIMD) -> None:
    """A `Runner`: the kernel on the interpreter, at simd width `simd`."""
    read = read_call(declared, arguments, simd)
    read.run(read.kernel)


def read_call(
    declared: Declared,
    arguments: Mapping[str, Any],
    simd: int = SIMD,
    *,
    narrow: bool = False,
    shared_bytes: int = LEAST_SHARED,
) -> Interpreted:
    """The kernel specialised for a call with numpy arrays, packed weights, numbers and Consts.

    Dead code is gone from it. `narrow` makes a group one simdgroup wide where the kernel leaves
    THREADS open, so that small sizes give every loop several turns.
    """
    if not isinstance(declared, KernelFunction):
        raise TypeError(f"{declared!r} has no IR of its own: a plan is its kernels")
    specs = {n: s for n, s in declared.signature.items() if isinstance(s, ParamSpec)}
    described: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    scalars: dict[str, Any] = {}
    for name, spec in specs.items():
        value = arguments.get(name)
        if spec.kind == "scalar":
            scalars |= {} if value is None else {name: value}
        else:
            described[name] = _described(value)
            arrays.update(_flat(name, value))
    consts = {n: v for n, v in arguments.items() if n not in specs}
    if narrow and isinstance(declared.signature.get("THREADS"), ConstSpec):
        consts.setdefault("THREADS", simd)
    binding = bind(
        declared, described, consts, scalars=tuple(scalars), simd=simd, shared_bytes=shared_bytes
    )
    found = traced(declared, binding, simd)
    partial = frozenset(n for n, s in specs.items() if s.partial)
    return Interpreted(
        dead(found.kernel), frozenset(found.fixed), binding, arrays, scalars, partial
    )


def _described(value: Any) -> TensorArg | PackedArg | None:
    if value is None:
        return None
    if isinstance(value, QTensor):
        planes = {name: _tensor(plane) for name, plane in value.planes.items()}
        return PackedArg(value.fmt, planes, value.shape)
    return _tensor(value)


def _tensor(array: np.ndarray[Any, Any]) -> TensorArg:
    dtype = of_numpy(array.dtype)
    assert dtype is not None
    return TensorArg(dtype, array.shape, tuple(s // array.itemsize for s in array.strides))


def _flat(name: str, value: Any) -> dict[str, Any]:
    """The tensor parameters of the IR that an argument becomes."""
    if isinstance(value, QTensor):
        return {f"{name}.{plane}": array for plane, array in value.planes.items()}
    return {} if value is None else {name: value}
