"""Flat indices split into rows: where neighbouring lanes stay in one row, its parts are even.

`flat // n` and `flat % n` differ unevenly between lanes in general. When the lanes' flat indices
are consecutive and no row ends among them, the quotient is the same in all lanes and the remainder
is consecutive too. That is tested at run time, once for the lanes of a simdgroup.
"""

from __future__ import annotations

from dataclasses import dataclass

from iron.backends.cpu import arith
from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter
from iron.backends.cpu.types import scalar
from iron.dtypes import DType
from iron.ir.core import Block, Op, Value
from iron.ir.types import element


@dataclass(frozen=True, slots=True)
class Split:
    """Quotients and remainders of one flat index by one row length."""

    flat: Value
    length: Value
    stride: int
    quotients: tuple[Value, ...]
    remainders: tuple[Value, ...]

    @property
    def strides(self) -> dict[Value, int]:
        """The lane strides that hold where no row ends among the lanes."""
        found = dict.fromkeys(self.quotients, 0)
        return found | dict.fromkeys(self.remainders, self.stride)


def splits(e: Emitter, body: Block) -> list[Split]:
    """The splits in `body` whose flat index is known already and advances with the lanes."""
    found: dict[tuple[Value, Value], list[Op]] = {}
    for op in body.walk():
        if op.name in ("floordiv", "mod") and _is_flat(e, *op.args):
            found.setdefault((op.args[0], op.args[1]), []).append(op)
    return [
        Split(flat, length, e.lane_stride(flat) or 0, _of(ops, "floordiv"), _of(ops, "mod"))
        for (flat, length), ops in found.items()
    ]


def _of(ops: list[Op], name: str) -> tuple[Value, ...]:
    return tuple(op.results[0] for op in ops if op.name == name)


def _is_flat(e: Emitter, flat: Value, length: Value) -> bool:
    if e.varies(length) or element(flat.type).bits != 32 or not e.known(flat):
        return False
    stride = e.lane_stride(flat)
    return stride is not None and stride > 0


def stays_in_row(e: Emitter, split: Split) -> str:
    """An i1: no row ends among the lanes, and the flat index does not wrap.

    The remainder of lane 0 is recorded in the current scope.
    """
    dtype = element(split.flat.type)
    flat, length = e.first(split.flat), e.names(split.length)[0]
    first = arith.quotient_or_rest("mod", Lanes(e.w, dtype, 1), flat, split.length, length)
    e.scope.anchors.update(dict.fromkeys(split.remainders, first))
    reach = split.stride * (e.lanes - 1)
    last = e.w.let(f"add i64 {_wide(e, first, dtype)}, {reach}")
    inside = e.w.let(f"icmp slt i64 {last}, {_wide(e, length, dtype)}")
    furthest = e.w.let(f"add i64 {_wide(e, flat, dtype)}, {reach}")
    held = e.w.let(f"icmp sle i64 {furthest}, {dtype.max}")
    return e.w.let(f"and i1 {inside}, {held}")


def _wide(e: Emitter, name: str, dtype: DType) -> str:
    if not name.startswith("%"):
        return name
    return e.w.let(f"{'sext' if dtype.kind == 'i' else 'zext'} {scalar(dtype)} {name} to i64")
