"""Contracts a product and the sum it feeds into one fused multiply-add, unless either is exact.

This is part of the language's meaning, so it runs once, first, for every backend and for the
interpreter; every pass after it keeps each bit.
"""

from __future__ import annotations

from iron.dtypes import f32
from iron.ir.build import Builder
from iron.ir.core import Kernel, Op, Value, tiled
from iron.ir.rebuild import rebuild
from iron.ir.types import element
from iron.passes.dead import dead


def fuse(kernel: Kernel) -> Kernel:
    """`kernel` with a * b + c as fma(a, b, c); of two products the left one is contracted.

    Of tiles, the products that nothing else reads go: readers decide where a tile lives.
    """
    made = rebuild(kernel, {"add": _add, "sub": _sub})
    return dead(made) if tiled(kernel) else made


def _product(b: Builder, value: Value) -> tuple[Value, Value] | None:
    """The factors of a product, which may be one element of a product of vectors."""
    op = value.op
    if op is None or element(value.type) is not f32:
        return None
    if op.name == "extract":
        whole = op.args[0].op
        if whole is None or whole.name != "mul" or whole.exact:
            return None
        x, y = (b.emit("extract", a, attrs=op.attrs) for a in whole.args)
        return x, y
    return (op.args[0], op.args[1]) if op.name == "mul" and not op.exact else None


def _add(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
    if op.exact:
        return None
    for product, other in (args, args[::-1]):
        if (factors := _product(b, product)) is not None:
            return (b.emit("fma", *factors, other),)
    return None


def _sub(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
    if op.exact:
        return None
    left, right = args
    if (factors := _product(b, left)) is not None:
        return (b.emit("fma", *factors, b.emit("neg", right)),)
    if (factors := _product(b, right)) is not None:
        return (b.emit("fma", b.emit("neg", factors[0]), factors[1], left),)
    return None
