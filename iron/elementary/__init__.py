"""Elementary functions as bodies in IR: one each, the same bits on every backend.

A body uses only what is exactly defined everywhere: + - * / fma sqrt, integer operations, bit
casts, comparisons and selection. Each holds for every f32 (subnormals, infinities, NaN, signed
zeros) within the `ulp` of its row. `RULES` expands the ops in a rebuild; `STRAIGHT` does so
where no region may be opened.
"""

from __future__ import annotations

from collections.abc import Callable

from iron.elementary import circular, exponential, inverse, logarithm, power, special
from iron.elementary.expression import Expr
from iron.ir.build import Builder
from iron.ir.core import Op, Value
from iron.ir.rebuild import Rule

BODIES: dict[str, Callable[..., Expr]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "sin": circular.sin,
    "cos": circular.cos,
    "tan": circular.tan,
    "asin": inverse.asin,
    "acos": inverse.acos,
    "atan": inverse.atan,
    "atan2": inverse.atan2,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": exponential.tanh,
    "asinh": logarithm.asinh,
    "acosh": logarithm.acosh,
    "atanh": logarithm.atanh,
    "erf": special.erf,
    "erfinv": special.erfinv,
    "pow": power.pow,
    "rsqrt": power.rsqrt,
    "sigmoid": exponential.sigmoid,
    "fast_exp2": exponential.fast_exp2,
    "fast_rcp": power.reciprocal,
    "fast_rsqrt": power.rsqrt,
}


def _rule(body: Callable[..., Expr], straight: bool) -> Rule:
    def expand(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...]:
        b.exact = True
        return (body(*(Expr(b, a, straight) for a in args)).value,)

    return expand


RULES: dict[str, Rule] = {name: _rule(body, straight=False) for name, body in BODIES.items()}
STRAIGHT: dict[str, Rule] = {name: _rule(body, straight=True) for name, body in BODIES.items()}
