"""Makes one wide access of accesses to neighbouring elements, in a kernel without vectors.

Runs after `scalarise`. Loads join the first of their run, stores the last; nothing but pure ops,
and for loads other loads, stands between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value, const_of, is_const
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.table import Trait
from iron.ir.types import MAX_VECTOR, Tensor, count


def combine(kernel: Kernel, most: Callable[[Op], int] = lambda _: MAX_VECTOR) -> Kernel:
    """`kernel` with the runs of neighbours in each block joined.

    A run that begins with some access holds at most so many elements as `most` says of it.
    """
    joined = _Combine(most)
    joined.find(kernel.body)
    if not joined.loads and not joined.stores:
        return kernel
    return replace_blocks(kernel, body=joined.sweep.block(kernel.body))


@dataclass(slots=True)
class Run:
    """Accesses of one buffer and outer indices whose last indices follow each other."""

    key: tuple[object, ...]
    low: int
    most: int
    ops: list[tuple[int, Op]] = field(default_factory=list[tuple[int, Op]])

    @property
    def size(self) -> int:
        """Elements in all."""
        return sum(_width(op) for _, op in self.ops)


class _Combine:
    """The joined runs by their members, and the sweep that writes them."""

    def __init__(self, most: Callable[[Op], int]) -> None:
        self.most = most
        self.loads: dict[Op, Run] = {}
        self.stores: dict[Op, Run] = {}
        self.made: dict[int, Value] = {}
        self.left: dict[int, int] = {}
        rules = {"load": self.load, "store": self.store, "extract": self.extract}
        self.sweep = Sweep(rules, fold=False)  # a pack of parts in order would fold to the load

    # --- finding ----------------------------------------------------------------------------------

    def find(self, block: Block) -> None:
        """The runs of a block and of the regions in it."""
        reads: dict[object, list[Op]] = {}
        writes: list[Op] = []
        for op in block.ops:
            if op.name == "load":
                self._close(writes)
                reads.setdefault(_key(op), []).append(op)
            elif op.name == "store":
                for run in reads.values():
                    self._join(run, self.loads)
                reads = {}
                if writes and _key(writes[0]) != _key(op):
                    self._close(writes)
                writes.append(op)
            elif not op.row.has(Trait.PURE):
                for run in reads.values():
                    self._join(run, self.loads)
                reads = {}
                self._close(writes)
            for region in op.regions:
                self.find(region)
        for run in reads.values():
            self._join(run, self.loads)
        self._close(writes)

    def _close(self, writes: list[Op]) -> None:
        self._join(writes, self.stores)
        writes.clear()

    def _join(self, ops: Sequence[Op], into: dict[Op, Run]) -> None:
        """Cuts accesses of one key, in any order, into runs of neighbours."""
        placed = sorted(((_last(op)[1], n, op) for n, op in enumerate(ops)), key=lambda p: p[:2])
        run: Run | None = None
        for at, _, op in placed:
            if run is not None and at == run.low + run.size and run.size + _width(op) <= run.most:
                run.ops.append((run.size, op))
            else:
                self._keep(run, into)
                run = Run(_key(op), at, min(MAX_VECTOR, self.most(op)), [(0, op)])
        self._keep(run, into)

    def _keep(self, run: Run | None, into: dict[Op, Run]) -> None:
        if run is not None and len(run.ops) > 1:
            into.update((op, run) for _, op in run.ops)
            self.left[id(run)] = len(run.ops)

    # --- writing ----------------------------------------------------------------------------------

    def load(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """The first of a run loads all; each member gets its part."""
        run = self.loads.get(op)
        if run is None:
            return None
        if id(run) not in self.made:
            first = run.ops[0][1]
            (whole,) = b.emit_all("load", self._place(b, first, op, args), (run.size,))
            whole.name = first.results[0].name
            self.made[id(run)] = whole
        whole = self.made[id(run)]
        if count(op.results[0].type):
            return (whole,)  # its parts are taken by `extract`, which knows the offset
        offset = next(at for at, member in run.ops if member is op)
        return (b.emit("extract", whole, attrs=(offset,)),)

    def extract(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """A part of a load that a run has taken in."""
        source = op.args[0].op
        run = self.loads.get(source) if source is not None else None
        if run is None:
            return None
        offset = next(at for at, member in run.ops if member is source)
        return (b.emit("extract", args[0], attrs=(offset + op.attrs[0],)),)

    def store(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """The last of a run, as the program goes, stores all."""
        run = self.stores.get(op)
        if run is None:
            return None
        self.left[id(run)] -= 1
        if self.left[id(run)]:
            return ()
        parts: list[Value] = []
        for _, member in run.ops:
            value = member.args[-1]
            inner = value.op.args if count(value.type) and value.op is not None else (value,)
            parts += [self.sweep.values[v] for v in inner]
        place = self._place(b, run.ops[0][1], op, args[:-1])
        b.emit_all("store", (*place, b.emit("pack", *parts)))
        return ()

    def _place(self, b: Builder, first: Op, op: Op, args: Sequence[Value]) -> tuple[Value, ...]:
        """Buffer and indices of the run's lowest member, `first`, where `op` stands."""
        last = _index(first)
        found = self.sweep.values.get(last)
        if found is None:
            base, offset = _last(first)
            start = self.sweep.values[base] if base is not None else None
            number = b.const(offset, last.type)
            found = number if start is None else b.emit("add", start, number)
        return (*args[: len(args) - 1], found)


def _width(op: Op) -> int:
    return max(1, count(op.results[0].type if op.name == "load" else op.args[-1].type))


def _index(op: Op) -> Value:
    """The last index of an access."""
    return op.args[-1] if op.name == "load" else op.args[-2]


def _last(op: Op) -> tuple[Value | None, int]:
    """The last index as a value and a constant."""
    index = _index(op)
    if is_const(index):
        return None, int(const_of(index))
    made = index.op
    if made is not None and made.name == "add":
        for value, by in (made.args, made.args[::-1]):
            if is_const(by):
                return value, int(const_of(by))
    return index, 0


def _key(op: Op) -> tuple[object, ...]:
    """What accesses of one run share; an access without an axis is alone."""
    place = op.args[0].type
    assert isinstance(place, Tensor)
    indices = op.args[1:] if op.name == "load" else op.args[1:-1]
    if not indices or not place.packed or place.space not in ("in", "out", "inout"):
        return (op,)
    return (op.name, op.args[0], *indices[:-1], _last(op)[0])
