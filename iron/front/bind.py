"""From a call's arguments to a binding: dims that unify, dtypes, Consts, and what is present.

Nothing is read but dtypes, shapes and strides. The binding decides which specialisation of a
kernel serves the call.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iron.dtypes import DType
from iron.errors import KernelError, error
from iron.lang.declare import KernelFunction, PlanFunction
from iron.lang.dim import Dim, TypeVar, evaluate
from iron.lang.parameter import MISSING, ConstSpec, ParamSpec, format_name
from iron.quant.format import ALIASES

Declared = KernelFunction | PlanFunction

LEAST_SHARED = 32 << 10
"""Bytes of group memory that a group has on every GPU."""


@dataclass(frozen=True, slots=True)
class TensorArg:
    """A tensor argument as far as compiling cares; strides count elements, None is row-major."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class PackedArg:
    """A packed weight: its format, its planes, and its shape [..., N, K]."""

    format: Any
    planes: Mapping[str, TensorArg]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """What a call binds. `tensors` and `packed` hold None for an absent optional parameter.

    The axes of parameters declared `...` share one shape, whose dims are `shape_0`, `shape_1`, ..
    """

    dims: dict[str, int] = field(default_factory=dict[str, int])
    dtypes: dict[str, DType] = field(default_factory=dict[str, DType])
    formats: dict[str, Any] = field(default_factory=dict[str, Any])
    consts: dict[str, Any] = field(default_factory=dict[str, Any])
    tensors: dict[str, TensorArg | None] = field(default_factory=dict[str, Any])
    scalars: dict[str, DType] = field(default_factory=dict[str, DType])
    packed: dict[str, PackedArg | None] = field(default_factory=dict[str, Any])

    @property
    def sizes(self) -> dict[str, int]:
        """Dims, and Consts that can stand in a size."""
        whole = {n: c for n, c in self.consts.items() if isinstance(c, int)}
        return {**whole, **self.dims}


def bind(
    fn: Declared,
    described: Mapping[str, Any],
    consts: Mapping[str, Any],
    dtypes: Mapping[str, DType] | None = None,
    *,
    scalars: tuple[str, ...] = (),
    simd: int = 32,
    shared_bytes: int = LEAST_SHARED,
) -> Binding:
    """The binding of a call.

    `described` maps tensor parameters to `TensorArg` and packed ones to `PackedArg`, None for an
    absent optional one; an `Out` may be missing and gets its declared shape. `consts` and `dtypes`
    are those named by the caller, or by a schedule, whose values may be functions as a default may;
    `scalars` are the scalar parameters that are given. `simd` and `shared_bytes` are the target's,
    for Consts whose defaults ask. Errors: E0701 for an argument that does not fit, E0703 for a
    missing one, E0707 for what nothing gives.
    """
    machine = {"simd_width": simd, "shared_bytes": shared_bytes}
    return _Binder(fn, described, dict(consts), dict(dtypes or {}), machine).run(scalars)


