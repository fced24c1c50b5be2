"""Neighbouring reductions of one kind share their steps: as one halves, another fills its place.

A reduction alone keeps a whole register busy down to its last lane. Two of them, once each fits a
register, are one register of pairs; four of those are one again. Each sum is the one it would be.
"""

from __future__ import annotations

from collections.abc import Iterator

from iron.backends.cpu import arith
from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter, Names
from iron.ir.core import Op
from iron.ir.table import Trait
from iron.ir.types import Tensor, element

REGISTER = 64
"""Bytes of a vector register on AVX-512; the shuffles of other CPUs take no two of theirs."""


def reduced(e: Emitter, op: Op) -> Names | None:
    """The total of `op` over all lanes; those of its neighbours are recorded on the way.

    None where it has no neighbour of its kind, or is of a kind that cannot be shared.
    """
    if not e.target.has("avx512") or _kind(op) is None:
        return None
    most = REGISTER // element(op.args[0].type).bytes
    ops = [op, *_neighbours(e, op)][:most]
    if len(ops) == 1 or e.lanes < most:
        return None
    totals = _totals(e, ops, most)
    for one, total in zip(ops, totals, strict=True):
        names = total
        if e.varies(one.results[0]):
            names = e.w.splat(total, e.view(one.results[0]).ll, e.lanes)
        e.bind(one.results[0], (names,))
    return e.scope.names[op.results[0]]


def _kind(op: Op) -> tuple[object, ...] | None:
    """What neighbours have in common: a function of one elementwise op on scalars."""
    if len(op.args) != 1 or isinstance(op.args[0].type, Tensor):
        return None
    dtype, region = element(op.args[0].type), op.regions[0]
    first = region.ops[0]
    if dtype is not op.args[0].type or dtype.kind == "b" or dtype.bytes < 4:
        return None
    if len(region.ops) != 2 or not first.row.has(Trait.ELEMENTWISE):
        return None
    if first.args != region.params or region.yielded != first.results:
        return None
    return first.name, dtype, op.attrs


def _neighbours(e: Emitter, op: Op) -> Iterator[Op]:
    """The reductions right after `op` that are of its kind and whose operands are there."""
    for other in e.following:
        if other.name == "const":
            continue
        if other.name != "reduce" or _kind(other) != _kind(op):
            return
        operand = other.args[0]
        if not e.known(operand) or not e.varies(operand):
            return
        yield other


def _totals(e: Emitter, ops: list[Op], register: int) -> list[str]:
    function, dtype = ops[0].regions[0].ops[0], element(ops[0].args[0].type)
    width = e.lanes
    vectors = [e.names(one.args[0], width)[0] for one in ops]

    def combined(a: str, b: str, lanes: int) -> str:
        return arith.spell(Lanes(e.w, dtype, lanes), function, [a, b])

    def every(start: int, lanes: int) -> list[int]:
        return list(range(start, lanes, 2))

    ll = Lanes(e.w, dtype, 1).ll
    while width > register:
        halves = [[e.w.pick(v, ll, width, every(s, width)) for s in (0, 1)] for v in vectors]
        width //= 2
        vectors = [combined(low, high, width) for low, high in halves]
    each = width
    while len(vectors) > 1:
        vectors += vectors[-1:] * (len(vectors) % 2)
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        vectors = [
            combined(*(e.w.pick(a, ll, width, every(s, 2 * width), b) for s in (0, 1)), width)
            for a, b in pairs
        ]
        each //= 2
    (whole,) = vectors
    held = 1
    while held < each:
        partner = e.w.pick(whole, ll, width, [i ^ held for i in range(width)])
        whole = combined(whole, partner, width)
        held *= 2
    return [e.w.pick(whole, ll, width, [number * each]) for number in range(len(ops))]
