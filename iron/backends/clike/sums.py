"""Sums that products change where they are, instead of in a copy of a variable nobody reads again.

A sum goes from product to product and from turn to turn of a loop. Its variable is taken over where
one op alone reads it and stands in the block that made it, so that it is made anew each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iron.backends.clike.expression import PRIMARY, Expr
from iron.ir.core import Block, Value

if TYPE_CHECKING:
    from iron.backends.clike.render import Renderer

PRODUCTS = frozenset({"simd_mma", "matrix_mma"})


def multiplied(body: Block) -> bool:
    """True for a loop's body with products."""
    return any(op.name in PRODUCTS for op in body.walk())


def variable(r: Renderer, value: Value, stem: str) -> str:
    """A variable that holds `value` and may be changed: its own where only the caller reads it."""
    held = r.changing.get(value)
    if held is not None and r.uses[value] == 1 and value in r.local:
        return held
    return r.variable(value.type, stem, r.expr(value).text)


def bind(r: Renderer, value: Value, name: str) -> None:
    """`value` is what the variable holds from here on, until someone takes it over."""
    r.changing[value] = name
    r.expressions[value] = Expr(name, PRIMARY, frozenset([name]))
