"""Arithmetic, comparison and bit rows as LLVM instructions, by the rules of `ir/scalar.py`.

Division guards act in every lane, masked or not: LLVM traps or is undefined where Iron is not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.types import lanes
from iron.dtypes import bool_
from iron.ir.core import Op, Value, const_of, is_const

Spelling = Callable[..., str]


def _plain(by_kind: dict[str, str]) -> Spelling:
    """An instruction chosen by the dtype's kind."""

    def spell(x: Lanes, a: str, b: str) -> str:
        return x.op(by_kind[x.dtype.kind], a, b)

    return spell


def _compare(floats: str, signed: str, unsigned: str) -> Spelling:
    predicates = {"f": floats, "i": signed, "u": unsigned, "b": unsigned}

    def spell(x: Lanes, a: str, b: str) -> str:
        return x.compare(predicates[x.dtype.kind], a, b)

    return spell


def _intrinsic(name: str, flag: str = "") -> Spelling:
    def spell(x: Lanes, *operands: str) -> str:
        return x.call(name, *operands, flag=flag)

    return spell


def _neg(x: Lanes, a: str) -> str:
    if x.dtype.kind == "f":
        return x.w.let(f"fneg {x.t} {a}")
    return x.op("sub", x.const(0), a)


def _abs(x: Lanes, a: str) -> str:
    if x.dtype.kind == "f":
        return x.call("fabs", a)
    return a if x.dtype.kind == "u" else x.call("abs", a, flag="false")


def _sign(x: Lanes, a: str) -> str:
    zero, one, minus = x.const(0), x.const(1), x.const(-1)
    unit = x.select(x.order("gt", a, zero), one, minus)
    kept = x.compare("ueq" if x.dtype.kind == "f" else "eq", a, zero)  # NaN compares `ueq`
    return x.select(kept, a, unit)


def _extreme(relation: str, nan_of: int) -> Spelling:
    """a where it stands in `relation` to b or operand `nan_of` is NaN, else b."""

    def spell(x: Lanes, a: str, b: str) -> str:
        chosen = x.select(x.order(relation, a, b), a, b)
        if x.dtype.kind != "f":
            return chosen
        return x.select(x.is_nan((a, b)[nan_of]), a, chosen)

    return spell


def _extreme_of_constant(name: str, x: Lanes, op: Op, a: str, b: str) -> str | None:
    """`min`, `max`, `fmin`, `fmax` where one operand is known not to be NaN: one comparison.

    LLVM takes fmax(max(C, x), C) for max(C, x) if it sees a selection by one comparison in both,
    though NaN and -0 tell them apart: those that ignore NaN ask for C's neighbour instead.
    """
    found = [(at, c) for at, v in enumerate(op.args) if (c := _constant(v)) is not None]
    if x.dtype.kind != "f" or not found:
        return None
    at, c = found[0]
    less, ignores = name.endswith("min"), name.startswith("f")
    order = "o" if at == ignores else "u"  # NaN in operand `ignores` chooses a
    if not ignores:
        return x.select(x.compare(order + ("lt" if less else "gt"), a, b), a, b)
    bound, other = (a, b) if at == 0 else (b, a)
    if np.isinf(c):
        return bound if (c < 0) == less else x.select(x.is_nan(other), bound, other)
    upwards = less == (at == 0)
    number = x.dtype.np.type
    with np.errstate(over="ignore", under="ignore"):
        beyond = np.nextafter(number(c), number(np.inf if upwards else -np.inf))
    reached = x.compare(order + ("ge" if upwards else "le"), other, x.const(float(beyond)))
    return x.select(reached, a, b)


def _constant(value: Value) -> float | None:
    """A float constant, or what a splat repeats, unless it is NaN."""
    if value.op is not None and value.op.name == "splat":
        value = value.op.args[0]
    number = float(const_of(value)) if is_const(value) else float("nan")
    return number if number == number else None


