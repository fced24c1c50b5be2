"""y * 2^n in one instruction where the CPU has it.

The body of an exponential forms two powers of two from the bits of n and multiplies by both, which
rounds once; it marks the last product, since only its n is known to be small. The instruction gives
the same bits. It takes n as a float, which the body has at hand: `shifted - MAGIC`.
"""

from __future__ import annotations

from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter, Names
from iron.backends.cpu.types import lanes
from iron.dtypes import f32
from iron.elementary.exponential import MAGIC, SCALED
from iron.ir.core import Op, Value

_WIDEST = 16


def scaled(e: Emitter, op: Op, x: Lanes) -> Names | None:
    """The components of a marked product; None for other ops and on other CPUs."""
    if op.surface != SCALED or x.width < 8 or not e.target.has("avx512"):
        return None
    found = _operands(op)
    if found is None or any(v not in e.scope.names for v in found):
        return None
    y, n = (e.names(v, x.width) for v in found)
    return tuple(_one(x, a, b) for a, b in zip(y, n, strict=True))


def _operands(op: Op) -> tuple[Value, Value] | None:
    """y and n of (y * 2^half) * 2^(n - half)."""
    most, bits = op.args[0].op, op.args[1].op
    for name in ("bitcast", "add", "shl", "sub"):
        if bits is None or bits.name != name:
            return None
        last, bits = bits, bits.args[0].op
    if most is None or most.name != "mul":
        return None
    return most.args[0], last.args[0]


def _one(x: Lanes, y: str, bits: str) -> str:
    shifted = x.w.let(f"bitcast {lanes('i32', x.width)} {bits} to {x.t}")
    n = x.op("fsub", shifted, x.const(MAGIC))
    width = min(_WIDEST, x.width)
    part = Lanes(x.w, f32, width)
    out: list[str] = []
    for start in range(0, x.width, width):
        at = list(range(start, start + width))
        a, b = (v if width == x.width else x.w.pick(v, x.ll, x.width, at) for v in (y, n))
        out.append(_instruction(part, a, b))
    return x.w.concat(out, x.ll, width)


def _instruction(x: Lanes, y: str, n: str) -> str:
    mask = (f"i{x.width}", "-1")
    rounding = [("i32", "4")] if x.width == _WIDEST else []
    name = f"llvm.x86.avx512.mask.scalef.ps.{32 * x.width}"
    return x.w.call(x.t, name, (x.t, y), (x.t, n), (x.t, "zeroinitializer"), mask, *rounding)
