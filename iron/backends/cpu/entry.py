"""Makes the LLVM module of a lowered kernel: its entry, its argument block, the loop over groups.

The entry is `void symbol(ptr args, i64 first, i64 end)`: it runs the groups whose linear numbers
lie in `first .. end - 1`. `args` is a block of 8-byte fields described by `Field` records.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from iron.analysis.uniform import uniformity
from iron.backends.cpu import (
    ahead,
    arith,
    control,
    convert,
    dots,
    fast,
    group,
    guards,
    memory,
    nibbles,
    panel,
    pieces,
    runs,
    scaling,
    shares,
)
from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.simt import split
from iron.backends.cpu.state import Emitter, Fixed, Names, Rule, Runs, ScalarForm
from iron.backends.cpu.types import scalar
from iron.dtypes import DType
from iron.ir.core import Kernel, Op, Value
from iron.ir.table import Trait
from iron.ir.types import Tensor, element
from iron.targets.target import Target

LANES = 16
"""Lanes of a long body: one vector of f32 on AVX-512, two on AVX2."""

STREAM_FROM = 16 << 20
"""Bytes of outputs from which they are written past the caches."""

CROWDED, CROWDED_FROM = 256 << 10, 2 << 20
"""Bytes of a group's arrays that take up a core's own cache, and of outputs from which they leave
it to them: a product of f32, 1024 x 1024 x 1024, gains a few percent on two cores."""


@dataclass(frozen=True, slots=True)
class Field:
    """One 8-byte field of the argument block.

    `kind` is `pointer`, `stride` (elements along `axis`), `scalar`, `dim`, `extent` (of the launch
    along `axis`) or `streams` (1 when the tensors that `name` lists are to be written past the
    caches, which is from `least` bytes on); scalars and dims lie in the low bytes.
    """

    kind: str
    name: str
    axis: int = 0
    dtype: DType | None = None
    least: int = 0


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel as LLVM text, the name of its entry and the layout of its argument block."""

    text: str
    symbol: str
    fields: tuple[Field, ...]


def compile_kernel(kernel: Kernel, target: Target, symbol: str = "") -> Compiled:
    """The module of `kernel`, whose elementary functions have been expanded.

    Its entry is called `symbol`, or by the kernel's name where that is empty.
    """
    kernel = _narrowed(kernel)
    uniform = uniformity(kernel)
    plan = split(kernel, uniform)
    e = Emitter(kernel, uniform, target, RULES, SCALAR_FORMS, plan.rematerialised)
    e.has_nibbles = nibbles.present(kernel)
    fields = layout(kernel)
    e.streamed = frozenset(streamed(kernel))
    prologue = _arguments(e, kernel, fields)
    pieces.emit(e, plan)
    symbol = symbol or symbol_of(kernel)
    return Compiled(_module(e, symbol, prologue), symbol, fields)


def _narrowed(kernel: Kernel) -> Kernel:
    """A long body without collectives at fewer lanes at once: half the text for LLVM.

    Short bodies need the wider form to keep the CPU busy, and wide ones of two vectors a value run
    out of registers in long ones.
    """
    pure = sum(op.row.has(Trait.PURE) and op.name != "const" for op in kernel.body.walk())
    if not kernel.each or pure < guards.LONG or kernel.simd <= LANES:
        return kernel
    return replace(kernel, simd=LANES)


def symbol_of(kernel: Kernel) -> str:
    """The name of a kernel's entry."""
    return "iron_" + re.sub(r"\W", "_", kernel.name)


def layout(kernel: Kernel) -> tuple[Field, ...]:
    """The fields of a kernel's argument block, in order."""
    fields: list[Field] = []
    for p in kernel.params:
        if isinstance(p.type, Tensor):
            fields.append(Field("pointer", p.name))
            runtime = p.type.rank - (1 if p.type.packed else 0)
            fields += [Field("stride", p.name, axis) for axis in range(max(0, runtime))]
        else:
            fields.append(Field(p.role, p.name, 0, element(p.type)))
    fields += [Field("extent", "", axis) for axis in range(kernel.rank)]
    names = [v.name for v in streamed(kernel)]
    if names:
        fields.append(Field("streams", " ".join(names), least=_stream_from(kernel)))
    return tuple(fields)


