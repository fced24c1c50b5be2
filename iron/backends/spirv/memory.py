"""Loads, stores, atomics, group arrays and constant tables as SPIR-V.

An address is an element offset in 32 bits. On a device without access to narrow elements, memory
is words: a load cuts its element out, a store changes its bits of the word without interruption.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from iron.backends.spirv.encode import PART, RUN, Place
from iron.backends.spirv.matrix import SHARED
from iron.backends.spirv.register import joined, wrapped
from iron.backends.spirv.words import RELAXED, Capability, Code, Scope, Storage
from iron.dtypes import DType
from iron.ir.core import Op, Value, const_of, is_const
from iron.ir.types import Tensor, Vector, element

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder, Rule


def address(e: Encoder, buffer: Value, indices: Sequence[Value]) -> int:
    """The offset of an element from the start of its buffer, in elements; 0 beyond a guard."""
    m, t = e.m, buffer.type
    assert isinstance(t, Tensor)
    terms: list[int] = []
    inside = t.space in ("shared", "table")
    if not inside:
        terms.append(e.argument("origin", e.names[buffer]))
    for axis, index in enumerate(indices):
        if is_const(index) and int(const_of(index)) == 0:
            continue
        at = e.id(index)
        if element(index.type).bits == 64:
            at = m.put(Code.UConvert, m.u32, at)
        step = prod(t.shape[axis + 1 :])
        if inside and step != 1:
            at = m.op(Code.IMul, at, m.number(step))
        elif not inside and not (t.packed and axis == t.rank - 1):
            at = m.op(Code.IMul, at, e.argument("stride", e.names[buffer], axis))
        terms.append(at)
    total = terms[0] if terms else m.number(0)
    for term in terms[1:]:
        total = m.op(Code.IAdd, total, term)
    return m.select(e.guard, total, m.number(0)) if e.guard else total


def pointer(e: Encoder, place: Place, at: int) -> int:
    """A pointer to element `at` of a place."""
    first = (e.m.number(0),) if place.member else ()
    return e.m.put(Code.AccessChain, place.pointer, place.variable, *first, at)


def read(e: Encoder, place: Place, at: int) -> int:
    """Element `at` of a place as it is stored."""
    seen = (SHARED,) if place.seen else ()
    return e.m.put(Code.Load, place.stored, pointer(e, place, at), *seen)


def put(e: Encoder, place: Place, at: int, value: int) -> None:
    """Stores `value` as element `at` of a place."""
    seen = (SHARED,) if place.seen else ()
    e.m.do(Code.Store, pointer(e, place, at), value, *seen)


# --- loads ----------------------------------------------------------------------------------------


def load(e: Encoder, op: Op) -> None:
    """One element, or neighbours taken one by one."""
    (result,) = op.results
    buffer = op.args[0]
    at = address(e, buffer, op.args[1:])
    if not isinstance(result.type, Vector):
        e.set(op, _element(e, buffer, at))
        return
    places = neighbours(e, buffer, at, result.type.count)
    e.parts[result] = [_element(e, buffer, place) for place in places]


def neighbours(e: Encoder, buffer: Value, first: int, count: int) -> list[int]:
    """The offsets of `count` elements along the last axis."""
    m, t = e.m, buffer.type
    assert isinstance(t, Tensor)
    strided = t.space not in ("shared", "table") and not t.packed
    step = e.argument("stride", e.names[buffer], t.rank - 1) if strided else m.number(1)
    out = [first]
    for number in range(1, count):
        apart = m.op(Code.IMul, step, m.number(number)) if strided else m.number(number)
        out.append(m.op(Code.IAdd, first, apart))
    return out


def _element(e: Encoder, buffer: Value, at: int) -> int:
    t = buffer.type
    assert isinstance(t, Tensor)
    if t.space == "table":
        return _table_element(e, buffer, t.elem, at)
    return registered(e, e.places[buffer], t.elem, at)


def registered(e: Encoder, place: Place, dtype: DType, at: int) -> int:
    """An element of memory in its register form."""
    m = e.m
    if place.ratio > 1:
        word = read(e, place, word_of(e, place, at))
        cut = m.put(Code.ShiftRightLogical, m.u32, word, _shift_of(e, place, at))
        return narrow(e, dtype, cut)
    raw = read(e, place, at)
    if dtype.bits < 32 and place.stored != m.u32:
        signed = dtype.kind == "i"
        raw = m.put(Code.SConvert if signed else Code.UConvert, m.u32, raw)
    return m.test(Code.INotEqual, raw, m.number(0)) if dtype.kind == "b" else raw


def narrow(e: Encoder, dtype: DType, word: int) -> int:
    """The lowest bits of a word as an element."""
    m = e.m
    if dtype.kind == "b":
        low = m.op(Code.BitwiseAnd, word, m.number(0xFF))
        return m.test(Code.INotEqual, low, m.number(0))
    return wrapped(m, dtype, word)


def word_of(e: Encoder, place: Place, at: int) -> int:
    """The number of the word that an element lies in."""
    power = place.ratio.bit_length() - 1
    return e.m.put(Code.ShiftRightLogical, e.m.u32, at, e.m.number(power))


def _shift_of(e: Encoder, place: Place, at: int) -> int:
    m = e.m
    inside = m.op(Code.BitwiseAnd, at, m.number(place.ratio - 1))
    return m.op(Code.IMul, inside, m.number(32 // place.ratio))


# --- stores ---------------------------------------------------------------------------------------


def store(e: Encoder, op: Op) -> None:
    """One element, or the packed neighbours one by one."""
    buffer, value = op.args[0], op.args[-1]
    at = address(e, buffer, op.args[1:-1])
    dtype = element(value.type)
    if not isinstance(value.type, Vector):
        write(e, e.places[buffer], dtype, at, e.id(value))
        return
    parts = e.parts[value]
    for place, part in zip(neighbours(e, buffer, at, len(parts)), parts, strict=True):
        write(e, e.places[buffer], dtype, place, part)


def write(e: Encoder, place: Place, dtype: DType, at: int, value: int) -> None:
    """Writes a register to an element of memory."""
    m = e.m
    if dtype.kind == "b":
        value = m.select(value, m.number(1), m.number(0))
    if place.ratio > 1:
        _merge(e, place, dtype, at, value)
        return
    if dtype.bits < 32 and place.stored != m.u32:
        value = m.put(Code.UConvert, place.stored, value)
    put(e, place, at, value)


def _merge(e: Encoder, place: Place, dtype: DType, at: int, value: int) -> None:
    """Clears the element's bits of its word, then sets them; its neighbours are not disturbed."""
    m = e.m
    mask = m.number((1 << 32 // place.ratio) - 1)
    shift = _shift_of(e, place, at)
    word = pointer(e, place, word_of(e, place, at))
    held = m.op(Code.ShiftLeftLogical, m.op(Code.BitwiseAnd, value, mask), shift)
    kept = m.op(Code.Not, m.op(Code.ShiftLeftLogical, mask, shift))
    scope, order = m.number(Scope.Device), m.number(RELAXED)
    m.put(Code.AtomicAnd, m.u32, word, scope, order, kept)
    m.put(Code.AtomicOr, m.u32, word, scope, order, held)


_ATOMICS = {
    "add": (Code.AtomicIAdd, Code.AtomicIAdd),
    "min": (Code.AtomicSMin, Code.AtomicUMin),
    "max": (Code.AtomicSMax, Code.AtomicUMax),
    "and": (Code.AtomicAnd, Code.AtomicAnd),
    "or": (Code.AtomicOr, Code.AtomicOr),
    "xor": (Code.AtomicXor, Code.AtomicXor),
}


def atomic(e: Encoder, op: Op) -> None:
    """A read-modify-write of one element, in no order with others; the old element."""
    m, t = e.m, op.args[0].type
    assert isinstance(t, Tensor)
    at = pointer(e, e.places[op.args[0]], address(e, op.args[0], op.args[1:-1]))
    signed, plain = _ATOMICS[op.attrs[0]]
    scope = m.number(Scope.Workgroup if t.space == "shared" else Scope.Device)
    code = signed if t.elem.kind == "i" else plain
    e.set(op, m.put(code, m.u32, at, scope, m.number(RELAXED), e.id(op.args[-1])))


# --- group arrays and tables ----------------------------------------------------------------------


def group_array(e: Encoder, dtype: DType, count: int, name: str) -> Place:
    """An array of the group; narrow elements fill a word where the device has no narrow types."""
    m, bits = e.m, 8 * dtype.bytes
    stored = m.f32 if dtype.kind == "f" else m.u64 if bits == 64 else m.u32
    size = max(4, dtype.bytes)
    if bits < 32 and e.target.has(f"int{bits}"):
        m.need(Capability[f"Int{bits}"])
        stored, size = m.once(Code.TypeInt, bits, 0), dtype.bytes
    e.shared_bytes += count * size
    array = m.once(Code.TypeArray, stored, m.number(count))
    variable = m.variable(Storage.Workgroup, array, name or "shared")
    pointer = m.pointer(Storage.Workgroup, stored)
    return Place(variable, pointer, stored, member=False, seen=e.opaque)


def shared(e: Encoder, op: Op) -> None:
    """An array that belongs to the group; every shape is flat."""
    t, (result,) = op.attrs[0], op.results
    make = run_array if result in e.run_arrays else group_array
    e.places[result] = make(e, t.elem, prod(t.shape), result.name)


def run_array(e: Encoder, dtype: DType, count: int, name: str) -> Place:
    """An array of the group whose elements are runs of four words."""
    m = e.m
    part, ratio = (m.f32 if dtype.kind == "f" else m.u32), RUN // dtype.bytes
    stored = m.once(Code.TypeVector, part, RUN // PART)
    e.shared_bytes += count * dtype.bytes
    array = m.once(Code.TypeArray, stored, m.number(count // ratio))
    variable = m.variable(Storage.Workgroup, array, name or "shared")
    pointer = m.pointer(Storage.Workgroup, stored)
    return Place(variable, pointer, stored, ratio, member=False, seen=e.opaque)


def table(e: Encoder, op: Op) -> None:
    """A constant array: its bytes join those of the kernel's other tables, from a whole word on."""
    data = op.attrs[1]
    e.table_starts[op.results[0]] = len(e.tables) // 4
    e.tables += data + b"\0" * (-len(data) % 4)


def _table_element(e: Encoder, table: Value, dtype: DType, at: int) -> int:
    m, start = e.m, e.m.number(e.table_starts[table])
    ratio = max(1, 4 // dtype.bytes)
    words = Place(e.table_words.variable, e.table_words.pointer, m.u32, ratio)

    def word(number: int) -> int:
        return m.load(pointer(e, words, m.op(Code.IAdd, number, start)), m.u32)

    if dtype.bits == 64:
        first = m.op(Code.ShiftLeftLogical, at, m.number(1))
        return joined(m, word(first), word(m.op(Code.IAdd, first, m.number(1))))
    if ratio == 1:
        return m.put(Code.Bitcast, m.f32, word(at)) if dtype.kind == "f" else word(at)
    whole = word(word_of(e, words, at))
    return narrow(e, dtype, m.put(Code.ShiftRightLogical, m.u32, whole, _shift_of(e, words, at)))


RULES: dict[str, Rule] = {
    "load": load,
    "store": store,
    "atomic": atomic,
    "shared": shared,
    "table": table,
}
