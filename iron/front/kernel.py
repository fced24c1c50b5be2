"""A kernel function and a binding read into IR: parameters, body, launch, host block."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, cast

from iron.dtypes import DType, i32
from iron.errors import KernelError
from iron.front.arithmetic import binary, ceil_div
from iron.front.bind import Binding
from iron.front.grammar import GRAMMAR
from iron.front.host import Impure, host_block
from iron.front.names import dim_expression
from iron.front.scope import PackedView, Returned, Specialise, View, Weak
from iron.front.source import Source, source_of
from iron.front.state import Capture, Trace
from iron.front.values import as_value
from iron.front.views import whole
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Param, Value
from iron.ir.rebuild import rebuild
from iron.ir.types import Type, tensor
from iron.lang.declare import KernelFunction
from iron.lang.dim import TypeVar
from iron.lang.parameter import ConstSpec, ParamSpec
from iron.lang.tile import SCHEDULE_KEYS


def read_kernel(
    fn: KernelFunction,
    binding: Binding,
    *,
    simd: int,
    specialised: frozenset[str] = frozenset(),
    index: DType = i32,
) -> tuple[Kernel, tuple[Capture, ...]]:
    """The kernel in IR, and the names outside it that it read.

    Dims in `specialised` are numbers, others run-time parameters of dtype `index`. Raises
    Specialise when more of them must be numbers, KernelError for wrong source; anything unforeseen
    becomes E0901 at the statement being read.
    """
    trace = Trace(fn.name, fn.loc, GRAMMAR, simd, index)
    trace.builder.exact = fn.exact
    trace.dtypes, trace.formats = dict(binding.dtypes), dict(binding.formats)
    source = source_of(function(fn))
    reading = _Reading(trace, fn, binding, specialised)
    try:
        return reading.run(source), tuple(trace.captured.values())
    except (KernelError, Specialise):
        raise
    except RecursionError:
        raise trace.fail("E0101", "the expression is nested too deeply") from None
    except Exception as unforeseen:
        what = f"{type(unforeseen).__name__}: {unforeseen}"
        raise trace.fail("E0901", f"the compiler failed here: {what}") from unforeseen


def function(fn: KernelFunction) -> types.FunctionType:
    """The Python function behind a kernel."""
    return cast("types.FunctionType", fn.fn)


class _Reading:
    def __init__(
        self, trace: Trace, fn: KernelFunction, binding: Binding, specialised: frozenset[str]
    ) -> None:
        self.trace, self.fn, self.binding = trace, fn, binding
        self.specialised = specialised
        self.params: list[Param] = []
        self.values: list[Value] = []
        self.tensors: dict[str, Value] = {}
        self.names: dict[str, Any] = {}

    def run(self, source: Source) -> Kernel:
        """Parameters, then the body, then what the host needs."""
        trace = self.trace
        self._declare()
        with (
            trace.builder.block(self.values) as body,
            trace.inside(source, function(self.fn), self.names),
        ):
            trace.at = source.tree
            self._views()
            try:
                trace.execute(source.body)
            except Returned as left:
                if left.result is not None:
                    raise trace.fail(
                        "E0103", "a kernel returns nothing", help="write to an `Out` parameter"
                    ) from None
            trace.at = source.tree
            if not trace.launch.done:
                raise trace.fail(
                    "E0302",
                    "the kernel has no launch",
                    help="`groups(...)` or `each(...)` is the first run-time statement",
                )
            trace.close_tail()
            extents = [as_value(trace, e, trace.index) for e in trace.launch.extents]
            host = self._host(extents)
        return self._kernel(body, host)

    # --- parameters -------------------------------------------------------------------------------

    def _declare(self) -> None:
        """Parameters in the order of the ABI: tensors, scalars, dims."""
        specs = {n: s for n, s in self.fn.signature.items() if isinstance(s, ParamSpec)}
        for name, spec in specs.items():
            if spec.kind == "packed":
                self._declare_planes(name)
            elif spec.kind != "scalar":
                self._declare_tensor(name, spec)
        for name, spec in specs.items():
            if spec.kind == "scalar":
                dtype = self.binding.scalars.get(name)
                self.names[name] = None if dtype is None else self._param(name, "scalar", dtype)
        for name, size in self.binding.dims.items():
            if name in self.specialised:
                self.trace.dims[name] = size
            else:
                value = self._param(name, "dim", self.trace.index)
                self.trace.dims[name] = Weak(value)
                self.trace.dim_of[value] = name
        for name, spec in self.fn.signature.items():
            if isinstance(spec, ConstSpec):
                self.names[name] = self._const(name)

    def _const(self, name: str) -> object:
        value = self.binding.consts[name]
        if isinstance(value, TypeVar):
            value = self.binding.dtypes[value.name]
        if isinstance(value, int):
            self.trace.dims.setdefault(name, value)
        return value

    def _param(self, name: str, role: str, t: Type, partial: bool = False) -> Value:
        value = Value(t, None, name)
        self.params.append(Param(name, role, t, partial))
        self.values.append(value)
        if role != "tensor":
            self.trace.host_values.add(value)
        return value

    def _declare_tensor(self, name: str, spec: ParamSpec) -> None:
        arg = self.binding.tensors[name]
        if arg is None:
            self.names[name] = None
            return
        kind = tensor(arg.dtype, len(arg.shape), spec.kind, packed=not spec.strided)
        self.tensors[name] = self._param(name, "tensor", kind, spec.partial)

    def _declare_planes(self, name: str) -> None:
        arg = self.binding.packed[name]
        if arg is None:
            self.names[name] = None
            return
        for plane, held in arg.planes.items():
            kind = tensor(held.dtype, len(held.shape), "in")
            at = f"{name}.{plane}"
            self.tensors[at] = self._param(at, "tensor", kind)

    # --- what the body sees -----------------------------------------------------------------------

    def _views(self) -> None:
        """Tensors as views whose lengths are the declared sizes."""
        for name, spec in self.fn.signature.items():
            if not isinstance(spec, ParamSpec) or name in self.names or spec.kind == "scalar":
                continue
            if spec.kind == "packed":
                self.names[name] = self._packed(name, spec)
            else:
                self.names[name] = whole(self.tensors[name], self._lengths(name, spec))

    def _lengths(self, name: str, spec: ParamSpec) -> list[object]:
        trace = self.trace
        if spec.dims is not None:
            return [dim_expression(trace, d) for d in spec.dims]
        arg = self.binding.tensors[name]
        assert arg is not None
        return [trace.dims[f"shape_{axis}"] for axis in range(len(arg.shape))]

    def _packed(self, name: str, spec: ParamSpec) -> PackedView:
        arg = self.binding.packed[name]
        assert arg is not None
        assert spec.dims is not None
        shape = tuple(dim_expression(self.trace, d) for d in spec.dims)
        planes = {p: self._plane(name, p, arg.format, shape) for p in arg.planes}
        return PackedView(name, arg.format, planes, shape)

    def _plane(self, name: str, plane: str, format: Any, shape: Sequence[object]) -> View:
        rows: object = 1
        for n in shape[:-1]:
            rows = binary(self.trace, "mul", rows, n)
        held = format.plane(plane)
        lengths = [self._extent(e, rows, shape[-1]) for e in (held.rows, held.cols)]
        return whole(self.tensors[f"{name}.{plane}"], lengths)

    def _extent(self, extent: Any, n: object, k: object) -> object:
        total: object = extent.up
        for factor, power in ((n, extent.n), (k, extent.k)):
            for _ in range(power):
                total = binary(self.trace, "mul", total, factor)
        return total if extent.down == 1 else ceil_div(self.trace, total, extent.down)

    # --- the result -------------------------------------------------------------------------------

    def _host(self, extents: Sequence[Value]) -> Block:
        trace = self.trace
        params = [v for v in self.values if v in trace.host_values]
        wanted = [*extents, *(flag for flag, _ in trace.launch.requires)]
        try:
            return host_block(params, wanted)
        except Impure:
            raise trace.fail(
                "E0302", "a launch extent or a requirement depends on memory or on a thread"
            ) from None

    def _kernel(self, body: Block, host: Block) -> Kernel:
        launch = self.trace.launch
        kernel = Kernel(
            self.fn.name,
            tuple(self.params),
            body,
            host,
            len(launch.extents),
            launch.threads,
            self.trace.simd,
            tuple(r for _, r in launch.requires),
            self.trace.index,
            launch.each,
            self._schedule() if launch.tiled is not None else (),
        )
        if launch.open and launch.tiled is None:
            return rebuild(kernel, {"threads": _single})
        return kernel

    def _schedule(self) -> tuple[tuple[str, Any], ...]:
        """What a tile kernel's lowering is told: certain Consts, and the order of groups."""
        consts = self.binding.consts
        found: dict[str, Any] = {k: consts[k] for k in SCHEDULE_KEYS if k in consts}
        for key, value in found.items():
            if not isinstance(value, int):
                raise self.trace.fail("E0113", f"the schedule key {key} is {value!r}, no integer")
        if self.trace.launch.order is not None:
            found["order"] = self.trace.launch.order
        return tuple(sorted(found.items()))


def _single(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...]:
    """A group of a kernel without tiles and without `threads=` is one thread."""
    return (b.const(1, op.attr("dtype")),)
