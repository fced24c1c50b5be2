"""Expressions as text with precedence: how each elementwise op and constant is spelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.dtypes import DType, f32, u16, u32
from iron.ir.core import Op, const_of, is_const

PRIMARY, UNARY, PRODUCT, SUM, SHIFT = 16, 14, 13, 12, 11
ORDER, EQUAL, AND, XOR, OR, BOTH, EITHER, CHOICE = 10, 9, 8, 7, 6, 5, 4, 3


@dataclass(frozen=True, slots=True)
class Expr:
    """Text of an expression, its precedence, and the variables in it that may change."""

    text: str
    level: int = PRIMARY
    reads: frozenset[str] = frozenset()

    def at(self, level: int) -> str:
        """The text where an operator of `level` takes it."""
        return self.text if self.level >= level else f"({self.text})"


Spelling = Callable[[Op, DType, Sequence[Expr]], tuple[str, int]]


def spell(op: Op, dtype: DType, args: Sequence[Expr]) -> Expr:
    """The op on `args`; `dtype` is that of its last operand."""
    text, level = SPELLINGS[op.name](op, dtype, args)
    reads = frozenset(name for a in args for name in a.reads)
    return Expr(text, level, reads)


def constant(value: Any, dtype: DType, long_suffix: str) -> Expr:
    """A literal of `dtype`, exact."""
    if dtype.kind == "b":
        return Expr("true" if value else "false")
    if dtype.kind == "s":
        bits = int(np.asarray(value, dtype.np).view(np.uint16))
        return Expr(f"({dtype})0x{bits:04x}", UNARY)
    if dtype.kind == "f":
        return _float(np.float32(value))
    return _integer(int(value), dtype, long_suffix)


def _float(value: Any) -> Expr:
    if not np.isfinite(value):
        return Expr(f"iron_bits_to_f32(0x{int(value.view(np.uint32)):08x}u)")
    plain = value == 0 or 1e-4 <= abs(value) < 1e7
    spelled = np.format_float_positional if plain else np.format_float_scientific
    text = spelled(value, unique=True, trim="0").lstrip("-")
    negative = bool(np.signbit(value))
    return Expr(f"-{text}f" if negative else f"{text}f", UNARY if negative else PRIMARY)


def _integer(value: int, dtype: DType, long_suffix: str) -> Expr:
    suffix = ("u" if dtype.kind == "u" else "") + (long_suffix if dtype.bits == 64 else "")
    if dtype.bits < 32:
        return Expr(f"({dtype}){value}" if value >= 0 else f"({dtype})({value})", UNARY)
    if value == dtype.min and dtype.kind == "i":
        return Expr(f"{value + 1}{suffix} - 1", SUM)
    return Expr(f"{value}{suffix}", PRIMARY if value >= 0 else UNARY)


# --- spellings ------------------------------------------------------------------------------------


def _narrowed(text: str, level: int, dtype: DType) -> tuple[str, int]:
    """C computes below 32 bits as int; the language wraps at the operand's width."""
    if dtype.is_integer and dtype.bits < 32:
        return f"({dtype})({text})", UNARY
    return text, level