def _stream_from(kernel: Kernel) -> int:
    held = (op.attr("type") for op in kernel.body.walk() if op.name == "shared")
    crowded = sum(prod(t.shape) * t.elem.bytes for t in held) >= CROWDED
    return CROWDED_FROM if crowded else STREAM_FROM


def streamed(kernel: Kernel) -> list[Value]:
    """The outputs that the kernel only writes: they may bypass the caches when they are large."""
    read = {op.args[0] for op in kernel.body.walk() if op.row.has(Trait.READS) and op.args}
    return [
        value
        for value, param in zip(kernel.body.params, kernel.params, strict=True)
        if isinstance(param.type, Tensor) and param.type.space == "out" and value not in read
    ]


def _arguments(e: Emitter, kernel: Kernel, fields: tuple[Field, ...]) -> list[str]:
    """Loads of the argument block, and the places of the parameters they fill."""
    lines: list[str] = []
    names: dict[str, list[str]] = {p.name: [] for p in kernel.params}
    for number, field in enumerate(fields):
        at, name = f"%at{number}", f"%arg{number}"
        ll = {"pointer": "ptr", "stride": "i64", "extent": "i64", "streams": "i64"}.get(field.kind)
        lines.append(f"  {at} = getelementptr i64, ptr %args, i64 {number}")
        if field.kind == "extent":
            name = f"%extent{field.axis}"
        elif field.kind == "streams":
            name = "%streams"
        else:
            names[field.name].append(name)
        if ll is not None:
            lines.append(f"  {name} = load {ll}, ptr {at}, align 8")
            continue
        assert field.dtype is not None
        if field.dtype.kind == "b":
            lines.append(f"  {name}.byte = load i8, ptr {at}, align 8")
            lines.append(f"  {name} = icmp ne i8 {name}.byte, 0")
        else:
            lines.append(f"  {name} = load {scalar(field.dtype)}, ptr {at}, align 8")
    for value, param in zip(kernel.body.params, kernel.params, strict=True):
        e.places[value] = Fixed(tuple(names[param.name]))
    return lines


def _module(e: Emitter, symbol: str, prologue: list[str]) -> str:
    w, rank, triple = e.w, e.kernel.rank, e.target.triple
    fenced = "!nontemporal" in "".join(w.lines) and triple.startswith("x86_64")
    number = shares.shares(e) if fenced else 1
    if number > 1:
        start = [*_COUNTER, *shares.start(e, number)]
        group, advance = shares.GROUP, _NEXT
    else:
        start, advance = _group_counters(rank)
        group = [f"  %group{axis} = load i64, ptr %group_cell{axis}" for axis in range(rank)]
    parts = [
        f'target triple = "{triple}"',
        *w.globals,
        f'define void @{symbol}(ptr noalias %args, i64 %first, i64 %end) "no-builtins" {{',
        "entry:",
        *w.cells,
        *prologue,
        *w.first,
        *start,
        "  br label %group_loop",
        "group_loop:",
        "  %number = load i64, ptr %number_cell",
        "  %more = icmp ult i64 %number, %end",
        "  br i1 %more, label %group_body, label %exit",
        "group_body:",
        *group,
        *w.lines,
        *advance,
        "  br label %group_loop, !llvm.loop !1",
        "exit:",
        *w.last,
        *(_FENCE if fenced else ["  ret void"]),
        "}",
        *sorted(w.declared.values()),
        *(["declare void @llvm.x86.sse.sfence()"] if fenced else []),
        "!0 = !{i32 1}",
        "!1 = distinct !{!1, !2}",
        '!2 = !{!"llvm.loop.unroll.disable"}',  # a copy of the body for each turn buys nothing
    ]
    return "\n".join(parts) + "\n"


