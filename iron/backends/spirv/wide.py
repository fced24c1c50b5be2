"""Neighbours of memory in words of up to 16 bytes: one instruction for many elements.

A tensor that is accessed so has a variable for each size of word, all of one binding. A word of
more than 4 bytes is a vector; elements are cut out of its 32-bit parts, and joined to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iron.backends.spirv import memory, pairs
from iron.backends.spirv.encode import PART, RUN, Place
from iron.backends.spirv.register import halves, joined, unsigned
from iron.backends.spirv.words import Code
from iron.dtypes import DType
from iron.ir.core import Op, Value
from iron.ir.types import Tensor, Vector, element

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder, Rule


def load(e: Encoder, op: Op) -> None:
    """Neighbours as words where the op may move words."""
    size = _size(e, op)
    if not size:
        memory.load(e, op)
        return
    (result,) = op.results
    assert isinstance(result.type, Vector)
    dtype = result.type.elem
    held: list[int] = []
    for place, at in _places(e, op, op.args[1:], result.type.count):
        held += _parts(e, memory.read(e, place, at), size)
    if size >= PART and dtype.bytes < PART:
        e.loaded[result] = held
    if op in e.pairs.loads:
        e.pairs.words[result] = held
        return
    parts = [part for word in held for part in cut(e, dtype, word, min(PART, size))]
    e.parts[result] = parts if dtype.bits < 64 else _pairs(e, parts)


def _size(e: Encoder, op: Op) -> int:
    """Bytes of the words that an access moves; 0 for elements."""
    return RUN if op.args[0] in e.run_arrays else e.wide.get(op, 0)


def _places(
    e: Encoder, op: Op, indices: Sequence[Value], count: int
) -> Iterator[tuple[Place, int]]:
    """The words of an access: where each is."""
    m, t, size = e.m, op.args[0].type, _size(e, op)
    assert isinstance(t, Tensor)
    array, ratio = op.args[0], size // t.elem.bytes
    place = e.places[array] if array in e.run_arrays else e.views[array, size]
    at = memory.address(e, op.args[0], indices)
    first = m.put(Code.ShiftRightLogical, m.u32, at, m.number(ratio.bit_length() - 1))
    for number in range(max(1, count // ratio)):
        yield place, m.op(Code.IAdd, first, m.number(number)) if number else first


def _parts(e: Encoder, raw: int, size: int) -> list[int]:
    """The 32-bit parts of a word."""
    m = e.m
    if size < PART:
        return [m.put(Code.UConvert, m.u32, raw)]
    if size == PART:
        return [raw]
    part = m.f32 if m.types[raw] == m.once(Code.TypeVector, m.f32, size // PART) else m.u32
    return [m.put(Code.CompositeExtract, part, raw, n) for n in range(size // PART)]


def cut(e: Encoder, dtype: DType, word: int, size: int) -> list[int]:
    """The elements in the lowest `size` bytes of a part, in their register form."""
    m = e.m
    if dtype.bytes >= PART:
        return [word]
    out: list[int] = []
    for byte in range(0, size, dtype.bytes):
        moved = word
        if byte:
            moved = m.put(Code.ShiftRightLogical, m.u32, word, m.number(8 * byte))
        last = byte + dtype.bytes == PART and dtype.kind not in "ib"
        out.append(moved if last else memory.narrow(e, dtype, moved))
    return out


def _pairs(e: Encoder, parts: Sequence[int]) -> list[int]:
    return [joined(e.m, *parts[n : n + 2]) for n in range(0, len(parts), 2)]


def store(e: Encoder, op: Op) -> None:
    """Neighbours as words where the op may move words."""
    size = _size(e, op)
    if not size:
        memory.store(e, op)
        return
    m, value = e.m, op.args[-1]
    assert isinstance(value.type, Vector)
    parts = _held(e, value, min(PART, size))
    count = max(1, size // PART)
    for number, (place, at) in enumerate(_places(e, op, op.args[1:-1], value.type.count)):
        mine = parts[number * count : (number + 1) * count]
        whole = mine[0]
        if size < PART:
            whole = m.put(Code.UConvert, place.stored, whole)
        elif count > 1:
            whole = m.put(Code.CompositeConstruct, place.stored, *mine)
        memory.put(e, place, at, whole)


def _held(e: Encoder, value: Value, size: int) -> list[int]:
    """The parts, of `size` bytes, of the words that hold a vector."""
    if value.op in e.pairs.packs:
        return pairs.joined(e, value.op)
    dtype, values = element(value.type), list(e.parts[value])
    if dtype.bits == 64:
        values = [half for v in values for half in halves(e.m, v)]
    each = max(1, size // dtype.bytes)
    return [packed(e, dtype, values[n : n + each]) for n in range(0, len(values), each)]


def packed(e: Encoder, dtype: DType, values: Sequence[int]) -> int:
    """Registers of narrow elements as one part, the first lowest."""
    m = e.m
    if dtype.bytes >= PART:
        return values[0]
    total = 0
    for number, value in enumerate(values):
        if dtype.kind == "b":
            value = m.select(value, m.number(1), m.number(0))
        last = (number + 1) * dtype.bytes == PART
        held = value if last else unsigned(m, dtype, value)
        if number:
            by = m.number(8 * dtype.bytes * number)
            held = m.put(Code.ShiftLeftLogical, m.u32, held, by)
            total = m.op(Code.BitwiseOr, total, held)
        else:
            total = held
    return total


RULES: dict[str, Rule] = {"load": load, "store": store}
