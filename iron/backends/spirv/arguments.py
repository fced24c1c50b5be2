"""What a kernel reads besides memory: the fields of its argument block, and where each lies.

The block is the pipeline's push constants while it fits in the 128 bytes that every device has,
and a uniform buffer beyond that. Element offsets and strides are 32 bits wide and wrap: no
storage buffer is larger than 4 GiB, so the sum is right even where a term is negative.
"""

from __future__ import annotations

from dataclasses import dataclass

from iron.dtypes import DType, f16, f32, u32
from iron.ir.core import Kernel, Op, Value
from iron.ir.types import Tensor, element

PUSH_BYTES = 128


@dataclass(frozen=True, slots=True)
class Field:
    """One value of the block.

    `kind` is `scalar` or `dim`; `origin` or `stride`, the element offset of a tensor's first
    element and the step of an axis; `extent`, the groups along a launch axis; `first`, the number
    of the first group of a dispatch; or `zero`, a 0 that no compiler sees. Values narrower than 32
    bits fill a word.
    """

    kind: str
    name: str
    axis: int
    dtype: DType
    offset: int

    @property
    def label(self) -> str:
        """The field's name in the module."""
        plain = self.name.replace(".", "_")
        return {
            "origin": f"{plain}_origin",
            "stride": f"{plain}_stride{self.axis}",
            "extent": f"extent{self.axis}",
            "first": "first_group",
            "count": "group_count",
            "zero": "zero",
        }.get(self.kind, plain)


@dataclass(frozen=True, slots=True)
class Block:
    """The fields in order and the size of all."""

    fields: tuple[Field, ...]
    bytes: int

    @property
    def pushed(self) -> bool:
        """True when the block travels as push constants."""
        return self.bytes <= PUSH_BYTES

    def find(self, kind: str, name: str = "", axis: int = 0) -> int:
        """The number of a field."""
        keys = [(f.kind, f.name, f.axis) for f in self.fields]
        return keys.index((kind, name, axis))


def touched(kernel: Kernel) -> tuple[str, ...]:
    """The tensor parameters that the body accesses; each becomes a binding of that number."""
    used = {a for op in kernel.body.walk() for a in op.args}
    pairs = zip(kernel.params, kernel.body.params, strict=True)
    return tuple(p.name for p, v in pairs if p.role == "tensor" and v in used)


def computes(kernel: Kernel) -> bool:
    """True when floats are added, multiplied, divided, or become integers."""
    return any(_computes(op) for op in kernel.body.walk())


def _computes(op: Op) -> bool:
    made = element(op.results[0].type) if op.results else None
    if op.name == "cast":
        return made is not None and made.is_integer and element(op.args[0].type).is_float
    return op.name in ("add", "sub", "mul", "div", "fma") and made is f32


def read_back(kernel: Kernel) -> set[Value]:
    """The f16 values that are made of another type and used for more than to be stored."""
    used = {a for op in kernel.body.walk() if op.name not in ("store", "pack") for a in op.args}
    made = {op.results[0] for op in kernel.body.walk() if op.name == "cast" and op.attrs[0] is f16}
    return made & used


def block(kernel: Kernel, *, zero: bool = False, count: bool = False) -> Block:
    """The arguments that the body of `kernel` reads, with a `zero` or the `count` if wanted."""
    used = {a for op in kernel.body.walk() for a in op.args}
    wanted: list[tuple[str, str, int, DType]] = []
    for param, value in zip(kernel.params, kernel.body.params, strict=True):
        if value not in used:
            continue
        if param.role != "tensor":
            wanted.append((param.role, param.name, 0, element(param.type)))
            continue
        t = param.type
        assert isinstance(t, Tensor)
        wanted.append(("origin", param.name, 0, u32))
        axes = range(t.rank - 1 if t.packed else t.rank)
        wanted += [("stride", param.name, axis, u32) for axis in axes]
    groups = [op.attr("axis") for op in kernel.body.walk() if op.name == "group"]
    if groups:
        wanted.append(("first", "", 0, u32))
        axes = range(min(max(groups) + 1, kernel.rank - 1))
        wanted += [("extent", "", axis, u32) for axis in axes]
    wanted += [("count", "", 0, u32)] if count else []
    wanted += [("zero", "", 0, u32)] if zero else []
    return _placed(wanted)


def _placed(wanted: list[tuple[str, str, int, DType]]) -> Block:
    """Wide fields first, so that none needs padding."""
    fields: list[Field] = []
    offset = 0
    for wide in (True, False):
        for kind, name, axis, dtype in wanted:
            if (dtype.bits == 64) == wide:
                fields.append(Field(kind, name, axis, dtype, offset))
                offset += 8 if wide else 4
    return Block(tuple(fields), offset)
