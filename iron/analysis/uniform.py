"""Which values are equal in every thread of a group or simdgroup, and who breaks a collective.

Levels: 0 group-uniform, 1 simd-uniform, 2 varying. A load at a uniform address counts as uniform
because a race on it is an error. The decision is made from the source alone: what a loop carries
joins the level of its bounds and of its stop flag.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from iron.errors import KernelError, error
from iron.ir.core import Block, Kernel, Op, Value, carried, const_of, is_const, stop_flag, tiled
from iron.ir.table import Trait

GROUP = 0
SIMD = 1
VARYING = 2


@dataclass(frozen=True, slots=True)
class Uniformity:
    """The level of every value of a kernel's body.

    `width` is the number of lanes of a simdgroup (never more than the group's threads) and
    `simdgroups` how many of them make a group.
    """

    levels: dict[Value, int]
    width: int
    simdgroups: int

    def of(self, value: Value) -> int:
        """The level of `value`."""
        return self.levels[value]

    def varies(self, value: Value) -> bool:
        """True when lanes of one simdgroup may hold different values."""
        return self.levels[value] == VARYING

    def join(self, values: Iterable[Value]) -> int:
        """The highest level among `values`."""
        return max((self.levels[v] for v in values), default=GROUP)


def uniformity(kernel: Kernel) -> Uniformity:
    """The levels of all values in `kernel.body`; a tile kernel may get any number of threads."""
    threads = 2 * kernel.simd if tiled(kernel) else kernel.threads
    width = min(kernel.simd, threads)
    found = _Levels(threads, width)
    found.levels.update((p, GROUP) for p in kernel.body.params)
    found.block(kernel.body)
    return Uniformity(found.levels, width, threads // width)


class _Levels:
    """One pass over the body; loops repeat until what they carry stays put."""

    def __init__(self, threads: int, width: int) -> None:
        self.threads = threads
        self.width = width
        self.levels: dict[Value, int] = {}

    def join(self, values: Iterable[Value]) -> int:
        return max((self.levels[v] for v in values), default=GROUP)

    def block(self, block: Block) -> None:
        for op in block.ops:
            rule = _RULES.get(op.name)
            level = rule(self, op) if rule else self.join(op.args)
            if level is not None:
                self.levels.update((r, level) for r in op.results)

    def reach(self, width: int) -> int:
        """The level at which the result of a collective over `width` threads is shared."""
        if width in (0, self.threads):
            return GROUP
        return SIMD if width % self.width == 0 else VARYING


def _thread(a: _Levels, op: Op) -> int:
    return VARYING if a.threads > 1 else GROUP


def _quotient(a: _Levels, op: Op) -> int:
    """`thread // c` is the same in a whole simdgroup when c is a positive multiple of its width."""
    number, by = op.args
    if number.op is not None and number.op.name == "thread" and is_const(by):
        c = int(const_of(by))
        if op.name == "shr":
            c = 1 << (c % number.op.attrs[0].bits)
        if c > 0 and c % a.width == 0:
            return GROUP if c >= a.threads else SIMD
    return a.join(op.args)


def _single(a: _Levels, op: Op) -> int:
    return VARYING if a.threads > 1 else GROUP


def _ballot(a: _Levels, op: Op) -> int:
    return min(a.join(op.args), GROUP if a.threads == a.width else SIMD)


def _combined(a: _Levels, op: Op) -> int:
    """A combining function that captures a varying value has a varying result."""
    values = op.args if op.name == "reduce" else op.args[: len(op.args) // 2]
    joined = a.join(op.args)
    (body,) = op.regions
    a.levels.update((p, a.join(values)) for p in body.params)
    a.block(body)
    captured = a.join(body.yielded)
    if op.name == "scan":
        return VARYING if a.threads > 1 else GROUP
    return captured if captured > joined else min(joined, a.reach(op.attr("width")))


def _for(a: _Levels, op: Op) -> None:
    (body,) = op.regions
    stop = stop_flag(op)
    trip = a.join(op.args[:3])
    have = [max(a.levels[v], trip) for v in op.args[3:]]
    while True:
        a.levels[body.params[0]] = a.join((op.args[0], op.args[2]))
        a.levels.update(zip(body.params[1:], have, strict=True))
        a.block(body)
        turns = max(trip, a.levels[stop]) if stop is not None else trip
        new = [max(h, a.levels[v], turns) for h, v in zip(have, carried(op), strict=True)]
        if new == have:
            break
        have = new
    a.levels.update(zip(op.results, have, strict=True))


def _if(a: _Levels, op: Op) -> None:
    for side in op.regions:
        a.block(side)
    condition = a.levels[op.args[0]]
    sides = zip(*(side.yielded for side in op.regions), strict=True)
    for result, values in zip(op.results, sides, strict=True):
        a.levels[result] = max(condition, a.join(values))


_RULES: dict[str, Callable[[_Levels, Op], int | None]] = {
    "thread": _thread,
    "floordiv": _quotient,
    "shr": _quotient,
    "atomic": _single,
    "ballot": _ballot,
    "reduce": _combined,
    "scan": _combined,
    **dict.fromkeys(("simd_load", "simd_mma"), _thread),
    **dict.fromkeys(("matrix_full", "matrix_load", "matrix_mma"), _thread),
    "for": _for,
    "if": _if,
}


# --- the check ------------------------------------------------------------------------------------


def check_uniform(kernel: Kernel, known: Uniformity | None = None) -> None:
    """Raises E0312 for a collective or barrier under control that differs between threads."""
    if kernel.threads > 1 or tiled(kernel):
        _check(kernel, known or uniformity(kernel), kernel.body, None)


def _check(kernel: Kernel, u: Uniformity, block: Block, inside: tuple[Op, Value] | None) -> None:
    for op in block.ops:
        if inside is not None and op.row.has(Trait.COLLECTIVE):
            raise _refusal(kernel, op, *inside)
        if op.name in ("for", "if"):
            culprit = _culprit(u, op)
            under = inside or (None if culprit is None else (op, culprit))
            for region in op.regions:
                _check(kernel, u, region, under)


def _culprit(u: Uniformity, op: Op) -> Value | None:
    """The first operand that makes the op's control differ between threads."""
    deciding = op.args[:1] if op.name == "if" else op.args[:3]
    stop = stop_flag(op) if op.name == "for" else None
    candidates = deciding if stop is None else (*deciding, stop)
    return next((v for v in candidates if u.of(v) != GROUP), None)


def _refusal(kernel: Kernel, op: Op, control: Op, culprit: Value) -> KernelError:
    branch = control.name == "if"
    what = "branch" if branch else "loop"
    verb = "depends" if branch else "runs a number of turns that depends"
    at = f" on line {control.loc.line}" if control.loc else ""
    note = f"the {what}{at} {verb} on {spoken(culprit)}, which differs between threads"
    if op.name == "barrier":
        advice = f"move the barrier out of the {what}, so that every thread reaches it"
    elif branch:
        neutral = "0" if op.surface == "group_sum" else "a value that changes nothing"
        advice = f"move the call out of the branch and pass {neutral} from threads"
        advice += " that have no value"
    else:
        advice = "make the bounds of the loop equal in all threads, or move the call out of it"
    return error(
        "E0312",
        f"`{op.surface}` needs every thread of the group, but only some threads reach it",
        op.loc,
        kernel.name,
        (note,),
        advice,
    )


def spoken(value: Value) -> str:
    """The source text of `value`, else its name, else a description."""
    loc = value.op.loc if value.op is not None else None
    if loc is not None and loc.end > loc.col:
        text = linecache.getline(loc.file, loc.line).rstrip("\n")[loc.col : loc.end].strip()
        if text:
            return f"`{text}`"
    return f"`{value.name}`" if value.name else "a value"
