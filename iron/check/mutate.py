"""Known-bad kernels: one small change each, which the cases of a kernel must reject.

A mutant that no case rejects is either a gap in the cases or equal in meaning to the kernel; the
names are stable (operation, line, column), so that equal ones can be listed with their reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from iron.dtypes import bool_
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value, const_of, is_const
from iron.ir.rebuild import Sweep, rebuild, replace_blocks
from iron.ir.table import Trait
from iron.ir.text import digest
from iron.ir.types import element, like

Change = Callable[[Builder, Op, tuple[Value, ...]], "tuple[str, tuple[Value, ...]] | Value | None"]
"""Of the builder, the old op and its new operands: another op's name and operands (with the same
attributes and regions), a value in its place, or None to leave the op out."""

ORDERED = frozenset(
    ("sub", "div", "floordiv", "mod", "shl", "shr", "where", "pow", "atan2", "copysign")
)
COMPARISONS = frozenset(("lt", "le", "gt", "ge"))
CLOSER = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
OPPOSITE = {"add": "sub", "sub": "add"}
KEEPS_AN_INDEX = frozenset(
    ("add", "sub", "mul", "floordiv", "mod", "cast", "min", "max", "shl", "shr", "and")
)


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one op."""

    name: str
    op: Op
    change: Change


def mutants(
    kernel: Kernel, most: int = 0, wanted: Callable[[str], bool] = lambda name: True
) -> Iterator[tuple[str, Kernel]]:
    """Every mutant of the kernel with its name, in program order; about `most`, evenly, if given.

    Only those whose name is `wanted` when their turn comes are made.

    Kinds: a comparison that guards a branch becomes true (a dropped tail mask), a loop or
    comparison reaches one further, operands of an operation that is not commutative change places,
    addition and subtraction are exchanged, a constant operand grows by one, a barrier is dropped.
    Mutants whose text equals the kernel's or that of an earlier mutant are left out.
    """
    seen = {digest(rebuild(kernel))}
    every = list(mutations(kernel))
    step = max(1, -(-len(every) // most)) if most else 1
    for mutation in every[::step]:
        if not wanted(mutation.name):
            continue
        changed = apply(kernel, mutation)
        key = digest(changed)
        if key not in seen:
            seen.add(key)
            yield mutation.name, changed


def apply(kernel: Kernel, mutation: Mutation) -> Kernel:
    """The kernel with one mutation."""
    rules: dict[str, Any] = {}
    sweep = Sweep(rules)

    def rule(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op is not mutation.op:
            return None
        made = mutation.change(b, op, args)
        if made is None:
            return ()
        if isinstance(made, Value):
            return (made,)
        regions = tuple(sweep.block(r) for r in op.regions)
        b.loc, b.exact = op.loc, op.exact
        return b.emit_all(made[0], made[1], op.attrs, regions, op.surface)

    rules[mutation.op.name] = rule
    host = sweep.block(kernel.host)
    return replace_blocks(kernel, host=host, body=sweep.block(kernel.body))


def mutations(kernel: Kernel) -> Iterator[Mutation]:
    """Every mutation of the kernel's body, in program order."""
    indices = index_values(kernel.body)
    guards = guarding(kernel.body)
    used: dict[str, int] = {}
    for op in kernel.body.walk():
        for kind, change in _changes(op, indices, guards):
            name = f"{kind} at {_place(op)}"
            used[name] = count = used.get(name, 0) + 1
            yield Mutation(name if count == 1 else f"{name} ({count})", op, change)


def _changes(op: Op, indices: set[Value], guards: set[Value]) -> Iterator[tuple[str, Change]]:
    if op.name in COMPARISONS and any(a in indices for a in op.args):
        if op.results[0] in guards:
            yield "drop mask", _true
        yield f"{op.name} -> {CLOSER[op.name]}", _renamed(CLOSER[op.name])
    if op.name in ORDERED:
        yield f"swap operands of {op.surface}", _swapped
    if op.name in OPPOSITE:
        yield f"{op.name} -> {OPPOSITE[op.name]}", _renamed(OPPOSITE[op.name])
    if op.name == "for":
        yield "bound + 1", _one_further
    if op.name == "barrier":
        yield "drop barrier", _nothing
    for at, arg in enumerate(op.args):
        if _counts(op, at, arg):
            yield f"{const_of(arg)} + 1 in {op.surface}", _grown(at)


def _counts(op: Op, at: int, arg: Value) -> bool:
    """True for a number operand whose growth by one is not another mutation in disguise."""
    bound_of_loop = op.name == "for" and at == 1
    plain = not op.row.has(Trait.TERMINATOR) and op.name not in ("splat", "cast")
    return plain and not bound_of_loop and is_const(arg) and element(arg.type) is not bool_


def _true(b: Builder, op: Op, args: tuple[Value, ...]) -> Value:
    return b.const(True, like(op.results[0].type, bool_))


def _nothing(b: Builder, op: Op, args: tuple[Value, ...]) -> None:
    return None


def _swapped(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[str, tuple[Value, ...]]:
    return op.name, (*args[:-2], args[-1], args[-2])


def _renamed(name: str) -> Change:
    return lambda b, op, args: (name, args)


def _one_further(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[str, tuple[Value, ...]]:
    high = b.emit("add", args[1], b.const(1, args[1].type))
    return "for", (args[0], high, *args[2:])


def _grown(at: int) -> Change:
    def change(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[str, tuple[Value, ...]]:
        old = const_of(op.args[at])
        with np.errstate(all="ignore"):
            more = b.const(np.add(old, old.dtype.type(1)), args[at].type)
        return op.name, (*args[:at], more, *args[at + 1 :])

    return change


def _place(op: Op) -> str:
    if op.loc is None:
        return "?"
    return f"{PurePath(op.loc.file).name}:{op.loc.line}:{op.loc.col + 1}"


def index_values(body: Block) -> set[Value]:
    """Integers computed from the thread, the group or a loop counter."""
    found: set[Value] = set()
    for op in body.walk():
        if op.name == "for":
            found.add(op.regions[0].params[0])
        elif op.name in ("thread", "group") or (
            op.name in KEEPS_AN_INDEX
            and element(op.results[0].type).is_integer
            and any(a in found for a in op.args)
        ):
            found.add(op.results[0])
    return found


def guarding(body: Block) -> set[Value]:
    """Bools that decide a branch, alone or joined to others by `and` and `or`."""
    found: set[Value] = set()
    work = [op.args[0] for op in body.walk() if op.name == "if"]
    while work:
        value = work.pop()
        found.add(value)
        if value.op is not None and value.op.name in ("and", "or"):
            work.extend(value.op.args)
    return found