def _not(x: Lanes, a: str) -> str:
    return x.op("xor", a, x.const(True if x.dtype is bool_ else -1))


def _shift_by(x: Lanes, name: str, a: str, count: str) -> str:
    if name == "shl":
        return x.op("shl", a, count)
    return x.op("ashr" if x.dtype.kind == "i" else "lshr", a, count)


def _shift(name: str) -> Spelling:
    def spell(x: Lanes, a: str, b: str) -> str:
        return _shift_by(x, name, a, x.op("and", b, x.const(x.dtype.bits - 1)))

    return spell


def _mulhi(x: Lanes, a: str, b: str) -> str:
    bits, signed = x.dtype.bits, x.dtype.kind == "i"
    wide = lanes(f"i{2 * bits}", x.width)
    grow = "sext" if signed else "zext"
    p, q = (x.w.let(f"{grow} {x.t} {v} to {wide}") for v in (a, b))
    product = x.w.let(f"mul {wide} {p}, {q}")
    by = x.w.splat(str(bits), f"i{2 * bits}", x.width)
    high = x.w.let(f"lshr {wide} {product}, {by}")
    return x.w.let(f"trunc {wide} {high} to {x.t}")


def _where(x: Lanes, condition: str, a: str, b: str) -> str:
    return x.select(condition, a, b)


# --- division -------------------------------------------------------------------------------------


def _quotient(x: Lanes, a: str, b: str) -> str:
    """floor(a / b) for b not 0 and not -1."""
    if x.width > 1 and x.dtype.bits <= 32:
        return _quotient_by_floats(x, a, b)
    if x.dtype.kind == "u":
        return x.op("udiv", a, b)
    quotient = x.op("sdiv", a, b)
    rest = x.op("sub", a, x.op("mul", quotient, b))
    apart = x.order("lt", x.op("xor", rest, b), x.const(0))
    inexact = x.compare("ne", rest, x.const(0))
    down = x.w.let(f"and {x.flags} {apart}, {inexact}")
    return x.select(down, x.op("sub", quotient, x.const(1)), quotient)


def _quotient_by_floats(x: Lanes, a: str, b: str) -> str:
    """Vector division through floats, which no CPU has for integers.

    The float quotient is off by less than 1 / |b|, so it never crosses an integer: double
    precision serves 32-bit operands and single precision shorter ones.
    """
    signed = x.dtype.kind == "i"
    ft, name = ("double", "f64") if x.dtype.bits == 32 else ("float", "f32")
    form, into, back = lanes(ft, x.width), "sitofp" if signed else "uitofp", "fptoui"
    p, q = (x.convert(into, v, ft) for v in (a, b))
    ratio = x.w.let(f"fdiv {form} {p}, {q}")
    floor = x.w.call(form, f"llvm.floor.v{x.width}{name}", (form, ratio))
    if signed:
        back = "fptosi"
    return x.w.let(f"{back} {form} {floor} to {x.t}")


def _guarded(x: Lanes, b: str) -> tuple[str, str, str]:
    """Which lanes divide by 0, which by -1, and a divisor that is neither."""
    zero = x.compare("eq", b, x.const(0))
    safe = x.select(zero, x.const(1), b)
    if x.dtype.kind == "u":
        return zero, "", safe
    minus = x.compare("eq", b, x.const(-1))
    return zero, minus, x.select(minus, x.const(1), safe)


def _floordiv(x: Lanes, a: str, b: str) -> str:
    zero, minus, safe = _guarded(x, b)
    quotient = _quotient(x, a, safe)
    if minus:
        quotient = x.select(minus, x.op("sub", x.const(0), a), quotient)
    return x.select(zero, x.const(0), quotient)


def _mod(x: Lanes, a: str, b: str) -> str:
    zero, minus, safe = _guarded(x, b)
    quotient = _quotient(x, a, safe)
    rest = x.op("sub", a, x.op("mul", quotient, safe))
    trivial = x.w.let(f"or {x.flags} {zero}, {minus}") if minus else zero
    return x.select(trivial, x.const(0), rest)