_FENCE = [
    "  %streamed = icmp ne i64 %streams, 0",
    "  br i1 %streamed, label %fence, label %return",
    "fence:",
    "  call void @llvm.x86.sse.sfence()",
    "  br label %return",
    "return:",
    "  ret void",
]
"""Streaming stores are ordered with nothing else until a fence."""


_COUNTER = ["  %number_cell = alloca i64", "  store i64 %first, ptr %number_cell"]
_NEXT = ["  %next_number = add i64 %number, 1", "  store i64 %next_number, ptr %number_cell"]


def _group_counters(rank: int) -> tuple[list[str], list[str]]:
    """Cells for the group's number along each axis: set by division once, then counted on."""
    start = list(_COUNTER)
    start += [f"  %group_cell{axis} = alloca i64" for axis in range(rank)]
    rest = "%first"
    for axis in range(rank):
        here = rest
        if axis < rank - 1:
            start.append(f"  %start{axis} = urem i64 {rest}, %extent{axis}")
            start.append(f"  %rest{axis} = udiv i64 {rest}, %extent{axis}")
            here, rest = f"%start{axis}", f"%rest{axis}"
        start.append(f"  store i64 {here}, ptr %group_cell{axis}")
    advance = list(_NEXT)
    carry = "1"
    for axis in range(rank):
        advance.append(f"  %step{axis} = add i64 %group{axis}, {carry}")
        if axis == rank - 1:
            advance.append(f"  store i64 %step{axis}, ptr %group_cell{axis}")
            break
        advance.append(f"  %wraps{axis} = icmp eq i64 %step{axis}, %extent{axis}")
        advance.append(f"  %next{axis} = select i1 %wraps{axis}, i64 0, i64 %step{axis}")
        advance.append(f"  store i64 %next{axis}, ptr %group_cell{axis}")
        advance.append(f"  %carry{axis} = zext i1 %wraps{axis} to i64")
        carry = f"%carry{axis}"
    return start, advance


# --- the rules ------------------------------------------------------------------------------------


def _elementwise(e: Emitter, op: Op) -> list[Names]:
    (result,) = op.results
    x = Lanes(e.w, element(op.args[-1].type), e.width(result))
    if (found := scaling.scaled(e, op, x)) is not None:
        return [found]
    columns = zip(*(e.names(a, x.width) for a in op.args), strict=True)
    return [tuple(arith.spell(x, op, list(column)) for column in columns)]


def _scalar_elementwise(x: Lanes, op: Op, operands: list[str]) -> str:
    return arith.spell(x, op, operands)


def _scalar_cast(x: Lanes, op: Op, operands: list[str]) -> str:
    return convert.cast(x, operands[0], op.attr("to"))


def _or_looked_up(rule: Rule) -> Rule:
    """`rule`, where the result is not a look-up of a four-bit code."""

    def emit(e: Emitter, op: Op) -> Sequence[Names | Runs]:
        level = nibbles.looked_up(e, op)
        return rule(e, op) if level is None else [(level,)]

    return emit


RULES: dict[str, Rule] = {
    **dict.fromkeys(arith.SPELLINGS, _or_looked_up(runs.in_runs(_elementwise))),
    **{name: runs.in_runs(rule) for name, rule in convert.RULES.items()},
    **dots.RULES,
    **{name: runs.in_runs(rule) for name, rule in fast.RULES.items()},
    **memory.RULES,
    **ahead.RULES,
    **panel.RULES,
    **control.RULES,
    **group.RULES,
    "cast": _or_looked_up(runs.in_runs(convert.RULES["cast"])),
    "bitcast": _or_looked_up(runs.in_runs(convert.RULES["bitcast"])),
    "load": _or_looked_up(memory.RULES["load"]),
}

SCALAR_FORMS: dict[str, ScalarForm] = {
    **dict.fromkeys(arith.SPELLINGS, _scalar_elementwise),
    "cast": _scalar_cast,
}
