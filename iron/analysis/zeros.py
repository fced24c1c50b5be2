"""Which floats may be -0 or +0 without anybody seeing the difference.

A target's own maximum orders the zeros, the language's does not; where nobody can tell, either
will do. A zero's sign is seen by a store, a bit cast, a divisor, the source of a `copysign`; it is
lost in a comparison, a power, a conversion to an integer, and in a sum with a constant that is not
0. Everything else hands the question on to its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from iron.ir.core import Block, Kernel, Op, Value, carried, const_of, is_const
from iron.ir.types import element

_LOST = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "abs", "fast_exp2"})
_HANDED_ON = frozenset(
    {"add", "sub", "mul", "neg", "min", "max", "fmin", "fmax", "sqrt", "rint", "floor", "ceil"}
    | {"trunc", "sign", "splat", "pack", "extract", "exchange"}
)


def signless(kernel: Kernel) -> frozenset[Value]:
    """The floats of `kernel.body` whose sign nobody sees where they are 0."""
    edges: list[tuple[Value, Value]] = []  # the sign of the first is seen where the second's is
    seen: set[Value] = set()
    for op in kernel.body.walk():
        _uses(op, edges, seen)
    before: dict[Value, list[Value]] = {}
    for value, through in edges:
        before.setdefault(through, []).append(value)
    waiting = list(seen)
    while waiting:
        for value in before.get(waiting.pop(), ()):
            if value not in seen:
                seen.add(value)
                waiting.append(value)
    return frozenset(v for v in _values(kernel.body) if v not in seen)


def _values(block: Block) -> Iterable[Value]:
    yield from block.params
    for op in block.ops:
        yield from op.results
        for region in op.regions:
            yield from _values(region)


def _uses(op: Op, edges: list[tuple[Value, Value]], seen: set[Value]) -> None:
    """What `op` does with each operand."""
    rule = _RULES.get(op.name)
    if rule is not None:
        rule(op, edges, seen)
    elif op.name in _HANDED_ON:
        edges += [(a, r) for a in op.args for r in op.results]
    elif op.name not in _LOST and op.name != "yield":
        seen.update(op.args)


def _sum(op: Op, edges: list[tuple[Value, Value]], seen: set[Value]) -> None:
    if not any(_nonzero(a) for a in op.args):
        edges += [(a, op.results[0]) for a in op.args]


def _fma(op: Op, edges: list[tuple[Value, Value]], seen: set[Value]) -> None:
    if not _nonzero(op.args[2]):
        edges += [(a, op.results[0]) for a in op.args]


def _div(op: Op, edges: list[tuple[Value, Value]], seen: set[Value]) -> None:
    edges.append((op.args[0], op.results[0]))
    seen.add(op.args[1])


def _copysign(op: Op, edges: list[tuple[Value, Value]], seen: set[Value]) -> None:
    seen.add(op.args[1])


def _where(op: Op, edges: list[tuple[Value, Value]], seen: set[Value]) -> None:
    edges += [(a, op.results[0]) for a in op.args[1:]]


def _cast(op: Op, edges: list[tuple[Value, Value]], seen: set[Value]) -> None:
    if element(op.results[0].type).is_float:
        edges.append((op.args[0], op.results[0]))


def _reduce(op: Op, edges: list[tuple[Value, Value]], seen: set[Value]) -> None:
    """Every value that goes around is an operand, a parameter, a yielded one and a result."""
    (body,) = op.regions
    count = len(op.results)
    operands = [op.args[i : i + count] for i in range(0, len(op.args), count)]
    parameters = (body.params[:count], body.params[count:])
    for values in (*operands, *parameters, body.yielded):
        for value, left, right, result in zip(values, *parameters, op.results, strict=True):
            edges.extend((value, to) for to in (left, right, result))


def _if(op: Op, edges: list[tuple[Value, Value]], seen: set[Value]) -> None:
    for region in op.regions:
        edges.extend(zip(region.yielded, op.results, strict=True))


def _for(op: Op, edges: list[tuple[Value, Value]], seen: set[Value]) -> None:
    params = op.regions[0].params[1:]
    for values in (op.args[3:], carried(op)):
        for value, param, result in zip(values, params, op.results, strict=True):
            edges += [(value, param), (value, result)]


def _nonzero(value: Value) -> bool:
    """A constant that is finite and not 0, or a vector of one."""
    op = value.op
    if op is not None and op.name == "splat":
        return _nonzero(op.args[0])
    return is_const(value) and bool(np.isfinite(const_of(value))) and const_of(value) != 0


_RULES: dict[str, Callable[[Op, list[tuple[Value, Value]], set[Value]], None]] = {
    "add": _sum,
    "sub": _sum,
    "fma": _fma,
    "div": _div,
    "copysign": _copysign,
    "where": _where,
    "cast": _cast,
    "reduce": _reduce,
    "scan": _reduce,
    "if": _if,
    "for": _for,
}
