"""The functions of the `fast_` kind by the estimates of AVX-512 and a step that refines them.

A lane's bits do not depend on how many lanes there are: fewer than a register's are widened.
"""

from __future__ import annotations

from collections.abc import Callable

from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter, Names, Rule
from iron.dtypes import f32
from iron.ir.core import Op

NARROWEST, WIDEST = 4, 16

EXP2 = (
    0.0018669526325538754,
    0.009017480537295341,
    0.055799514055252075,
    0.2401645928621292,
    0.6931512951850891,
)
"""(2^r - 1) / r on 0 to 1, a minimax fit: with the rounding below three units of the last place."""

DOWN = 1
"""Rounding towards minus infinity, as an instruction's immediate."""


def _estimate(x: Lanes, name: str, a: str) -> str:
    """An instruction with a relative error below 2^-14."""
    mask = (f"i{max(8, x.width)}", "-1")
    name = f"llvm.x86.avx512.{name}14.ps.{32 * x.width}"
    return x.w.call(x.t, name, (x.t, a), (x.t, "zeroinitializer"), mask)


def _masked(x: Lanes, name: str, *operands: tuple[str, str]) -> str:
    """An instruction of a form with passed-through lanes, of which there are none."""
    mask = (f"i{max(8, x.width)}", "-1")
    rounding = [("i32", "4")] if x.width == WIDEST else []
    full = f"llvm.x86.avx512.mask.{name}.ps.{32 * x.width}"
    return x.w.call(x.t, full, *operands, (x.t, "zeroinitializer"), mask, *rounding)


def _exp2(x: Lanes, a: str) -> str:
    """2^(a - floor a) by a polynomial, scaled by 2^floor a; no result is cut off."""
    rest = _masked(x, "reduce", (x.t, a), ("i32", str(DOWN)))
    power = x.const(EXP2[0])
    for coefficient in (*EXP2[1:], 1.0):
        power = x.call("fma", power, rest, x.const(coefficient))
    return _masked(x, "scalef", (x.t, power), (x.t, a))


def _refined(x: Lanes, y: str, half: str, error: str) -> str:
    """y + half * error; y where it is 0 or infinite and the error no number to go by."""
    better = x.call("fma", half, error, y)
    return x.select(x.order("gt", error, x.const(-1.0)), better, y)


def _error(x: Lanes, a: str, y: str) -> str:
    """1 - a * y."""
    return x.call("fma", x.w.let(f"fneg {x.t} {a}"), y, x.const(1.0))


def _rcp(x: Lanes, a: str) -> str:
    """A step of Newton's on 1 / y - a, which squares the error."""
    y = _estimate(x, "rcp", a)
    return _refined(x, y, y, _error(x, a, y))


def _rsqrt(x: Lanes, a: str) -> str:
    """A step of Newton's on 1 / y^2 - a, which squares the error and halves it."""
    y = _estimate(x, "rsqrt", a)
    error = _error(x, x.op("fmul", a, y), y)
    return _refined(x, y, x.op("fmul", y, x.const(0.5)), error)


def _by_registers(spell: Callable[[Lanes, str], str]) -> Rule:
    """`spell` on as many lanes as a register has."""

    def emit(e: Emitter, op: Op) -> list[Names]:
        x = Lanes(e.w, f32, e.width(op.results[0]))
        width = min(WIDEST, max(NARROWEST, x.width))
        part = Lanes(e.w, f32, width)
        return [tuple(_whole(x, part, spell, name) for name in e.names(op.args[0], x.width))]

    return emit


def _whole(x: Lanes, part: Lanes, spell: Callable[[Lanes, str], str], name: str) -> str:
    if x.width < part.width:
        wide = x.w.pick(name, x.ll, x.width, [i % x.width for i in range(part.width)])
        return x.w.pick(spell(part, wide), x.ll, part.width, list(range(x.width)))
    out: list[str] = []
    for start in range(0, x.width, part.width):
        at = list(range(start, start + part.width))
        some = name if x.width == part.width else x.w.pick(name, x.ll, x.width, at)
        out.append(spell(part, some))
    return x.w.concat(out, x.ll, part.width)


RULES = {
    "fast_exp2": _by_registers(_exp2),
    "fast_rcp": _by_registers(_rcp),
    "fast_rsqrt": _by_registers(_rsqrt),
}
"""For targets that state these approximations."""
