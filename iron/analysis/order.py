"""Which functions of a collective do not mind the order of their two operands."""

from __future__ import annotations

from collections.abc import Collection

from iron.ir.core import Block, Op, Value
from iron.ir.types import element

_EITHER = frozenset({"add", "mul", "and", "or", "xor"})


def either_order(body: Block, signless: Collection[Value]) -> bool:
    """Whether operands may change sides: each is combined with its like, by an op that allows it.

    Sums and products of floats do, up to which of two NaNs comes out, and the greatest of two
    where nobody sees which of two zeros it is (`signless`, from `analysis.zeros`).
    """
    half = len(body.params) // 2
    pairs = {frozenset(pair) for pair in zip(body.params[:half], body.params[half:], strict=True)}

    def allows(op: Op) -> bool:
        if op.name in ("min", "max"):
            return element(op.results[0].type).is_integer or op.results[0] in signless
        return op.name in _EITHER

    return all(allows(op) and frozenset(op.args) in pairs for op in body.ops[:-1])
