"""What the threads of a group do together, as shuffles in a simdgroup and memory beyond it.

The order is that of `ir.interp.collectives`: it is part of the meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iron.analysis.order import either_order
from iron.backends.clike.expression import Expr
from iron.dtypes import DType
from iron.ir.core import Block, Op
from iron.ir.types import element

if TYPE_CHECKING:
    from iron.backends.clike.render import Renderer

COLLECTIVES = frozenset({"reduce", "scan", "exchange", "ballot"})
NESTED = 2
"""The set of arrays of what is in a branch or loop; 0 and 1 take turns outside."""


def reduce(r: Renderer, op: Op) -> None:
    """Butterfly inside min(width, simd) lanes, then simdgroups from left to right."""
    width = op.attr("width") or r.kernel.threads
    names = _variables(r, op, op.args)
    inner = min(width, r.kernel.simd)
    if inner > 1:
        r.nested(
            f"for (i32 step = 1; step < {inner}; step *= 2) {{", lambda: _butterfly(r, op, names)
        )
    if width > r.kernel.simd:
        _across(r, op, names, width)
    _finish(r, op, names)


def _butterfly(r: Renderer, op: Op, names: Sequence[str]) -> None:
    body, types = op.regions[0], [element(a.type) for a in op.args]
    either = either_order(body, r.signless)
    others = [
        r.constant(t, "other", f"iron_shuffle_xor_{t}({n}, step)")
        for t, n in zip(types, names, strict=True)
    ]
    if either:
        _combine(r, body, names, others, names)
        return
    upper = r.constant("bool", "upper", "(thread_index & step) != 0")
    low = [
        r.constant(t, "low", f"{upper} ? {o} : {n}")
        for t, n, o in zip(types, names, others, strict=True)
    ]
    high = [
        r.constant(t, "high", f"{upper} ? {n} : {o}")
        for t, n, o in zip(types, names, others, strict=True)
    ]
    _combine(r, body, low, high, names)


def _across(r: Renderer, op: Op, names: Sequence[str], width: int) -> None:
    """Each simdgroup leaves its total in shared memory, and all read them in order."""
    simd, threads = r.kernel.simd, r.kernel.threads
    types = [element(a.type) for a in op.args]
    piles = _share(r, types, names, threads // simd, "thread_index % {simd} == 0", simd)
    first = (
        "0"
        if width == threads
        else r.constant("i32", "first", f"thread_index / {width} * {width // simd}")
    )
    for name, pile in zip(names, piles, strict=True):
        r.line(f"{name} = {pile}[{first}];")

    def turn() -> None:
        nexts = [
            r.constant(t, "next", f"{pile}[{_plus(first, 'run')}]")
            for t, pile in zip(types, piles, strict=True)
        ]
        _combine(r, op.regions[0], list(names), nexts, names)

    r.nested(f"for (i32 run = 1; run < {width // simd}; ++run) {{", turn)
    _release(r, op)


def scan(r: Renderer, op: Op) -> None:
    """Doubling distances inside min(width, simd) lanes, then the totals to the left come first."""
    half = len(op.args) // 2
    width = op.attr("width") or r.kernel.threads
    simd = r.kernel.simd
    inner = min(width, simd)
    sums = _variables(r, op, op.args[:half])
    units = [r.expr(u).text for u in op.args[half:]]
    types = [element(a.type) for a in op.args[:half]]
    place = ""
    if inner > 1:
        place = r.constant("i32", "place", f"thread_index % {inner}")
        r.nested(
            f"for (i32 step = 1; step < {inner}; step *= 2) {{",
            lambda: _doubling(r, op, sums, types, place),
        )
    values = list(sums)
    if op.attr("exclusive"):
        values = [
            _changing(r, t, "shifted", _shifted(t, s, u, place, inner))
            for t, s, u in zip(types, sums, units, strict=True)
        ]
    if width > simd:
        _based(r, op, sums, values, units, width)
    _finish(r, op, values)


def _shifted(t: DType, total: str, unit: str, place: str, inner: int) -> str:
    if inner == 1:
        return unit
    return f"iron_shifted_{t}({total}, {unit}, {place})"


def _doubling(r: Renderer, op: Op, sums: Sequence[str], types: Sequence[DType], place: str) -> None:
    befores = [
        r.constant(t, "before", f"iron_shuffle_up_{t}({s}, step)")
        for t, s in zip(types, sums, strict=True)
    ]
    r.nested(
        f"if ({place} >= step) {{", lambda: _combine(r, op.regions[0], befores, list(sums), sums)
    )


def _based(
    r: Renderer,
    op: Op,
    sums: Sequence[str],
    values: Sequence[str],
    units: Sequence[str],
    width: int,
) -> None:
    simd, threads = r.kernel.simd, r.kernel.threads
    types = [element(a.type) for a in op.args[: len(sums)]]
    last = f"thread_index % {{simd}} == {simd - 1}"
    piles = _share(r, types, sums, threads // simd, last, simd)
    bases = [_changing(r, t, "base", u) for t, u in zip(types, units, strict=True)]
    number = r.constant("i32", "number", f"thread_index % {width} / {simd}")
    first = (
        "0"
        if width == threads
        else r.constant("i32", "first", f"thread_index / {width} * {width // simd}")
    )

    def turn() -> None:
        totals = [
            r.constant(t, "total", f"{pile}[{_plus(first, 'run')}]")
            for t, pile in zip(types, piles, strict=True)
        ]
        _combine(r, op.regions[0], list(bases), totals, bases)

    r.nested(f"for (i32 run = 0; run < {number}; ++run) {{", turn)
    _combine(r, op.regions[0], bases, list(values), values)
    _release(r, op)


def exchange(r: Renderer, op: Op) -> None:
    """A shuffle below the simd width, shared memory from there on."""
    mask, (x,), (result,) = op.attr("mask"), op.args, op.results
    t = element(x.type)
    if mask == 0 or r.kernel.threads == 1:
        r.expressions[result] = r.expr(x)
        return
    if mask < r.kernel.simd:
        r.declare(result, f"iron_shuffle_xor_{t}({r.expr(x).text}, {mask})", "other")
        return
    (pile,) = _share(r, [t], [r.expr(x).text], r.kernel.threads, "", 1)
    r.declare(result, f"{pile}[thread_index ^ {mask}]", "other")
    _release(r, op)


def ballot(r: Renderer, op: Op) -> None:
    """One bit for each lane of the simdgroup."""
    x = r.expr(op.args[0])
    text = f"iron_ballot({x.text})" if r.kernel.threads > 1 else f"(u64){x.at(14)}"
    r.declare(op.results[0], text, "votes")


def _share(
    r: Renderer, types: Sequence[DType], names: Sequence[str], size: int, who: str, simd: int
) -> list[str]:
    """Shared arrays that hold a value of each simdgroup (or thread), readable on return.

    Where a group passes once, uses take turns with two sets of arrays: the barrier of each ends
    the reading of the one before. A use that a loop may repeat has a set of its own and ends with
    a barrier (`_release`).
    """
    piles: list[str] = []
    turn = NESTED
    if r.depth == 1:
        turn = r.turn = 1 - r.turn
    for number, t in enumerate(types):
        key = (t, size, number, turn)
        if key not in r.piles:
            r.piles[key] = r.array(t, "pile", size)
        piles.append(r.piles[key])
    at = f"thread_index / {simd}" if simd > 1 else "thread_index"
    writes = [f"{pile}[{at}] = {name};" for pile, name in zip(piles, names, strict=True)]
    if who:
        r.nested(f"if ({who.replace('{simd}', str(simd))}) {{", lambda: _lines(r, writes))
    else:
        _lines(r, writes)
    r.line(f"{r.dialect.barrier};")
    return piles


def _release(r: Renderer, op: Op) -> None:
    if r.depth > 1:
        r.barrier(op)


def _lines(r: Renderer, lines: Sequence[str]) -> None:
    for line in lines:
        r.line(line)


def _plus(first: str, at: str) -> str:
    return at if first == "0" else f"{first} + {at}"


def _combine(
    r: Renderer, body: Block, low: Sequence[str], high: Sequence[str], into: Sequence[str]
) -> None:
    """`into` = f(low, high), the region written in place."""
    changing = frozenset(into)
    for param, name in zip(body.params, (*low, *high), strict=True):
        r.expressions[param] = Expr(name, reads=frozenset([name]) & changing)
    r.block(body)
    r.assign(into, body.yielded)


def _variables(r: Renderer, op: Op, values: Sequence[object]) -> list[str]:
    names: list[str] = []
    for value, result in zip(op.args[: len(values)], op.results, strict=True):
        stem = result.name or op.surface.removeprefix("group_")
        names.append(_changing(r, element(value.type), stem, r.expr(value).text))
    return names


def _changing(r: Renderer, t: DType, stem: str, text: str) -> str:
    return r.variable(t, stem, text)


def _finish(r: Renderer, op: Op, names: Sequence[str]) -> None:
    for name, result in zip(names, op.results, strict=True):
        r.expressions[result] = Expr(name)
