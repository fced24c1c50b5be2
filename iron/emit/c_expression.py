"""The manifest's expressions in C: spelled as kernels spell them, with the functions they call.

Integers wrap, division and remainder round towards minus infinity and are 0 for a divisor of 0, as
everywhere in the language; the text is C11 and needs no library of Iron.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from iron.backends.clike.expression import BOTH, UNARY, Expr, constant, spell
from iron.backends.clike.functions import shared_functions
from iron.dtypes import by_name
from iron.emit.expression import Node, leaf
from iron.ir import ops as _rows  # noqa: F401  # pyright: ignore[reportUnusedImport]  fills the table
from iron.ir.core import Op, Value
from iron.ir.table import TABLE

C_TYPES: Final = {
    "bool": "bool",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "f32": "float",
}
"""How a dtype is passed in C; 16-bit floats are passed as their bits."""

TYPEDEFS: Final = "\n".join(
    f"typedef {c} {name};" for name, c in C_TYPES.items() if name not in ("bool",)
)

_STATIC: Final = "static inline "
_FUNCTIONS: Final = {
    "iron_f32_to_bits": "u32 iron_f32_to_bits(f32 x) { u32 y; memcpy(&y, &x, 4); return y; }",
    "iron_bits_to_f32": "f32 iron_bits_to_f32(u32 x) { f32 y; memcpy(&y, &x, 4); return y; }",
    "iron_f16_to_f32": "f32 iron_f16_to_f32(f16 x) { _Float16 y; memcpy(&y, &x, 2); return y; }",
    "iron_f32_to_f16": """f16 iron_f32_to_f16(f32 x) {
  const _Float16 y = (_Float16)x;
  f16 bits;
  memcpy(&bits, &y, 2);
  return bits;
}""",
    "iron_fma_f32": "f32 iron_fma_f32(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }",
    **{
        f"iron_{name}_f32": f"f32 iron_{name}_f32(f32 x) {{ return {name}f(x); }}"
        for name in ("sqrt", "rint", "floor", "ceil", "trunc")
    },
}
FUNCTIONS: Final = {
    **{name: _STATIC + body for name, body in _FUNCTIONS.items()},
    **shared_functions(_STATIC),
}
"""Every function that an expression may call, callees before callers."""


def c_text(
    node: Node, name: Callable[[str], str] = str, place: Callable[[Node], str] = leaf
) -> str:
    """The expression; `name` gives the C identifier of a parameter, `place` the text of a tensor's
    address or stride."""
    return _expr(node, name, place).text


def c_conditions(
    nodes: Iterable[Node], name: Callable[[str], str], place: Callable[[Node], str]
) -> list[str]:
    """Conditions as `&&` takes them; a single one as it is."""
    made = [_expr(node, name, place) for node in nodes]
    return [e.at(BOTH if len(made) > 1 else 0) for e in made]


def _expr(node: Node, name: Callable[[str], str], place: Callable[[Node], str]) -> Expr:
    dtype = by_name(node["type"])
    if "parameter" in node:
        return Expr(name(node["parameter"]))
    if "address" in node or "stride" in node:
        return Expr(place(node), UNARY)
    if "constant" in node:
        return constant(_value(node["constant"], dtype.np.type), dtype, "ll")
    args = tuple(Value(by_name(a["type"])) for a in node["args"])
    attrs = (dtype,) if TABLE[node["op"]].attrs else ()
    op = Op(TABLE[node["op"]], args, attrs)
    return spell(
        op, by_name(node["args"][-1]["type"]), [_expr(a, name, place) for a in node["args"]]
    )


def _value(given: Any, make: Callable[[Any], Any]) -> Any:
    return make(float(given) if isinstance(given, str) else given)


def definitions(text: str) -> Iterator[str]:
    """The functions that `text` calls, directly or not, in an order that C accepts."""
    reached: set[str] = set()
    waiting = _called(text)
    while waiting:
        found = waiting.pop()
        if found in FUNCTIONS and found not in reached:
            reached.add(found)
            waiting |= _called(FUNCTIONS[found])
    return (body for name, body in FUNCTIONS.items() if name in reached)


def _called(text: str) -> set[str]:
    return set(re.findall(r"\biron_\w+", text))
