"""The manifest's expressions in Swift: what sizes and preconditions are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from iron.dtypes import DType, by_name
from iron.emit.expression import Node
from iron.errors import error

SWIFT_TYPES: Final = {
    "bool": "Bool",
    "i8": "Int8",
    "i16": "Int16",
    "i32": "Int32",
    "i64": "Int64",
    "u8": "UInt8",
    "u16": "UInt16",
    "u32": "UInt32",
    "u64": "UInt64",
    "f16": "UInt16",
    "bf16": "UInt16",
    "f32": "Float",
}
"""How a dtype is passed in Swift; 16-bit floats are passed as their bits."""

# (precedence, integers, floats); a higher number binds tighter.
_INFIX: Final[dict[str, tuple[int, str, str]]] = {
    "eq": (3, "==", "=="),
    "ne": (3, "!=", "!="),
    "lt": (3, "<", "<"),
    "le": (3, "<=", "<="),
    "gt": (3, ">", ">"),
    "ge": (3, ">=", ">="),
    "add": (5, "&+", "+"),
    "sub": (5, "&-", "-"),
    "mul": (6, "&*", "*"),
    "div": (6, "/", "/"),
}
_TRUTH: Final = {"and": (2, "&&"), "or": (1, "||"), "xor": (3, "!=")}
_BITS: Final = {"and": (6, "&"), "or": (5, "|"), "xor": (5, "^")}
_CALLS: Final = {"floordiv": "quotient", "mod": "modulo"}
ATOM: Final = 9


def swift_text(node: Node, name: Callable[[str], str] = str) -> str:
    """The expression; `name` gives the Swift identifier of a parameter.

    Raises E0602 for an op that no size or precondition of the library uses.
    """
    return _text(node, name)[1]


def _text(node: Node, name: Callable[[str], str]) -> tuple[int, str]:
    if "parameter" in node:
        return ATOM, name(node["parameter"])
    if "constant" in node:
        return _constant(node["constant"], node["type"])
    args = [_text(a, name) for a in node["args"]]
    op, of = node["op"], by_name(node["args"][-1]["type"])
    infix = _operator(op, of.kind)
    if infix is not None:
        level, sign = infix
        # Comparisons do not chain; the others associate to the left.
        left = _at(args[0], level + (level == _INFIX["eq"][0]))
        return level, f"{left} {sign} {_at(args[1], level + 1)}"
    made = _call(op, node["type"], of, args) or _other(op, of, args)
    if made is None:
        told = f"a precondition uses `{op}` on {of}, which the Swift host cannot say"
        raise error("E0602", told)
    return made


def _call(op: str, to: str, of: DType, args: list[tuple[int, str]]) -> tuple[int, str] | None:
    """A conversion or a function of integers."""
    if op == "cast" and by_name(to).is_integer:
        if of.is_integer:
            return ATOM, f"{SWIFT_TYPES[to]}(truncatingIfNeeded: {args[0][1]})"
        if of.kind == "b":
            return 0, f"{_at(args[0], 1)} ? 1 : 0"
    if of.is_integer and op in ("floordiv", "mod", "min", "max"):
        return ATOM, f"{_CALLS.get(op, op)}({args[0][1]}, {args[1][1]})"
    return None


def _other(op: str, of: DType, args: list[tuple[int, str]]) -> tuple[int, str] | None:
    """A choice or a sign."""
    if op == "where":
        return 0, f"{_at(args[0], 1)} ? {_at(args[1], 1)} : {_at(args[2], 0)}"
    if op == "neg":
        return (5, f"0 &- {_at(args[0], 6)}") if of.is_integer else (8, f"-{_at(args[0], ATOM)}")
    if op == "not" and of.kind == "b":
        return 8, f"!{_at(args[0], ATOM)}"
    return None


def _operator(op: str, kind: str) -> tuple[int, str] | None:
    """Precedence and sign of an op that stands between its operands."""
    if op in _TRUTH:
        return _TRUTH[op] if kind == "b" else _BITS[op]
    if op not in _INFIX or (op == "div" and kind != "f"):
        return None
    level, whole, real = _INFIX[op]
    return level, real if kind in "fb" else whole


def _constant(value: Any, dtype: str) -> tuple[int, str]:
    if dtype == "bool":
        return ATOM, "true" if value else "false"
    if dtype == "f32" and isinstance(value, str):
        sign = "-" if value.startswith("-") else ""
        return ATOM, f"{sign}Float.{'nan' if 'nan' in value else 'infinity'}"
    return (ATOM if value >= 0 else 8), repr(value)


def _at(side: tuple[int, str], least: int) -> str:
    return side[1] if side[0] >= least else f"({side[1]})"
