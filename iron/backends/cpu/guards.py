"""Guards around a kernel's body: the test that all lanes pass, and long bodies written once.

A short body is written twice, once for the case that all lanes pass its guard. Of a long one only
the accesses are, since LLVM's time goes by the length of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.backends.cpu import rows
from iron.backends.cpu.state import Emitter, components
from iron.backends.cpu.types import scalar
from iron.dtypes import DType
from iron.ir.core import Block, Op, Value
from iron.ir.table import Trait
from iron.ir.types import element

LONG = 64
"""Pure ops from which a guarded body is written once."""


def is_long(op: Op) -> bool:
    """True for an `if` without another side whose body is many pure ops between accesses."""
    then, other = op.regions
    if op.results or len(other.ops) > 1:
        return False
    accesses = sum(o.name in ("load", "store") for o in then.ops)
    inside = [o for o in then.walk() if o.name not in ("yield", "const")]
    pure = sum(o.row.has(Trait.PURE) or o.name == "if" for o in inside)
    return pure >= LONG and pure + accesses == len(inside)


def one_body(e: Emitter, op: Op) -> None:
    """The body for the lanes that pass; accesses ask whether all do and lie in one row.

    Pure ops run for all lanes: what they give to one that did not pass is never stored.
    """
    then = op.regions[0]
    (mask,) = e.names(op.args[0])
    go, some, past = (e.w.fresh(p) for p in ("guarded", "some", "none"))
    with e.nested():
        splits = rows.splits(e, then)
        whole = all_hold(e, op.args[0])
        for split in splits:
            whole = e.w.let(f"and i1 {whole}, {rows.stays_in_row(e, split)}")
        e.w.branch(whole, go, some)
        e.w.label(some)
        e.w.branch(e.w.any(mask, e.lanes), go, past)
        e.w.label(go)
        strides = {v: stride for split in splits for v, stride in split.strides.items()}
        late = _places(then)
        for inner in then.ops:
            if inner.name in ("load", "store"):
                _either_way(e, inner, (whole, mask), strides, late)
            elif inner.name != "yield" and inner not in late:
                e.op(inner)
    e.w.jump(past)
    e.w.label(past)


def _either_way(
    e: Emitter, op: Op, guard: tuple[str, str], strides: dict[Value, int], late: set[Op]
) -> None:
    """An access of all lanes or of those of the mask; its place is found on either way."""
    whole, mask = guard
    cells = [tuple(e.w.cell(e.type(r)) for _ in range(components(r))) for r in op.results]
    full, partial, end = (e.w.fresh(p) for p in ("full", "partial", "accessed"))
    e.w.branch(whole, full, partial)
    for label, held, known in ((full, None, strides), (partial, mask, {})):
        e.w.label(label)
        with e.nested(), e.masked(held), e.strides.assuming(known):
            for place in op.args:
                _make(e, place, late)
            e.op(op)
            for cell, result in zip(cells, op.results, strict=True):
                for c, name in zip(cell, e.names(result), strict=True):
                    e.w.do(f"store {e.type(result)} {name}, ptr {c}")
        e.w.jump(end)
    e.w.label(end)
    for result, cell in zip(op.results, cells, strict=True):
        e.bind(result, tuple(e.w.let(f"load {e.type(result)}, ptr {c}") for c in cell))


def _make(e: Emitter, value: Value, late: set[Op]) -> None:
    """Emits what `value` needs of the ops that were left out."""
    if value.op in late and not e.known(value):
        for operand in value.op.args:
            _make(e, operand, late)
        e.op(value.op)


def _places(body: Block) -> set[Op]:
    """The ops that serve nothing but the indices of accesses."""
    wanted: set[Value] = set()
    found: set[Op] = set()
    for op in reversed(body.ops):
        if op.name in ("load", "store"):
            wanted.update(_values(op))
        elif op.name == "yield" or any(r in wanted for r in op.results):
            wanted.update(op.args)
            wanted.update(a for region in op.regions for o in region.walk() for a in o.args)
        else:
            found.add(op)
    return found


def _values(op: Op) -> Sequence[Value]:
    """The operands of an access that are no indices."""
    return (op.args[0], op.args[-1]) if op.name == "store" else op.args[:1]


def all_hold(e: Emitter, condition: Value) -> str:
    """Whether the condition holds in every lane, as a scalar test of one lane where that does."""
    op = condition.op
    if op is not None and op.name in ("lt", "le", "gt", "ge"):
        found = _extreme_lane_test(e, op)
        if found is not None:
            return found
    (name,) = e.names(condition)
    return e.w.all(name, e.lanes)


def _extreme_lane_test(e: Emitter, op: Op) -> str | None:
    """`a < b` with one side moving towards the other holds in all lanes if in the last one.

    Tested in i64, where nothing wraps: if it holds there, no lane of the side that moves did.
    """
    dtype = element(op.args[0].type)
    left, right = (e.lane_stride(a) for a in op.args)
    if not dtype.is_integer or dtype.bits != 32 or left is None or right is None:
        return None
    if (left == 0) == (right == 0):
        return None
    moving, step = (0, left) if left else (1, right)
    away = left - right if op.name in ("lt", "le") else right - left
    if away < 0:  # the first lane is the last to hold, and later ones may have wrapped
        return None
    first = [grown(e, e.first(a), dtype) for a in op.args]
    last = list(first)
    last[moving] = e.w.let(f"add i64 {first[moving]}, {step * (e.lanes - 1)}")
    return e.w.let(f"icmp s{op.name} i64 {last[0]}, {last[1]}")


def grown(e: Emitter, name: str, dtype: DType) -> str:
    if dtype.bits == 64 or not name.startswith("%"):
        return name
    return e.w.let(f"{'sext' if dtype.kind == 'i' else 'zext'} {scalar(dtype)} {name} to i64")