def _infix(symbol: str, level: int, clear: int = 0) -> Spelling:
    """Operands of another operator below `clear` stand in parentheses that C does not need."""

    def spell(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
        a, b = args
        left = a.at(level if a.level == level else max(clear, level))
        return _narrowed(f"{left} {symbol} {b.at(max(clear, level + 1))}", level, dtype)

    return spell


def _wrapping(symbol: str, name: str, level: int) -> Spelling:
    """Signed overflow is undefined in C, so 32 and 64 bits go through a function."""
    plain = _infix(symbol, level)

    def spell(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
        if dtype.kind == "i" and dtype.bits >= 32:
            return call(f"iron_{name}_{dtype}", args)
        if dtype is u16 and symbol == "*":  # C multiplies them as signed
            args = [Expr(f"(u32){args[0].at(UNARY)}", UNARY), args[1]]
        return plain(op, dtype, args)

    return spell


def call(name: str, args: Sequence[Expr]) -> tuple[str, int]:
    """A function call."""
    return f"{name}({', '.join(a.text for a in args)})", PRIMARY


def _function(name: str) -> Spelling:
    """A function with one definition for each dtype."""

    def spell(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
        return call(f"iron_{name}_{dtype}", args)

    return spell


def _dot4(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
    """One definition for each pair of words."""
    return call("iron_dot4_" + "_".join(str(a.type) for a in op.args[:2]), args)


def extreme(op: Op, args: Sequence[Expr]) -> Expr:
    """A least or greatest f32 where no question of signed zeros arises."""
    reads = frozenset(name for a in args for name in a.reads)
    return Expr(*call(f"iron_{op.name}_bound_f32", args), reads)


def _extreme(name: str) -> Spelling:
    """Against a literal that is no zero there is no question of signed zeros.

    Nor is there where the literal is the zero that both the language and a processor choose, or
    that neither does: the language takes the second of two equal operands, a processor takes +0
    as the greater.
    """
    plain, bounded = _function(name), _function(f"{name}_bound")
    preferred = name == "min"  # the sign bit of the zero that a processor takes

    def clear(place: int, value: Any) -> bool:
        if value == 0:
            return bool(np.signbit(value)) == (preferred if place else not preferred)
        return bool(np.isfinite(value))

    def spell(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
        known = [(place, const_of(a)) for place, a in enumerate(op.args) if is_const(a)]
        simple = dtype is f32 and any(clear(place, v) for place, v in known)
        return (bounded if simple else plain)(op, dtype, args)

    return spell


def _bitwise(symbol: str, level: int, truth: str, truth_level: int) -> Spelling:
    integers, bools = _infix(symbol, level, SHIFT), _infix(truth, truth_level, EQUAL)

    def spell(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
        return (bools if dtype.kind == "b" else integers)(op, dtype, args)

    return spell


def _not(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
    symbol = "!" if dtype.kind == "b" else "~"
    return _narrowed(f"{symbol}{args[0].at(UNARY)}", UNARY, dtype)


def _neg(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
    if dtype.is_integer:
        return call(f"iron_neg_{dtype}", args)
    return f"-{args[0].at(PRIMARY)}", UNARY


def _abs(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
    return (args[0].text, args[0].level) if dtype.kind == "u" else call(f"iron_abs_{dtype}", args)


def _where(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
    c, a, b = args
    text = f"{c.at(CHOICE + 1)} ? {a.at(CHOICE + 1)} : {b.at(CHOICE)}"
    return _narrowed(text, CHOICE, dtype)


def _cast(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
    to, x = op.attrs[0], args[0]
    if dtype.kind == "s":
        x = Expr(*call(f"iron_{dtype}_to_f32", [x]))
        return (x.text, x.level) if to is f32 else _from_f32(to, x)
    if dtype.kind == "f":
        return _from_f32(to, x)
    if to.kind == "b":
        return f"{x.at(EQUAL + 1)} != 0", EQUAL
    if to.kind == "s":
        return call(f"iron_f32_to_{to}", [Expr(f"(f32){x.at(UNARY)}", UNARY)])
    return f"({to}){x.at(UNARY)}", UNARY


def _from_f32(to: DType, x: Expr) -> tuple[str, int]:
    if to is f32:
        return x.text, x.level
    if to.kind == "b":
        return f"{x.at(EQUAL + 1)} != 0.0f", EQUAL
    return call(f"iron_f32_to_{to}", [x])


def _bitcast(op: Op, dtype: DType, args: Sequence[Expr]) -> tuple[str, int]:
    to, x = op.attrs[0], args[0]
    if dtype is f32:
        bits = call("iron_f32_to_bits", [x])
        return bits if to is u32 else (f"({to}){bits[0]}", UNARY)
    if to is f32:
        plain = x if dtype is u32 else Expr(f"(u32){x.at(UNARY)}", UNARY)
        return call("iron_bits_to_f32", [plain])
    return f"({to}){x.at(UNARY)}", UNARY


SPELLINGS: dict[str, Spelling] = {
    "add": _wrapping("+", "add", SUM),
    "sub": _wrapping("-", "sub", SUM),
    "mul": _wrapping("*", "mul", PRODUCT),
    "div": _infix("/", PRODUCT),
    "fma": _function("fma"),
    "floordiv": _function("floordiv"),
    "mod": _function("mod"),
    "mulhi": _function("mulhi"),
    "neg": _neg,
    "abs": _abs,
    "sign": _function("sign"),
    "copysign": _function("copysign"),
    "min": _extreme("min"),
    "max": _extreme("max"),
    "fmin": _function("fmin"),
    "fmax": _function("fmax"),
    "sqrt": _function("sqrt"),
    "fast_exp2": _function("fast_exp2"),
    "fast_rcp": _function("fast_rcp"),
    "fast_rsqrt": _function("fast_rsqrt"),
    "rint": _function("rint"),
    "floor": _function("floor"),
    "ceil": _function("ceil"),
    "trunc": _function("trunc"),
    "and": _bitwise("&", AND, "&&", BOTH),
    "or": _bitwise("|", OR, "||", EITHER),
    "xor": _bitwise("^", XOR, "!=", EQUAL),
    "not": _not,
    "shl": _function("shl"),
    "shr": _function("shr"),
    "popcount": _function("popcount"),
    "clz": _function("clz"),
    "ctz": _function("ctz"),
    "reverse_bits": _function("reverse_bits"),
    "eq": _infix("==", EQUAL),
    "ne": _infix("!=", EQUAL),
    "lt": _infix("<", ORDER),
    "le": _infix("<=", ORDER),
    "gt": _infix(">", ORDER),
    "ge": _infix(">=", ORDER),
    "where": _where,
    "dot4": _dot4,
    "cast": _cast,
    "bitcast": _bitcast,
}
