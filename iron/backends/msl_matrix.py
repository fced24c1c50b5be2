"""Opaque matrices as Metal text: `simdgroup_matrix` and its functions.

Source: Metal Shading Language Specification 3.2, "SIMD-group Matrix Data Types" and "SIMD-group
Matrix Functions". Operands of 16 bits with sums of f32 are no example there; source of that:
llama.cpp, ggml/src/ggml-metal/ggml-metal.metal, `kernel_mul_mm`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iron.backends.clike import memory, sums
from iron.backends.clike.expression import SUM, Expr
from iron.ir.core import Op, Value
from iron.ir.types import Matrix, Tensor, Type, element

if TYPE_CHECKING:
    from iron.backends.clike.render import Renderer

ELEMENTS = {"f16": "half", "bf16": "bfloat", "f32": "float"}
"""Metal's own names: in the text, f16 and bf16 are bits."""
MEETS = frozenset(
    {
        *("make_filled_simdgroup_matrix", "simdgroup_load", "simdgroup_store"),
        "simdgroup_multiply_accumulate",
    }
)


def spelled(t: Type) -> str:
    """The name of a value's type."""
    if isinstance(t, Matrix):
        return f"simdgroup_{ELEMENTS[t.elem.name]}{t.rows}x{t.columns}"
    return str(t)


def _place(
    r: Renderer, buffer: Value, indices: tuple[Value, ...], held: Type, *, read: bool
) -> str:
    """A pointer to a matrix's first element, and the elements from row to row; an array of words
    holds several in each."""
    t, elem = buffer.type, element(held)
    assert isinstance(t, Tensor)
    kind = f"{'const ' if read else ''}threadgroup {ELEMENTS[elem.name]}*"
    at = memory.address(r, buffer, indices).at(SUM)
    stride = t.shape[-1] * (t.elem.bytes // elem.bytes)
    return f"({kind})({r.expr(buffer).text} + {at}), {stride}"


def matrix_full(r: Renderer, op: Op) -> None:
    """Every lane gives the number."""
    (result,) = op.results
    t = result.type
    assert isinstance(t, Matrix)
    made = f"make_filled_simdgroup_matrix<{ELEMENTS[t.elem.name]}, {t.rows}, {t.columns}>"
    name = r.variable(t, result.name or "matrix", f"{made}({r.expr(op.args[0]).text})")
    sums.bind(r, result, name)


def matrix_load(r: Renderer, op: Op) -> None:
    """Into a variable."""
    (result,), buffer = op.results, op.args[0]
    name = r.variable(result.type, result.name or f"{r.expr(buffer).text}_part")
    turned = ", ulong2(0), true" if op.attr("turned") else ""
    r.line(
        f"simdgroup_load({name}, {_place(r, buffer, op.args[1:], result.type, read=True)}{turned});"
    )
    r.expressions[result] = Expr(name)


def matrix_store(r: Renderer, op: Op) -> None:
    """As it is."""
    buffer, *indices, value = op.args
    held = r.expr(value).text
    r.line(f"simdgroup_store({held}, {_place(r, buffer, tuple(indices), value.type, read=False)});")


def matrix_mma(r: Renderer, op: Op) -> None:
    """The sums become a variable that the product changes."""
    (result,) = op.results
    a, b = (r.expr(v).text for v in op.args[:2])
    name = sums.variable(r, op.args[2], result.name or "sum")
    r.line(f"simdgroup_multiply_accumulate({name}, {a}, {b}, {name});")
    sums.bind(r, result, name)


RULES: dict[str, Callable[[Renderer, Op], None]] = {
    rule.__name__: rule for rule in (matrix_full, matrix_load, matrix_store, matrix_mma)
}
