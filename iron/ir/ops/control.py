"""Control rows: counted loops, conditionals and the terminator of their regions."""

from collections.abc import Sequence
from typing import Any

from iron.dtypes import bool_, i32, i64, u32
from iron.ir.core import Block, Value
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import Type


def _for(
    args: Sequence[Value], attrs: tuple[Any, ...], regions: Sequence[Block]
) -> tuple[Type, ...]:
    counter = args[0].type
    if counter not in (i32, u32, i64) or any(a.type is not counter for a in args[:3]):
        raise OpTypeError(f"loop bounds are {[str(a.type) for a in args[:3]]}")
    types = tuple(a.type for a in args[3:])
    (body,) = regions
    if tuple(p.type for p in body.params) != (counter, *types):
        raise OpTypeError("the body's parameters are the counter and the carried values")
    stop = (bool_,) if attrs[0] else ()
    if tuple(v.type for v in body.yielded) != (*stop, *types):
        raise OpTypeError("the body yields what it carries")
    return types


def _if(
    args: Sequence[Value], attrs: tuple[Any, ...], regions: Sequence[Block]
) -> tuple[Type, ...]:
    if args[0].type is not bool_:
        raise OpTypeError(f"condition is {args[0].type}, not bool")
    then, other = (tuple(v.type for v in r.yielded) for r in regions)
    if then != other:
        raise OpTypeError(f"the sides yield {then} and {other}")
    return then


def _yield(
    args: Sequence[Value], attrs: tuple[Any, ...], regions: Sequence[Block]
) -> tuple[Type, ...]:
    return ()


for_ = defop(
    "for",
    "low high step init*",
    attrs="stop stages",
    defaults=(0,),
    infer=_for,
    traits=Trait.REGION,
    regions=1,
    doc=(
        "Runs the body for low, low + step, .. below high, carrying values; the step is >= 1. "
        "With `stop` the body yields a bool first, and true ends the loop after that turn. "
        "`stages` (0: none) promises that tile reads whose place depends only on the counter and "
        "on values from outside may start that many turns early."
    ),
)
if_ = defop(
    "if",
    "condition",
    infer=_if,
    traits=Trait.REGION,
    regions=2,
    doc="Runs one side; its results are what that side yields.",
)
yield_ = defop(
    "yield", "value*", infer=_yield, traits=Trait.TERMINATOR, doc="Ends a region with its results."
)
