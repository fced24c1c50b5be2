"""A lowered kernel as CUDA text, with the arguments of its entry as the launch packs them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from iron.backends.clike import Dialect, Text, render
from iron.backends.cuda import CUDA
from iron.backends.tensor_maps import TensorMap, distinct, lengths
from iron.dtypes import DType, i64, u64
from iron.ir.core import Kernel, Op
from iron.ir.types import Tensor, element
from iron.passes.scalarise import scalarise


@dataclass(frozen=True, slots=True)
class Field:
    """One argument: a `pointer`, `scalar`, `dim`, `stride` along `axis`, `length` of `axis` (at
    least 1), launch `extent`, or a tensor `map`."""

    kind: str
    name: str
    axis: int
    dtype: DType
    map: TensorMap | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """Text, arguments in order, threads a group; `dynamic` bytes are asked for at the launch."""

    name: str
    symbol: str
    text: Text
    fields: tuple[Field, ...]
    threads: int
    dynamic: int = 0


def code_of(
    kernel: Kernel,
    symbol: str = "",
    wide: frozenset[Op] = frozenset(),
    dialect: Dialect = CUDA,
) -> Code:
    """The text of `kernel`, lowered; its entry is `symbol`, or called by the kernel's name.

    With `wide`, accesses of an already scalar kernel, as in `clike.render`.
    """
    symbol = symbol or entry_name(kernel)
    text = render(kernel if wide else scalarise(kernel), dialect, symbol, wide)
    found = fields(kernel)
    assert [f.dtype for f in found] == [a.dtype for a in text.arguments]
    return Code(kernel.name, symbol, text, found, kernel.threads, text.dynamic)


def entry_name(kernel: Kernel) -> str:
    """The symbol of a kernel that is alone in its module."""
    return "iron_" + re.sub(r"\W", "_", kernel.name)


def fields(kernel: Kernel) -> tuple[Field, ...]:
    """The arguments: tensors, scalars, dims, strides, the outer extents, lengths, then maps."""
    made: list[Field] = []
    for p in kernel.params:
        kind = "pointer" if isinstance(p.type, Tensor) else p.role
        made.append(Field(kind, p.name, 0, element(p.type)))
    for p in kernel.params:
        if isinstance(p.type, Tensor):
            axes = p.type.rank - 1 if p.type.packed else p.type.rank
            made += [Field("stride", p.name, axis, i64) for axis in range(axes)]
    made += [Field("extent", "", axis, i64) for axis in range(kernel.rank - 1)]
    made += [Field("length", name, axis, i64) for name, axis in lengths(kernel)]
    made += [Field("map", m.name, 0, u64, m) for m in distinct(kernel)]
    return tuple(made)
