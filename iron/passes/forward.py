"""Gives a load the value that this thread stored or loaded there before, without reading again."""

from __future__ import annotations

from collections.abc import Iterable

from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value, const_of, is_const
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.table import Trait
from iron.ir.types import Tensor, Type, count

Place = tuple[Value, tuple[Value, ...], int]  # buffer, indices, elements (0: one scalar)

READ_ONLY = ("in", "table")


def forward(kernel: Kernel) -> Kernel:
    """`kernel` without loads whose value is at hand.

    What is known ends at a write that may hit the same element, and at a barrier or collective,
    since another thread may write between.
    """
    known = _Memory()
    known.block(kernel.body, {})
    if not known.replaced:
        return kernel
    sweep = Sweep({})

    def load(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        value = known.replaced.get(op)
        return None if value is None else (sweep.values[value],)

    sweep.rules = {"load": load}
    return replace_blocks(kernel, body=sweep.block(kernel.body))


class _Memory:
    """One walk: `held` maps places to the value they hold for this thread."""

    def __init__(self) -> None:
        self.replaced: dict[Op, Value] = {}

    def block(self, block: Block, held: dict[Place, Value]) -> None:
        for op in block.ops:
            if op.name == "load":
                self._load(op, held)
            elif op.name == "store":
                self._store(op, held)
            elif op.row.has(Trait.COLLECTIVE):
                _forget(held)
            elif op.regions:
                self._regions(op, held)
            elif op.row.has(Trait.WRITES):
                _drop(held, op.args)

    def _load(self, op: Op, held: dict[Place, Value]) -> None:
        place = (op.args[0], op.args[1:], op.attrs[0])
        value = held.setdefault(place, op.results[0])
        if value is not op.results[0]:
            self.replaced[op] = value

    def _store(self, op: Op, held: dict[Place, Value]) -> None:
        buffer, indices, value = op.args[0], op.args[1:-1], op.args[-1]
        place = (buffer, indices, count(value.type))
        for other in [p for p in held if p[0] is buffer and not _apart(p, place)]:
            del held[other]
        held[place] = value

    def _regions(self, op: Op, held: dict[Place, Value]) -> None:
        inner = [o for region in op.regions for o in region.walk()]
        if any(o.row.has(Trait.COLLECTIVE) for o in inner):
            _forget(held)
        _drop(held, [a for o in inner if o.row.has(Trait.WRITES) for a in o.args])
        for region in op.regions:
            self.block(region, dict(held))


def _drop(held: dict[Place, Value], buffers: Iterable[Value]) -> None:
    gone = set(buffers)
    for place in [p for p in held if p[0] in gone]:
        del held[place]


def _forget(held: dict[Place, Value]) -> None:
    """Drops everything another thread may write."""
    _drop(held, [buffer for buffer, _, _ in held if not _read_only(buffer.type)])


def _read_only(t: Type) -> bool:
    return isinstance(t, Tensor) and t.space in READ_ONLY


def _apart(a: Place, b: Place) -> bool:
    """True for two single elements whose index differs, as constants, on some axis."""
    if a[2] or b[2]:
        return False
    pairs = zip(a[1], b[1], strict=True)
    return any(is_const(i) and is_const(j) and const_of(i) != const_of(j) for i, j in pairs)
