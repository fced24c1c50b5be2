"""The op table: one row states everything about an op, and everything else reads the rows.

A row drives type inference, verification, folding, value numbering, the text form, the
interpreter, the random-program generator, the default C spelling and the reference page.
Adding an op is one row plus spellings where the default is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iron.dtypes import DType, bool_
from iron.ir.types import Matrix, Tensor, Tile, Type, element, held, like

if TYPE_CHECKING:
    from iron.ir.core import Block, Value

Infer = Callable[["Sequence[Value]", tuple[Any, ...], "Sequence[Block]"], tuple[Type, ...]]


class OpTypeError(Exception):
    """Operand types that an op does not take; the front end adds the user's line."""


class Trait:
    """What passes and backends may assume of an op: bits, plain integers since every op of every
    pass is asked for them."""

    NONE = 0
    PURE = 1 << 0
    COMMUTATIVE = 1 << 1
    ELEMENTWISE = 1 << 2
    COLLECTIVE = 1 << 3
    READS = 1 << 4
    WRITES = 1 << 5
    REGION = 1 << 6
    TERMINATOR = 1 << 7
    TILE = 1 << 8  # `iron.tiles` replaces it by ops of threads before any backend
    EXPANDED = 1 << 9  # replaced by its body in IR before any backend, the interpreter included
    HINT = 1 << 10  # changes nothing but speed: it is kept, and orders nothing


@dataclass(frozen=True, slots=True, eq=False)
class OpDef:
    """One row of the table.

    `operands` names the operands; a last name ending in `*` takes any number. `attrs` names the
    positional attributes, whose last ones have `defaults` and are not printed where they hold
    them. `ref` is the meaning on numpy, given operands then attributes. `truth`
    is the mathematical function in float64 of an expanded op, and `ulp` its stated bound. `unit`
    maps kinds to the right identity that holds for every bit pattern.
    """

    name: str
    operands: tuple[str, ...]
    attrs: tuple[str, ...]
    infer: Infer
    traits: int
    doc: str
    sig: str = ""
    kinds: str = ""
    ref: Callable[..., Any] | None = None
    truth: Callable[..., Any] | None = None
    ulp: float = 0.0
    unit: dict[str, float] = field(default_factory=dict[str, float])
    c: str | dict[str, str] = ""
    regions: int = 0
    defaults: tuple[Any, ...] = ()

    def filled(self, attrs: tuple[Any, ...]) -> tuple[Any, ...]:
        """`attrs` with the defaults of those that are left out at the end."""
        missing = len(self.attrs) - len(attrs)
        if 0 < missing <= len(self.defaults):
            return (*attrs, *self.defaults[-missing:])
        return attrs

    def has(self, traits: int) -> bool:
        """True when the row carries every bit of `traits`."""
        return self.traits & traits == traits

    def __repr__(self) -> str:
        return f"OpDef({self.name})"


TABLE: dict[str, OpDef] = {}


def defop(
    name: str,
    operands: str = "",
    *,
    doc: str,
    sig: str = "",
    kinds: str = "",
    attrs: str = "",
    infer: Infer | None = None,
    traits: int = Trait.NONE,
    ref: Callable[..., Any] | None = None,
    truth: Callable[..., Any] | None = None,
    ulp: float = 0.0,
    unit: dict[str, float] | None = None,
    c: str | dict[str, str] = "",
    regions: int = 0,
    defaults: tuple[Any, ...] = (),
) -> OpDef:
    """Adds a row and returns it; elementwise rows give `sig` and `kinds` instead of `infer`."""
    if name in TABLE:
        raise ValueError(f"op {name} is defined twice")
    if infer is None:
        infer = _infer_from(sig, kinds)
    row = OpDef(
        name,
        tuple(operands.split()),
        tuple(attrs.split()),
        infer,
        traits,
        doc,
        sig,
        kinds,
        ref,
        truth,
        ulp,
        unit or {},
        c,
        regions,
        defaults,
    )
    TABLE[name] = row
    return row


def _infer_from(sig: str, kinds: str) -> Infer:
    """Inference from `T b T->T`: T one dtype of `kinds`, b bool, x the dtype attribute."""
    left, right = sig.split("->")
    wanted, out = left.split(), right.strip()

    known: dict[tuple[Any, ...], tuple[Type, ...]] = {}

    def infer(
        args: Sequence[Value], attrs: tuple[Any, ...], regions: Sequence[Block]
    ) -> tuple[Type, ...]:
        to = attrs[0] if out == "x" and attrs and isinstance(attrs[0], DType) else None
        key = (to, *[a.type for a in args])
        if (found := known.get(key)) is not None:
            return found
        if len(args) != len(wanted):
            raise OpTypeError(f"takes {len(wanted)} operands, got {len(args)}")
        dtype = _operand_dtype(args, wanted, kinds)
        result = {"T": dtype, "b": bool_, "x": to}[out]
        if not isinstance(result, DType):
            raise OpTypeError("needs a dtype attribute")
        known[key] = (like(args[0].type, result),)
        return known[key]

    return infer


def _operand_dtype(args: Sequence[Value], wanted: list[str], kinds: str) -> DType | None:
    dtype: DType | None = None
    axes, tiled = held(args[0].type), isinstance(args[0].type, Tile)
    for arg, want in zip(args, wanted, strict=True):
        if isinstance(arg.type, Tensor):
            raise OpTypeError("a tensor is not a value; index it")
        if isinstance(arg.type, Matrix):
            raise OpTypeError("a matrix has no elements; store it to group memory")
        if held(arg.type) != axes or isinstance(arg.type, Tile) != tiled:
            what = "shapes of tiles" if tiled else "vector lengths"
            raise OpTypeError(f"{what} differ: {[str(a.type) for a in args]}")
        have = element(arg.type)
        if want == "b":
            if have is not bool_:
                raise OpTypeError(f"needs bool, got {have}")
        elif dtype is None:
            dtype = have
        elif dtype is not have:
            raise OpTypeError(f"operands differ: {dtype} and {have}")
    if dtype is not None and dtype.kind not in kinds:
        hint = "; widen with .to(f32)" if dtype.kind == "s" else ""
        raise OpTypeError(f"no such operation on {dtype}{hint}")
    return dtype


def elementwise() -> list[OpDef]:
    """The rows typed by a signature, in table order."""
    return [row for row in TABLE.values() if row.sig]