class _Binder:
    def __init__(
        self,
        fn: Declared,
        described: Mapping[str, Any],
        consts: dict[str, Any],
        dtypes: dict[str, DType],
        machine: dict[str, int],
    ) -> None:
        self.fn, self.described, self.machine = fn, described, machine
        self.given = consts
        self.out = Binding(dtypes=dtypes)
        self.origin: dict[str, str] = {}
        self.specs = {n: s for n, s in fn.signature.items() if isinstance(s, ParamSpec)}

    def wrong(self, id: str, message: str, help: str = "") -> KernelError:
        """An error of this call."""
        return error(id, message, kernel=self.fn.name, help=help)

    def run(self, scalars: tuple[str, ...]) -> Binding:
        """Dims and dtypes first, then Consts, then what depends on both."""
        for name, spec in self.specs.items():
            self._unify(name, spec)
        self._consts()
        for name, spec in self.specs.items():
            if spec.kind not in ("scalar", "packed"):
                self._tensor(name, spec)
            elif spec.kind == "scalar" and (name in scalars or not spec.optional):
                self.out.scalars[name] = self._dtype(name, spec)
        return self.out

    # --- what arguments give ----------------------------------------------------------------------

    def _unify(self, name: str, spec: ParamSpec) -> None:
        arg = self.described.get(name)
        if spec.kind == "packed":
            self._unify_packed(name, spec, arg)
        elif isinstance(arg, TensorArg):
            if isinstance(spec.dtype, TypeVar):
                self._unify_dtype(name, spec.dtype, arg.dtype)
            self._unify_shape(name, spec, arg.shape)
        elif spec.kind not in ("out", "scalar") and not spec.optional:
            raise self.wrong("E0703", f"`{name}` is missing")

    def _unify_packed(self, name: str, spec: ParamSpec, arg: Any) -> None:
        if arg is None and spec.optional:
            self.out.packed[name] = None
            return
        if not isinstance(arg, PackedArg):
            raise self.wrong("E0703", f"`{name}` is missing")
        self.out.packed[name] = arg
        variable = format_name(spec)
        if variable:
            known = self.out.formats.setdefault(variable, arg.format)
            if known is not arg.format:
                message = f"format {variable} is {known!r} elsewhere but {arg.format!r} in `{name}`"
                raise self.wrong("E0701", message)
            if isinstance(self.fn.signature.get(variable), ConstSpec):
                self.given.setdefault(variable, arg.format)
        elif not _same_format(spec.format, arg.format):
            raise self.wrong("E0701", f"`{name}` is {arg.format!r}; it takes {spec.format!r}")
        self._options(name, spec, arg.format)
        self._unify_shape(name, spec, arg.shape)

    def _options(self, name: str, spec: ParamSpec, format: Any) -> None:
        options = getattr(spec.format, "options", None)
        if options and not any(_same_format(o, format) for o in options):
            listed = ", ".join(str(o) for o in options)
            raise self.wrong("E0601", f"`{name}` is {format!r}; it takes {listed}")

    def _unify_dtype(self, name: str, variable: TypeVar, dtype: DType) -> None:
        if dtype not in variable.options:
            listed = ", ".join(map(repr, variable.options))
            raise self.wrong("E0701", f"`{name}` is {dtype}; it takes {listed}")
        known = self.out.dtypes.setdefault(variable.name, dtype)
        if known is not dtype:
            message = f"dtype {variable.name} is {known} elsewhere but {dtype} in `{name}`"
            raise self.wrong("E0701", message)

    def _unify_shape(self, name: str, spec: ParamSpec, shape: tuple[int, ...]) -> None:
        if spec.dims is None:
            self._shared_shape(name, shape)
            return
        if len(shape) != len(spec.dims):
            wanted = ", ".join(map(repr, spec.dims))
            raise self.wrong(
                "E0701", f"`{name}` has shape {shape}; it takes {len(spec.dims)} axes ({wanted})"
            )
        for size, have in zip(spec.dims, shape, strict=True):
            if isinstance(size, Dim):
                self._unify_dim(name, size.name, have)

    def _unify_dim(self, name: str, dim: str, have: int) -> None:
        known = self.out.dims.setdefault(dim, have)
        other = self.origin.setdefault(dim, name)
        if known != have:
            message = f"dim {dim} is {known} in `{other}` but {have} in `{name}`"
            raise self.wrong("E0701", message)

    def _shared_shape(self, name: str, shape: tuple[int, ...]) -> None:
        rank = self.out.dims.get("rank of ...")
        if rank is not None and rank != len(shape):
            raise self.wrong("E0701", f"`{name}` has {len(shape)} axes, others have {rank}")
        for axis, have in enumerate(shape):
            self._unify_dim(name, f"shape_{axis}", have)

    # --- consts -----------------------------------------------------------------------------------

    def _consts(self) -> None:
        for name, spec in self.fn.signature.items():
            if not isinstance(spec, ConstSpec):
                continue
            value = self._default(name, ConstSpec(self.given.get(name, spec.default)))
            self.out.consts[name] = value
            bound = self.out.dims.pop(name, None)
            if bound is not None and bound != value:
                message = f"Const {name} is {value!r} but the arguments make it {bound}"
                raise self.wrong("E0701", message)
        unknown = set(self.given) - set(self.out.consts)
        if unknown:
            raise self.wrong("E0703", f"there is no Const `{min(unknown)}`")

    def _default(self, name: str, spec: ConstSpec) -> Any:
        if spec.default is MISSING:
            if name in self.out.dims:
                return self.out.dims[name]
            raise self.wrong("E0703", f"Const `{name}` is missing")
        if not inspect.isfunction(spec.default):
            return spec.default
        known = {**self.out.sizes, **self.out.dtypes, **self.out.formats}
        known |= {**self.out.consts, **self.machine}
        wanted = list(inspect.signature(spec.default).parameters)
        missing = [w for w in wanted if w not in known]
        if missing:
            message = f"the default of Const `{name}` needs {missing[0]}, which nothing gives"
            raise self.wrong("E0707", message)
        try:
            return spec.default(**{w: known[w] for w in wanted})
        except Exception as problem:
            raise self.wrong("E0707", f"the default of Const `{name}`: {problem}") from None

    # --- tensors ----------------------------------------------------------------------------------

    def _tensor(self, name: str, spec: ParamSpec) -> None:
        arg = self.described.get(name)
        dtype = None if arg is None and spec.optional else self._dtype(name, spec)
        if arg is None and (spec.optional or dtype is None):
            self.out.tensors[name] = None
            return
        assert dtype is not None
        shape = self._shape(name, spec, arg)
        if arg is None:
            self.out.tensors[name] = TensorArg(dtype, shape)
            return
        if arg.dtype is not dtype:
            raise self.wrong("E0701", f"`{name}` is {arg.dtype}; it takes {dtype}")
        if arg.shape != shape:
            raise self.wrong("E0701", f"`{name}` has shape {arg.shape}; it takes {shape}")
        if not spec.strided and not _contiguous_last(arg):
            raise self.wrong(
                "E0701",
                f"`{name}` has elements {_last_stride(arg)} apart along its last axis",
                help="pass a contiguous copy, or declare the parameter `strided`",
            )
        self.out.tensors[name] = arg

    def _dtype(self, name: str, spec: ParamSpec) -> DType:
        if isinstance(spec.dtype, DType):
            return spec.dtype
        assert isinstance(spec.dtype, TypeVar)
        if len(spec.dtype.options) == 1:
            return self.out.dtypes.setdefault(spec.dtype.name, spec.dtype.options[0])
        found = self.out.dtypes.get(spec.dtype.name)
        if found is None:
            message = f"nothing gives dtype {spec.dtype.name} of `{name}`"
            raise self.wrong("E0707", message, help=f"pass `{spec.dtype.name}=f32`, or an output")
        if found not in spec.dtype.options:
            listed = ", ".join(map(repr, spec.dtype.options))
            raise self.wrong("E0701", f"{spec.dtype.name} is {found!r}; it may be {listed}")
        return found

    def _shape(self, name: str, spec: ParamSpec, arg: Any) -> tuple[int, ...]:
        sizes = self.out.sizes
        if spec.dims is None:
            if arg is not None:
                return arg.shape
            axes = [v for n, v in self.out.dims.items() if n.startswith("shape_")]
            return tuple(axes)
        try:
            return tuple(evaluate(d, sizes) for d in spec.dims)
        except KeyError as missing:
            what = f"the size {missing.args[0]} of `{name}`"
            raise self.wrong("E0707", f"nothing gives {what}", help="pass the output") from None
        except (ZeroDivisionError, TypeError) as problem:
            raise self.wrong("E0707", f"the shape of `{name}`: {problem}") from None


def _same_format(wanted: Any, have: Any) -> bool:
    if isinstance(wanted, str):
        wanted = ALIASES.get(wanted, wanted)
    return wanted is have or str(wanted) == getattr(have, "name", str(have))


def _last_stride(arg: TensorArg) -> int:
    return arg.strides[-1] if arg.strides else 1


def _contiguous_last(arg: TensorArg) -> bool:
    return not arg.shape or arg.shape[-1] <= 1 or 0 in arg.shape or _last_stride(arg) == 1
