"""Products of a simdgroup as CUDA text: `mma.sync`.

Source: PTX ISA 9.0, "Warp-level Matrix Instructions: mma".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iron.backends.clike.expression import Expr
from iron.ir.core import Op
from iron.ir.ops.matrix import TOTALS, WORDS
from iron.ir.types import element

if TYPE_CHECKING:
    from iron.backends.clike.render import Renderer

FORMATS = {
    "f16": ("m16n8k16", "f16"),
    "bf16": ("m16n8k16", "bf16"),
    "tf32": ("m16n8k8", "tf32"),
    "i8": ("m16n8k32", "s8"),
    "u8": ("m16n8k32", "u8"),
}
"""Shape and name of operands in PTX."""


def instruction(elem: str) -> str:
    """The statement that adds a product to c0 .. c3."""
    (shape, ptx), total = FORMATS[elem], TOTALS[elem]
    held, kind = ("f32", "f") if total.is_float else ("s32", "r")
    sums = ", ".join(f'"+{kind}"(c{i})' for i in range(4))
    words = ", ".join(f'"r"({w})' for w in ("a0", "a1", "a2", "a3", "b0", "b1"))
    return (
        f'asm volatile("mma.sync.aligned.{shape}.row.col.{held}.{ptx}.{ptx}.{held} "\n'
        '      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"\n'
        f"      : {sums}\n      : {words});"
    )


def _function(elem: str) -> str:
    t = TOTALS[elem]
    return f"""
IRON_DEVICE void iron_mma_{elem}({t}& c0, {t}& c1, {t}& c2, {t}& c3, u32 a0, u32 a1, u32 a2,
                                 u32 a3, u32 b0, u32 b1) {{
  {instruction(elem)}
}}"""


FUNCTIONS = {f"iron_mma_{elem}": _function(elem) for elem in FORMATS}


def simd_mma(r: Renderer, op: Op) -> None:
    """The sums become variables that the product changes."""
    words = [r.expr(w).text for w in op.args[:WORDS]]
    names = [
        r.variable(element(s.type), result.name or "sum", r.expr(s).text)
        for s, result in zip(op.args[WORDS:], op.results, strict=True)
    ]
    r.line(f"iron_mma_{op.attr('elem')}({', '.join([*names, *words])});")
    for name, result in zip(names, op.results, strict=True):
        r.expressions[result] = Expr(name)


RULES: dict[str, Callable[[Renderer, Op], None]] = {"simd_mma": simd_mma}
