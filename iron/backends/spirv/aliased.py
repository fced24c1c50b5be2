"""Which bindings a module says may be one memory.

Of bindings that say nothing a compiler may assume that each has memory of its own (SPIR-V 1.6,
2.18.2): it may move a load behind a store. A launch may give an output the memory of an input
whose elements are read before they are written. That order has to be said where the stored numbers
do not wait for the loads anyway, as they do in y[i] = f(x[i]).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from iron.analysis.accesses import places
from iron.analysis.effects import in_place
from iron.analysis.places import Places
from iron.ir.core import Kernel, Op, Value, carried
from iron.ir.types import Tensor

Accesses = dict[Value, list[Op]]


def aliased(kernel: Kernel) -> frozenset[Value]:
    """The tensors of pairs (output, input) that may be one memory, where a store could overtake a
    load of the input."""
    names = {v: p.name for p, v in zip(kernel.params, kernel.body.params, strict=True)}
    reads, writes = accesses(kernel, names)
    pairs = [(out, given) for out, given in product(writes, reads) if _alike(out, given)]
    if not pairs:
        return frozenset()
    sources = Sources(kernel)
    late = [
        (out, given)
        for out, given in pairs
        if not all(sources.of(store).issuperset(reads[given]) for store in writes[out])
    ]
    if not late:
        return frozenset()
    allowed, found = in_place(kernel), places(kernel)
    return frozenset(
        value
        for pair in late
        if (named := (names[pair[0]], names[pair[1]])) in allowed
        and _overtakes(found, *named, sources)
        for value in pair
    )


def _overtakes(found: Places, out: str, given: str, sources: Sources) -> bool:
    """Whether a store does not wait for a load of the element that it writes."""
    return any(
        read.op not in sources.of(write.op) and not found.apart(read, write)
        for read in found.accesses[given] or ()
        for write in found.accesses[out] or ()
    )


def accesses(kernel: Kernel, tensors: Iterable[Value]) -> tuple[Accesses, Accesses]:
    """The loads of inputs and the stores to outputs."""
    known = set(tensors)
    reads, writes = Accesses(), Accesses()
    for op in kernel.body.walk():
        if op.name in ("load", "store") and op.args[0] in known:
            (reads if op.name == "load" else writes).setdefault(op.args[0], []).append(op)
    return reads, writes


def _alike(out: Value, given: Value) -> bool:
    x, y = out.type, given.type
    return (
        isinstance(x, Tensor)
        and isinstance(y, Tensor)
        and (x.space, y.space, x.elem, x.rank) == ("out", "in", y.elem, y.rank)
    )


class Sources:
    """The loads that an op waits for, by what its operands are made of."""

    def __init__(self, kernel: Kernel) -> None:
        self._owners: dict[Value, tuple[Op, int]] = {}
        for op in kernel.body.walk():
            for region in op.regions:
                self._owners |= {p: (op, number) for number, p in enumerate(region.params)}

    def of(self, op: Op) -> set[Op]:
        """The loads behind all operands of an op."""
        found: set[Op] = set()
        seen, left = set[Value](), list(op.args)
        while left:
            value = left.pop()
            if value in seen:
                continue
            seen.add(value)
            if value.op is not None and value.op.name == "load":
                found.add(value.op)
            left += self._made_of(value)
        return found

    def _made_of(self, value: Value) -> Iterable[Value]:
        op, number = value.op, 0
        if op is None:
            if value not in self._owners:  # a parameter of the kernel
                return ()
            op, number = self._owners[value]
            if op.name != "for" or number == 0:
                return op.args[:3] if op.name == "for" else op.args
            number -= 1
        elif op.name == "for":
            number = op.results.index(value)
        if op.name == "for":
            return op.args[3 + number], carried(op)[number]
        return (*op.args, *(v for region in op.regions for v in region.yielded))
