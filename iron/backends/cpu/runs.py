"""Values that are equal in runs of lanes: the scale of a group of weights, a word of many codes.

What is loaded at such places, and what is computed from nothing else, takes one lane for each run;
it becomes as wide as the simdgroup where it meets a value that differs from lane to lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.backends.cpu.state import Emitter, Names, Rule, Runs
from iron.ir.core import Op, Value

SHORTEST = 4
"""Lanes of the shortest run that pays for the shuffles at its end."""


def of_pattern(e: Emitter, pattern: tuple[int, ...] | None) -> int:
    """The length of the runs of lanes at one place each; 1 where there are none.

    A power of two; `pattern` holds each lane's distance from lane 0.
    """
    if pattern is None or e.lanes != e.uniform.width:
        return 1
    length = e.lanes
    while length >= SHORTEST:
        starts = range(0, e.lanes, length)
        if e.lanes % length == 0 and all(len({*pattern[s : s + length]}) == 1 for s in starts):
            return length
        length //= 2
    return 1


def in_runs(rule: Rule) -> Rule:
    """`rule`, one lane for each run where all varying operands are equal in runs.

    For rules that compute each lane of their result from that lane of their operands alone.
    """

    def emit(e: Emitter, op: Op) -> Sequence[Names | Runs]:
        length = _shortest(e, op)
        if length == 1:
            return rule(e, op)
        operands = {a: _narrow(e, a, length) for a in op.args}
        lanes, e.lanes = e.lanes, e.lanes // length
        with e.fresh_scope():
            for operand, names in operands.items():
                e.bind(operand, names)
            found = rule(e, op)
        e.lanes = lanes
        return [Runs(length, names) for names in found if not isinstance(names, Runs)]

    return emit


def _shortest(e: Emitter, op: Op) -> int:
    """The shortest runs of the operands; 1 where one has none, and for what does not vary."""
    if not e.scope.runs or e.lanes != e.uniform.width:
        return 1
    known = [e.scope.runs.get(a) for a in op.args if e.varies(a)]
    lengths = [r.length if r is not None else 1 for r in known]
    return min(lengths, default=1)


def _narrow(e: Emitter, value: Value, length: int) -> Names:
    found = e.scope.runs.get(value)
    return e.names(value) if found is None else e.spread(value, found, length)
