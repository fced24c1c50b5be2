"""The host block: launch extents and requirements as pure expressions of scalars and dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iron.ir.build import Builder
from iron.ir.core import Block, Value
from iron.ir.table import Trait

if TYPE_CHECKING:
    from iron.front.state import Trace


class Impure(Exception):
    """The value depends on a thread or on memory, so the host cannot compute it."""


def host_block(params: Sequence[Value], wanted: Sequence[Value]) -> Block:
    """A block of `params` that yields `wanted`, cloned out of the body; Impure if it cannot be."""
    builder = Builder()
    fresh = {p: Value(p.type, None, p.name) for p in params}
    with builder.block(tuple(fresh.values())) as block:
        results = [_clone(builder, v, fresh) for v in wanted]
        builder.emit_all("yield", results)
    return block


def _clone(builder: Builder, value: Value, known: dict[Value, Value]) -> Value:
    if value in known:
        return known[value]
    op = value.op
    if op is None:
        raise Impure
    if op.name == "if":
        at = op.results.index(value)
        sides = [r.yielded[at] for r in op.regions]
        args = [_clone(builder, v, known) for v in (op.args[0], *sides)]
        result = builder.emit("where", *args)
    elif op.row.has(Trait.PURE) and (op.row.has(Trait.ELEMENTWISE) or op.name == "const"):
        args = [_clone(builder, a, known) for a in op.args]
        builder.loc, builder.exact = op.loc, op.exact
        result = builder.emit(op.name, *args, attrs=op.attrs)
    else:
        raise Impure
    known[value] = result
    return result


def is_pure(trace: Trace, value: Value) -> bool:
    """True when the host can compute `value` from scalars and dims alone."""
    seen: set[Value] = set()
    todo = [value]
    while todo:
        v = todo.pop()
        if v in seen or v in trace.host_values:
            continue
        seen.add(v)
        op = v.op
        if op is None:
            return False
        if op.name == "if":
            todo += [op.args[0], *(y for r in op.regions for y in r.yielded)]
        elif op.row.has(Trait.PURE) and (op.row.has(Trait.ELEMENTWISE) or op.name == "const"):
            todo += op.args
        else:
            return False
    return True


def dims_in(trace: Trace, value: Value) -> set[str]:
    """The dims a pure value is made of."""
    seen: set[Value] = set()
    found: set[str] = set()
    todo = [value]
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        if v in trace.dim_of:
            found.add(trace.dim_of[v])
        elif v.op is not None:
            todo += v.op.args
    return found
