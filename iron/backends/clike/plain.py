"""Ops that C's own operators compute, by what is known of the operands.

Signed overflow, division by zero and long shifts are undefined in C; the functions that guard
against them are left out where they cannot happen.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.analysis.ranges import Ranges
from iron.backends.clike.expression import PRODUCT, SHIFT, SUM, UNARY, Expr
from iron.dtypes import DType
from iron.ir.core import Op

_EXACT = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT)}
_POSITIVE = {"floordiv": "/", "mod": "%"}
_SHIFTS = {"shl": "<<", "shr": ">>"}


def plain(op: Op, dtype: DType, args: Sequence[Expr], known: Ranges) -> Expr | None:
    """The op as an operator; None where only a function will do."""
    if not dtype.is_integer or dtype.bits < 32:
        return None
    reads = frozenset(name for a in args for name in a.reads)
    if op.name in _EXACT and dtype.kind == "i" and op in known.exact:
        symbol, level = _EXACT[op.name]
        if symbol == "+" and args[1].text.startswith("-") and args[1].level == UNARY:
            return Expr(f"{args[0].at(SUM)} - {args[1].text[1:]}", SUM, reads)
        return Expr(f"{args[0].at(level)} {symbol} {args[1].at(level + 1)}", level, reads)
    if op.name in _POSITIVE and _positive(op, known):
        text = f"{args[0].at(PRODUCT)} {_POSITIVE[op.name]} {args[1].at(UNARY)}"
        return Expr(text, PRODUCT, reads)
    if op.name in _SHIFTS and _short(op, dtype, known):
        return Expr(f"{args[0].at(UNARY)} {_SHIFTS[op.name]} {args[1].at(UNARY)}", SHIFT, reads)
    return None


def _positive(op: Op, known: Ranges) -> bool:
    a, b = known.at(op, 0), known.at(op, 1)
    return a is not None and b is not None and a.low >= 0 and b.low > 0


def _short(op: Op, dtype: DType, known: Ranges) -> bool:
    """A count from 0 to below the width; a signed value is shifted to the right only."""
    count = known.at(op, 1)
    if count is None or (op.name == "shl" and dtype.kind == "i"):
        return False
    return count.low >= 0 and count.high < dtype.bits
