"""Loads, stores, atomics, shared arrays and tables as C-style text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from iron.backends.clike import words
from iron.backends.clike.expression import PRIMARY, PRODUCT, SUM, UNARY, Expr, constant
from iron.backends.clike.group_memory import POOL_ALIGN, WIDEST
from iron.ir.core import Op, Value, const_of, is_const
from iron.ir.types import Tensor, Vector, count, element

if TYPE_CHECKING:
    from iron.backends.clike.render import Renderer


def summands(value: Value) -> tuple[list[Value], int]:
    """What an index is the sum of: values, and a constant."""
    if is_const(value):
        return [], int(const_of(value))
    if value.op is None or value.op.name != "add":
        return [value], 0
    parts = [summands(a) for a in value.op.args]
    return [v for found, _ in parts for v in found], sum(c for _, c in parts)


def read(op: Op) -> Sequence[Value]:
    """What the text of an op reads: where a place is written as a sum, its summands."""
    if op.name != "simd_load":
        return op.args
    return [op.args[0], *(v for a in op.args[1:] for v in summands(a)[0])]


def summed(r: Renderer, buffer: Value, indices: Sequence[Value]) -> str:
    """The place of an access of group memory as a sum in which constants stand last and nothing is
    multiplied but what changes: an instruction takes them as they are."""
    t = buffer.type
    assert isinstance(t, Tensor)
    terms, fixed = [r.expr(buffer)], 0
    for axis, index in enumerate(indices):
        step = int(np.prod(t.shape[axis + 1 :], dtype=np.int64))
        found, constant = summands(index)
        fixed += constant * step
        for value in found:
            at = r.expr(value)
            terms.append(at if step == 1 else Expr(f"{at.at(PRODUCT)} * {step}", PRODUCT))
    texts = [t.at(SUM + 1) for t in terms]
    return " + ".join([*texts, str(fixed)] if fixed else texts)


def address(r: Renderer, buffer: Value, indices: Sequence[Value]) -> Expr:
    """The element offset of an access."""
    t, base = buffer.type, r.expr(buffer).text
    assert isinstance(t, Tensor)
    if t.space in ("shared", "table", "registers"):
        steps = [str(int(np.prod(t.shape[a + 1 :], dtype=np.int64))) for a in range(t.rank)]
        wide = ""
    else:
        steps = [f"{base}_stride{a}" for a in range(t.rank - 1 if t.packed else t.rank)]
        steps += ["1"] * (t.rank - len(steps))
        wide = "(i64)"
    terms: list[Expr] = []
    for index, step in zip(indices, steps, strict=True):
        at = r.expr(index)
        if step == "1":
            terms.append(at)
        elif at.text != "0":
            factor = f"{wide}{at.at(UNARY)}" if wide else at.at(PRODUCT)
            terms.append(Expr(f"{factor} * {step}", PRODUCT))
    if len(terms) == 1:
        return terms[0]
    return Expr(" + ".join(t.at(SUM + 1) for t in terms) or "0", SUM if terms else PRIMARY)


def load(r: Renderer, op: Op) -> None:
    """One element, or neighbours taken one by one."""
    (result,) = op.results
    base, at = r.expr(op.args[0]).text, address(r, op.args[0], op.args[1:])
    if not isinstance(result.type, Vector):
        r.declare(result, f"{base}[{at.text}]", f"{base}_at")
        return
    if op in r.wide:
        name, kind = r.fresh(f"{base}_run"), f"iron_{result.type}"
        r.line(f"const {kind} {name} = *(const {kind}*)({base} + {at.at(SUM)});")
        r.expressions[result] = Expr(name)
    else:
        r.expressions[result] = Expr(_pointer(r, op, base, at))
    if result in r.copied:
        for number in range(result.type.count):
            _part(r, op, number)


def extract(r: Renderer, op: Op) -> None:
    """An element of a wide load."""
    (result,) = op.results
    load, number = op.args[0].op, op.attrs[0]
    assert load is not None
    if r.uses[result]:
        r.expressions[result] = _part(r, load, number, result.name)


def _part(r: Renderer, load: Op, number: int, name: str = "") -> Expr:
    """A neighbour that a wide load read, as a constant of its own."""
    (whole,) = load.results
    if (whole, number) not in r.parts:
        held = r.expr(whole).text
        if load in r.wide:
            text = words.part(held, element(whole.type), count(whole.type), number)
        else:
            text = f"{held}[{_neighbour(r, load, number)}]"
        r.parts[whole, number] = Expr(r.constant(element(whole.type), name or "part", text))
    return r.parts[whole, number]


def store(r: Renderer, op: Op) -> None:
    """One element, or neighbours one by one: packed, or as they were loaded."""
    base, at = r.expr(op.args[0]).text, address(r, op.args[0], op.args[1:-1])
    value = op.args[-1]
    if not isinstance(value.type, Vector):
        r.line(f"{base}[{at.text}] = {r.expr(value).text};")
        return
    made = value.op
    assert made is not None
    parts = [
        r.expr(made.args[n]) if made.name == "pack" else _part(r, made, n)
        for n in range(value.type.count)
    ]
    if op in r.wide:
        kind = f"iron_{value.type}"
        held = ", ".join(words.whole(element(value.type), [part.text for part in parts]))
        r.line(f"*({kind}*)({base} + {at.at(SUM)}) = {kind}{{{{{held}}}}};")
        return
    first = _pointer(r, op, base, at)
    for number, part in enumerate(parts):
        r.line(f"{first}[{_neighbour(r, op, number)}] = {part.text};")


def _neighbour(r: Renderer, access: Op, number: int) -> str:
    """The offset of a neighbour from the first element of a wide access."""
    return neighbour(r, access.args[0], str(number))


def neighbour(r: Renderer, buffer: Value, number: str) -> str:
    """The offset of a neighbour along the last axis."""
    t = buffer.type
    assert isinstance(t, Tensor)
    if t.packed or number == "0":
        return number
    return f"{number} * {r.expr(buffer).text}_stride{t.rank - 1}"


def _pointer(r: Renderer, op: Op, base: str, at: Expr) -> str:
    t = op.args[0].type
    assert isinstance(t, Tensor)
    name = r.fresh(f"{base}_run")
    kind = r.dialect.pointer(t.space, t.elem)
    r.line(f"{kind} {name} = {base} + {at.at(SUM)};")
    return name


def pack(r: Renderer, op: Op) -> None:
    """Written by the store that uses it."""


def atomic(r: Renderer, op: Op) -> None:
    """A read-modify-write of one element."""
    t = op.args[0].type
    assert isinstance(t, Tensor)
    base, at = r.expr(op.args[0]).text, address(r, op.args[0], op.args[1:-1])
    where = "shared" if t.space == "shared" else "global"
    name = f"iron_atomic_{op.attrs[0]}_{t.elem}_{where}"
    text = f"{name}(&{base}[{at.text}], {r.expr(op.args[-1]).text})"
    if r.uses[op.results[0]]:
        r.declare(op.results[0], text, "old")
    else:
        r.line(f"{text};")


def shared(r: Renderer, op: Op) -> None:
    """A group's array; every shape is flat."""
    t = op.attrs[0]
    (result,) = op.results
    align = WIDEST if result in r.matrices else POOL_ALIGN
    name = r.array(t.elem, result.name or "shared", int(np.prod(t.shape)), align)
    r.expressions[result] = Expr(name)


def table(r: Renderer, op: Op) -> None:
    """A constant array at file scope."""
    t, data = op.attrs
    name = r.fresh(op.results[0].name or "table")
    r.expressions[op.results[0]] = Expr(name)
    values = np.frombuffer(data, t.elem.np)
    words = [constant(v, t.elem, r.dialect.long_suffix).text for v in values]
    rows = [", ".join(words[i : i + 8]) for i in range(0, len(words), 8)]
    body = ",\n  ".join(rows).replace("iron_bits_to_f32", "IRON_CONSTANT_F32")
    r.globals.append(f"{r.dialect.constant} {t.elem} {name}[{len(words)}] = {{\n  {body}\n}};")
