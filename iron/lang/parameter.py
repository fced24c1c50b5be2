"""Parameters: what `In[T, R, N]` and its kin are, and how a function's signature is read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVarTuple

from iron.dtypes import DType
from iron.errors import KernelError, Loc, error
from iron.lang.dim import Dim, DimExpr, FormatVar, TypeVar
from iron.lang.launch import strided
from iron.lang.value import Number, View, Weight

Size = int | Dim | DimExpr


@dataclass(frozen=True, slots=True)
class Marker:
    """A word in a declaration."""

    name: str

    def __repr__(self) -> str:
        return self.name


partial: Final = Marker("partial")
"""Last entry of an `Out`: of capacity size; elements it does not write are not compared."""

MISSING: Final = Marker("MISSING")
"""The default of a parameter that has none."""


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """A declared tensor, scalar or packed weight.

    `kind` is `in`, `out`, `inout`, `scalar` or `packed`. `dims` is None for `...` (any rank) and
    empty for scalars. `format` of a packed weight is a FormatVar, a Format, or the name of the
    Const parameter that gives it.
    """

    kind: str
    dtype: DType | TypeVar | None = None
    dims: tuple[Size, ...] | None = ()
    strided: bool = False
    partial: bool = False
    optional: bool = False
    format: Any = None
    default: Any = MISSING

    def __or__(self, other: None) -> ParamSpec:
        """`In[...] | None`: the argument may be None, a compile-time fact."""
        if other is not None:
            raise error("E0114", "only None can stand beside a parameter's declaration")
        return replace(self, optional=True)

    __ror__ = __or__


@dataclass(frozen=True, slots=True)
class ConstSpec:
    """A declared Const: a compile-time value, part of the kernel's key.

    `default` may be a function of dims, dtype variables, earlier Consts, `simd_width` and
    `shared_bytes` (the group memory a group may have on the target), taken by name and evaluated on
    the host.
    """

    default: Any = MISSING


class _Declarator:
    """Makes a `ParamSpec` of a subscript."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __getitem__(self, items: Any) -> ParamSpec:
        entries = list(items) if isinstance(items, tuple) else [items]
        if self.kind == "packed":
            return _packed(entries)
        dtype = entries.pop(0)
        if not isinstance(dtype, DType | TypeVar):
            raise error("E0114", f"a declaration starts with a dtype, not {dtype!r}")
        if self.kind == "scalar":
            if entries:
                raise error("E0114", "a Scalar has a dtype and nothing else")
            return ParamSpec("scalar", dtype)
        return _tensor(self.kind, dtype, entries)

    def __repr__(self) -> str:
        return self.kind


def _tensor(kind: str, dtype: DType | TypeVar, entries: list[Any]) -> ParamSpec:
    flags = {"strided": False, "partial": False}
    while entries and (entries[-1] is strided or entries[-1] is partial):
        flags["strided" if entries.pop() is strided else "partial"] = True
    if flags["partial"] and kind != "out":
        raise error("E0114", "only an Out can be partial")
    if flags["strided"] and kind != "in":
        raise error("E0114", "only an In can be strided")
    shape = None if entries == [...] else tuple(_size(e) for e in entries)
    return ParamSpec(kind, dtype, shape, **flags)


def _packed(entries: list[Any]) -> ParamSpec:
    if len(entries) < 2:
        raise error("E0114", "Packed takes a format and the dims of the weight")
    named = tuple(_size(Dim(e) if isinstance(e, str) else e) for e in entries[1:])
    return ParamSpec("packed", None, named, format=entries[0])


def _size(entry: Any) -> Size:
    if isinstance(entry, Dim | DimExpr) or (isinstance(entry, int) and entry >= 0):
        return entry
    raise error("E0114", f"{entry!r} is no size; give a dim, a number or an expression of them")


if TYPE_CHECKING:
    Shape = TypeVarTuple("Shape")
    Const: TypeAlias = Any

    class In(View, Generic[*Shape]):
        """A tensor that is read."""

    class Out(View, Generic[*Shape]):
        """A tensor that is written, everywhere unless it is `partial`."""

    class InOut(View, Generic[*Shape]):
        """A tensor that is read and written."""

    class Scalar(Number, Generic[*Shape]):
        """A number that may differ between calls without compiling again."""

    class Packed(Weight, Generic[*Shape]):
        """A quantised weight."""

else:
    In = _Declarator("in")
    Out = _Declarator("out")
    InOut = _Declarator("inout")
    Scalar = _Declarator("scalar")
    Packed = _Declarator("packed")
    Const = Marker("Const")


def read_signature(fn: Callable[..., Any]) -> dict[str, ParamSpec | ConstSpec]:
    """The declared parameters of `fn` by name; E0114 at its first line when one is wrong."""
    code = inspect.unwrap(fn).__code__
    loc = Loc(code.co_filename, code.co_firstlineno)
    try:
        hints = _annotations(fn)
        found = {
            name: _parameter(name, p, hints.get(name, MISSING))
            for name, p in inspect.signature(fn).parameters.items()
        }
        _resolvable(found)
    except KernelError as wrong:
        raise error("E0114", wrong.diagnostic.message, loc, fn.__name__) from None
    return found


def _annotations(fn: Callable[..., Any]) -> dict[str, Any]:
    cells = fn.__closure__ or ()
    enclosed = dict(zip(fn.__code__.co_freevars, (c.cell_contents for c in cells), strict=True))
    try:
        return inspect.get_annotations(fn, locals=enclosed, eval_str=True)
    except NameError as unknown:
        raise error("E0114", f"annotation: {unknown}") from None


def _parameter(name: str, p: inspect.Parameter, hint: Any) -> ParamSpec | ConstSpec:
    if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
        raise error("E0114", f"`{name}`: a kernel has no variable number of parameters")
    default = MISSING if p.default is p.empty else p.default
    keyword = p.kind is p.KEYWORD_ONLY
    if hint is Const:
        if not keyword:
            raise error("E0114", f"`{name}`: a Const is keyword-only; put it after `*`")
        return ConstSpec(default)
    if not isinstance(hint, ParamSpec):
        raise error("E0114", f"`{name}` needs a declaration such as In[T, N] or Const")
    if keyword:
        raise error("E0114", f"`{name}`: only a Const is keyword-only; put it before `*`")
    return replace(hint, default=None if hint.optional and default is MISSING else default)


def _resolvable(found: dict[str, ParamSpec | ConstSpec]) -> None:
    """Refuses a dim that nothing can give a value: it stands bare nowhere and is no Const."""
    specs = [s for s in found.values() if isinstance(s, ParamSpec) and s.dims]
    bare = {d.name for s in specs for d in s.dims or () if isinstance(d, Dim)}
    for spec in specs:
        for size in spec.dims or ():
            for name in () if isinstance(size, int) else size.names:
                if name not in bare and not isinstance(found.get(name), ConstSpec):
                    raise error(
                        "E0114",
                        f"dim {name} stands bare in no parameter, so no call can give its value; "
                        f"add it as a Const",
                    )


def format_name(spec: ParamSpec) -> str:
    """The name under which a packed parameter's format is bound, or "" for a fixed format."""
    if isinstance(spec.format, FormatVar):
        return spec.format.name
    return spec.format if isinstance(spec.format, str) else ""