def by_constant(name: str, x: Lanes, a: str, c: int) -> str | None:
    """`floordiv` or `mod` by a known divisor, None when the general form has to serve."""
    if c <= 0:
        return None
    signed = x.dtype.kind == "i"
    if c & (c - 1) == 0:
        if name == "mod":
            return x.op("and", a, x.const(c - 1))
        return x.op("ashr" if signed else "lshr", a, x.const(c.bit_length() - 1))
    if not signed:
        return x.op("udiv" if name == "floordiv" else "urem", a, x.const(c))
    rest = x.op("srem", a, x.const(c))
    below = x.order("lt", rest, x.const(0))
    if name == "mod":
        return x.select(below, x.op("add", rest, x.const(c)), rest)
    quotient = x.op("sdiv", a, x.const(c))
    return x.select(below, x.op("sub", quotient, x.const(1)), quotient)


# --- the rows -------------------------------------------------------------------------------------

SPELLINGS: dict[str, Spelling] = {
    "add": _plain({"f": "fadd", "i": "add", "u": "add"}),
    "sub": _plain({"f": "fsub", "i": "sub", "u": "sub"}),
    "mul": _plain({"f": "fmul", "i": "mul", "u": "mul"}),
    "div": _plain({"f": "fdiv"}),
    "fma": _intrinsic("fma"),
    "floordiv": _floordiv,
    "mod": _mod,
    "mulhi": _mulhi,
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
    "copysign": _intrinsic("copysign"),
    "min": _extreme("lt", 0),
    "max": _extreme("gt", 0),
    "fmin": _extreme("lt", 1),
    "fmax": _extreme("gt", 1),
    "sqrt": _intrinsic("sqrt"),
    "rint": _intrinsic("rint"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "and": _plain(dict.fromkeys("iub", "and")),
    "or": _plain(dict.fromkeys("iub", "or")),
    "xor": _plain(dict.fromkeys("iub", "xor")),
    "not": _not,
    "shl": _shift("shl"),
    "shr": _shift("shr"),
    "popcount": _intrinsic("ctpop"),
    "clz": _intrinsic("ctlz", "false"),
    "ctz": _intrinsic("cttz", "false"),
    "reverse_bits": _intrinsic("bitreverse"),
    "eq": _compare("oeq", "eq", "eq"),
    "ne": _compare("une", "ne", "ne"),
    "lt": _compare("olt", "slt", "ult"),
    "le": _compare("ole", "sle", "ule"),
    "gt": _compare("ogt", "sgt", "ugt"),
    "ge": _compare("oge", "sge", "uge"),
    "where": _where,
}


def known_integer(value: Value) -> int | None:
    """The integer of a constant or of a splat of one."""
    if value.op is not None and value.op.name == "splat":
        value = value.op.args[0]
    if not is_const(value):
        return None
    return int(const_of(value))


def quotient_or_rest(name: str, x: Lanes, a: str, divisor: Value, b: str) -> str:
    """`floordiv` or `mod` of `a` by `b`, which is one component of `divisor`."""
    c = known_integer(divisor)
    found = by_constant(name, x, a, c) if c is not None else None
    return found or SPELLINGS[name](x, a, b)


def spell(x: Lanes, op: Op, operands: list[str]) -> str:
    """One component of an elementwise op on operands of `x.dtype`."""
    if op.name in ("floordiv", "mod"):
        return quotient_or_rest(op.name, x, operands[0], op.args[1], operands[1])
    if op.name in ("min", "max", "fmin", "fmax"):
        found = _extreme_of_constant(op.name, x, op, *operands)
        if found is not None:
            return found
    if op.name in ("shl", "shr") and (c := known_integer(op.args[1])) is not None:
        return _shift_by(x, op.name, operands[0], x.const(c % x.dtype.bits))
    return SPELLINGS[op.name](x, *operands)
