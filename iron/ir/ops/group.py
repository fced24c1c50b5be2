"""Group rows: who this thread is, and what the threads of a group do together.

Reductions and scans carry the combining function as a region, and their order is part of their
meaning at a given simd width W. Let P be the collective's width.

A reduction combines min(P, W) neighbouring lanes by an exclusive-or butterfly, the lower lane's
operand first, then the totals of simdgroups from left to right. A scan combines min(P, W)
neighbouring lanes by doubling distances 1, 2, 4, .., the lower lane's operand first; an exclusive
one then shifts by a lane, its unit entering at the left. When P exceeds W, every value of a
simdgroup is combined with the simdgroup's base, base first: the base is the unit for a run's first
simdgroup, and for each next one the previous base combined with the previous total.
"""

from collections.abc import Sequence
from typing import Any

from iron.dtypes import bool_, u64
from iron.ir.core import Block, Value
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import Tensor, Tile, Type

TOGETHER = Trait.COLLECTIVE | Trait.REGION


def _index(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    return (attrs[-1],)


def _nothing(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    return ()


def _reduce(
    args: Sequence[Value], attrs: tuple[Any, ...], regions: Sequence[Block]
) -> tuple[Type, ...]:
    return _combined(args, regions[0])


def _scan(
    args: Sequence[Value], attrs: tuple[Any, ...], regions: Sequence[Block]
) -> tuple[Type, ...]:
    half = len(args) // 2
    if tuple(a.type for a in args[:half]) != tuple(a.type for a in args[half:]):
        raise OpTypeError("each scanned value needs a unit of its type")
    return _combined(args[:half], regions[0])


def _combined(args: Sequence[Value], body: Block) -> tuple[Type, ...]:
    types = tuple(a.type for a in args)
    if not types or any(isinstance(t, Tensor | Tile) for t in types):
        raise OpTypeError("combines the values of threads")
    if tuple(p.type for p in body.params) != types + types:
        raise OpTypeError("the function takes the values of two threads")
    if tuple(v.type for v in body.yielded) != types:
        raise OpTypeError("the function returns what it takes from one thread")
    return types


def _exchange(
    args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]
) -> tuple[Type, ...]:
    if isinstance(args[0].type, Tensor | Tile):
        raise OpTypeError("exchanges the values of threads")
    return (args[0].type,)


def _ballot(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    if args[0].type is not bool_:
        raise OpTypeError(f"needs bool, got {args[0].type}")
    return (u64,)


thread = defop(
    "thread",
    attrs="dtype",
    infer=_index,
    traits=Trait.PURE,
    doc="This thread's number in its group: simdgroup x simd width + lane.",
)
group = defop(
    "group",
    attrs="axis dtype",
    infer=_index,
    traits=Trait.PURE,
    doc="This group's number along a launch axis.",
)
barrier = defop(
    "barrier",
    infer=_nothing,
    traits=Trait.COLLECTIVE | Trait.READS | Trait.WRITES,
    doc="Every thread of the group arrives before any goes on; earlier writes are seen after it.",
)
reduce = defop(
    "reduce",
    "x*",
    attrs="width",
    infer=_reduce,
    traits=TOGETHER,
    regions=1,
    doc="Combines the values of each aligned run of `width` threads (0: the group) for all.",
)
scan = defop(
    "scan",
    "x* unit*",
    attrs="width exclusive",
    infer=_scan,
    traits=TOGETHER,
    regions=1,
    doc="Running combination over each aligned run of `width` threads, in thread order.",
)
exchange = defop(
    "exchange",
    "x",
    attrs="mask",
    infer=_exchange,
    traits=Trait.COLLECTIVE,
    doc="The value of thread `thread ^ mask`.",
)
ballot = defop(
    "ballot",
    "x",
    infer=_ballot,
    traits=Trait.COLLECTIVE,
    doc="Bit l is x of lane l of this thread's simdgroup.",
)
