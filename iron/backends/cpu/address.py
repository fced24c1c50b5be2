"""Where the lanes of an access lie: all at one place, evenly spaced, or anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iron.backends.cpu.state import Emitter
from iron.backends.cpu.types import each_lane, in_memory, lanes, scalar
from iron.dtypes import DType
from iron.ir.core import Value
from iron.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class Address:
    """Where the lanes of an access lie, in elements of type `ll`.

    With a known `stride` (elements a lane), `base` points at lane 0, and so it does with a known
    `pattern`, the elements of each lane beyond it. Otherwise `base` points at the part all lanes
    share and `offset` holds each lane's own i64 elements. Neighbours along the last axis are `step`
    elements apart.
    """

    ll: str
    base: str
    stride: int | None
    step: str
    offset: str = ""
    pattern: tuple[int, ...] | None = None

    def neighbour(self, e: Emitter, number: int) -> Address:
        """The address of the `number`-th neighbour along the last axis."""
        if not number:
            return self
        by = e.w.let(f"mul i64 {self.step}, {number}")
        base = e.w.let(f"getelementptr {self.ll}, ptr {self.base}, i64 {by}")
        return replace(self, base=base)

    def at(self, e: Emitter, element: int) -> str:
        """A pointer `element` elements after the base."""
        if not element:
            return self.base
        return e.w.let(f"getelementptr {self.ll}, ptr {self.base}, i64 {element}")

    def pointers(self, e: Emitter, element: int) -> str:
        """A pointer for each lane, `element` elements after its own address."""
        wide = lanes("i64", e.lanes)
        offset = self.offset
        if self.stride is not None:
            offset = each_lane([i * self.stride for i in range(e.lanes)], "i64")
        elif self.pattern is not None:
            offset = each_lane(list(self.pattern), "i64")
        base = self.at(e, element)
        return e.w.let(f"getelementptr {self.ll}, ptr {base}, {wide} {offset}")


def axis_steps(e: Emitter, buffer: Value) -> list[str]:
    """Elements between neighbours along each axis: literals where the type fixes them."""
    assert isinstance(buffer.type, Tensor)
    return _steps(buffer.type, e.names(buffer)[1:])


def address(
    e: Emitter, buffer: Value, indices: Sequence[Value], unit: int | None = None
) -> Address:
    """The class and the base of an access; the step of axis `unit` is 1."""
    t = buffer.type
    assert isinstance(t, Tensor)
    pointer, *names = e.names(buffer)
    per_axis = _steps(t, names)
    if unit is not None:
        per_axis[unit] = "1"
    strides = [e.lane_stride(i) for i in indices]
    even = all(
        s == 0 or (s is not None and step.isdigit())
        for s, step in zip(strides, per_axis, strict=True)
    )
    pattern = None if even else _pattern(e, indices, per_axis)
    common, own, total = ["0"], ["0"], 0
    for index, step, stride in zip(indices, per_axis, strides, strict=True):
        if even or pattern is not None or stride == 0:
            total += stride * int(step) if stride else 0
            common.append(_scaled(e, first_index(e, index), step))
        else:
            own.append(_lane_index(e, index, step))
    ll = in_memory(t.elem)
    at = _sum(e, common, "i64")
    base = pointer if at == "0" else e.w.let(f"getelementptr {ll}, ptr {pointer}, i64 {at}")
    last = per_axis[-1] if per_axis else "1"
    if even:
        return Address(ll, base, total, last)
    if pattern is not None and any(pattern):
        return Address(ll, base, None, last, "", pattern)
    if pattern is not None:
        return Address(ll, base, 0, last)
    return Address(ll, base, None, last, _sum(e, own, lanes("i64", e.lanes)))


def _pattern(
    e: Emitter, indices: Sequence[Value], per_axis: Sequence[str]
) -> tuple[int, ...] | None:
    """The elements of each lane beyond lane 0, where each index moves by known distances."""
    total = [0] * e.lanes
    for index, step in zip(indices, per_axis, strict=True):
        found = e.lane_pattern(index)
        if found is None or (any(found) and not step.isdigit()):
            return None
        if any(found):
            total = [t + x * int(step) for t, x in zip(total, found, strict=True)]
    return tuple(total)


def _steps(t: Tensor, names: Sequence[str]) -> list[str]:
    if t.space not in ("shared", "table"):
        return [*names, "1"] if t.packed and t.rank else list(names)
    out, size = [""] * t.rank, 1
    for axis in reversed(range(t.rank)):
        out[axis] = str(size)
        size *= t.shape[axis]
    return out


def _sum(e: Emitter, parts: list[str], t: str) -> str:
    total = "0"
    for part in parts:
        if part != "0":
            total = part if total == "0" else e.w.let(f"add {t} {total}, {part}")
    return total


def _scaled(e: Emitter, number: str, step: str) -> str:
    if step == "1" or number == "0":
        return number
    return e.w.let(f"mul i64 {number}, {step}")


def first_index(e: Emitter, index: Value) -> str:
    """The i64 index of lane 0."""
    dtype = index.type
    assert isinstance(dtype, DType)
    name = e.first(index)
    if dtype.bits == 64 or not name.startswith("%"):
        return name
    if dtype.kind == "i":
        return e.w.let(f"sext {scalar(dtype)} {name} to i64")
    wide = e.w.let(f"zext {scalar(dtype)} {name} to i64")
    if dtype.bits < 32 or not e.lane_stride(index):
        return wide
    # An unsigned index just below its wrap is a negative one: later lanes count up through zero.
    near = e.w.let(f"icmp ugt i64 {wide}, {(1 << 32) - (1 << 20)}")
    below = e.w.let(f"sub i64 {wide}, {1 << 32}")
    return e.w.let(f"select i1 {near}, i64 {below}, i64 {wide}")


def _lane_index(e: Emitter, index: Value, step: str) -> str:
    dtype = index.type
    assert isinstance(dtype, DType)
    (name,) = e.names(index, e.lanes)
    wide = lanes("i64", e.lanes)
    if dtype.bits < 64:
        grow = "sext" if dtype.kind == "i" else "zext"
        name = e.w.let(f"{grow} {lanes(scalar(dtype), e.lanes)} {name} to {wide}")
    if step == "1":
        return name
    return e.w.let(f"mul {wide} {name}, {e.w.splat(step, 'i64', e.lanes)}")
