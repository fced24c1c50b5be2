"""Group rows: thread numbers, and collectives inside a simdgroup or across simdgroups.

A collective wider than a simdgroup has three parts with cuts between them: each simdgroup gives
its partial result (`give`), the group combines them (`join`), each simdgroup takes its share
(`take`). The order of combination is the one `ir/ops/group` fixes.
"""

from __future__ import annotations

from iron.analysis.uniform import Uniformity
from iron.backends.cpu import together
from iron.backends.cpu.state import Emitter, Names
from iron.backends.cpu.types import each_lane, lanes, scalar
from iron.ir.core import Op, Value
from iron.ir.types import element


def is_wide(u: Uniformity, op: Op) -> bool:
    """True for a collective that reaches beyond one simdgroup and has to be cut."""
    if u.simdgroups == 1:
        return False
    if op.name == "exchange":
        return op.attr("mask") >= u.width and u.join(op.args) > 0
    if op.name == "scan":
        return reach(u, op) > u.width
    return op.name == "reduce" and reach(u, op) > u.width and u.join(op.args) > 0


def reach(u: Uniformity, op: Op) -> int:
    """How many threads a reduction or scan runs over."""
    return op.attr("width") or u.width * u.simdgroups


def _ll(value: Value) -> str:
    return scalar(element(value.type))


def _thread(e: Emitter, op: Op) -> list[Names]:
    dtype = op.attr("dtype")
    ll = scalar(dtype)
    base = e.number_of_first_lane(dtype)
    if e.lanes == 1:
        return [(base,)]
    ramp = each_lane(list(range(e.lanes)), ll)
    t = lanes(ll, e.lanes)
    return [(e.w.let(f"add {t} {e.w.splat(base, ll, e.lanes)}, {ramp}"),)]


def _group(e: Emitter, op: Op) -> list[Names]:
    name = f"%group{op.attr('axis')}"
    dtype = op.attr("dtype")
    return [(name if dtype.bits == 64 else e.w.let(f"trunc i64 {name} to {scalar(dtype)}"),)]


def _barrier(e: Emitter, op: Op) -> list[Names]:
    return []


# --- inside a simdgroup ---------------------------------------------------------------------------


def _tree(e: Emitter, op: Op, run: int) -> list[Names]:
    """Neighbours combined, then pairs of them, ..: one value for every `run` lanes.

    As long as the values fill more than a register each level halves them; inside one register
    each value meets its partner in place, which takes one shuffle instead of two.
    """
    values = [e.names(a, e.lanes) for a in op.args]
    width, held = e.lanes, 1
    for _ in range(run.bit_length() - 1):
        if width > _register(e, op):
            low = [_every(e, a, v, width, 0) for a, v in zip(op.args, values, strict=True)]
            high = [_every(e, a, v, width, 1) for a, v in zip(op.args, values, strict=True)]
            width //= 2
        else:
            at = [i ^ held for i in range(width)]
            low, held = values, 2 * held
            high = [_picked(e, a, v, width, at) for a, v in zip(op.args, values, strict=True)]
        values = e.combine(op.regions[0], [*low, *high], width)
    if held == 1:
        return values
    first = list(range(0, width, held))
    return [_picked(e, a, v, width, first) for a, v in zip(op.args, values, strict=True)]


def _register(e: Emitter, op: Op) -> int:
    """Lanes of the widest operand that one vector register holds; 1 where flags are combined."""
    x86 = e.target.triple.startswith("x86_64")
    size = 64 if e.target.has("avx512") else 32 if x86 else 16
    kinds = [element(a.type) for a in op.args]
    return 1 if any(k.kind == "b" for k in kinds) else size // max(k.bytes for k in kinds)


def _picked(e: Emitter, value: Value, names: Names, width: int, at: list[int]) -> Names:
    return tuple(e.w.pick(n, _ll(value), width, at) for n in names)


def _every(e: Emitter, value: Value, names: Names, width: int, start: int) -> Names:
    return _picked(e, value, names, width, list(range(start, width, 2)))


def _repeated(e: Emitter, op: Op, run: int) -> list[Names]:
    """The tree over equal values: one combination a level."""
    values = [e.names(a, 1) for a in op.args]
    for _ in range(run.bit_length() - 1):
        values = e.combine(op.regions[0], [*values, *values], 1)
    return values


def _reduce(e: Emitter, op: Op) -> list[Names]:
    u = e.uniform
    run = reach(u, op)
    inside = min(run, u.width)
    if u.join(op.args) < 2 or e.lanes == 1:
        values = first = _repeated(e, op, inside)
        for _ in range(1, max(1, run // u.width)):
            values = e.combine(op.regions[0], [*values, *first], 1)
        return values
    if inside == e.lanes and (joined := together.reduced(e, op)) is not None:
        return [joined]
    values = _tree(e, op, inside)
    spread = [i // inside for i in range(e.lanes)]
    out: list[Names] = []
    for result, names in zip(op.results, values, strict=True):
        if e.varies(result):
            count = e.lanes // inside
            names = tuple(e.w.pick(n, _ll(result), count, spread) for n in names)
        out.append(names)
    return out


def _running(e: Emitter, op: Op) -> list[Names]:
    """Inclusive combination inside runs of lanes, by doubling distances."""
    half = len(op.args) // 2
    run = min(reach(e.uniform, op), e.lanes)
    values = [e.names(a, e.lanes) for a in op.args[:half]]
    step = 1
    while step < run:
        at = [i - step if i % run >= step else i for i in range(e.lanes)]
        reached = _flags([i % run >= step for i in range(e.lanes)])
        before = [
            tuple(e.w.pick(n, _ll(a), e.lanes, at) for n in names)
            for a, names in zip(op.args, values, strict=False)
        ]
        joined = e.combine(op.regions[0], [*before, *values], e.lanes)
        values = [
            _chosen(e, a, reached, new, old)
            for a, new, old in zip(op.args, joined, values, strict=False)
        ]
        step *= 2
    return values


def _flags(which: list[bool]) -> str:
    return "<" + ", ".join(f"i1 {'true' if w else 'false'}" for w in which) + ">"


def _chosen(e: Emitter, like: Value, flags: str, a: Names, b: Names) -> Names:
    t, f = lanes(_ll(like), e.lanes), lanes("i1", e.lanes)
    return tuple(
        e.w.let(f"select {f} {flags}, {t} {x}, {t} {y}") for x, y in zip(a, b, strict=True)
    )


def _shifted(e: Emitter, op: Op, sums: list[Names]) -> list[Names]:
    """The sums of the lanes to the left; the unit enters each run."""
    half = len(op.args) // 2
    run = min(reach(e.uniform, op), e.lanes)
    at = [max(0, i - 1) for i in range(e.lanes)]
    inside = _flags([i % run > 0 for i in range(e.lanes)])
    out: list[Names] = []
    for value, unit, names in zip(op.args[:half], op.args[half:], sums, strict=True):
        left = tuple(e.w.pick(n, _ll(value), e.lanes, at) for n in names)
        out.append(_chosen(e, value, inside, left, e.names(unit, e.lanes)))
    return out


def _scan(e: Emitter, op: Op) -> list[Names]:
    half = len(op.args) // 2
    if e.lanes == 1:
        return [e.names(a) for a in (op.args[half:] if op.attr("exclusive") else op.args[:half])]
    sums = _running(e, op)
    return _shifted(e, op, sums) if op.attr("exclusive") else sums


def _exchange(e: Emitter, op: Op) -> list[Names]:
    (value,) = op.args
    names = e.names(value)
    mask = op.attr("mask") % e.uniform.width
    if not e.varies(value) or e.lanes == 1:
        return [names]
    return [_crossed(e, value, names, mask)]


def _crossed(e: Emitter, value: Value, names: Names, mask: int) -> Names:
    if mask == 0:
        return names
    at = [i ^ mask for i in range(e.lanes)]
    return tuple(e.w.pick(n, _ll(value), e.lanes, at) for n in names)


def _ballot(e: Emitter, op: Op) -> list[Names]:
    if e.lanes == 1:
        (bit,) = e.names(op.args[0])
        return [(e.w.let(f"zext i1 {bit} to i64"),)]
    (votes,) = e.names(op.args[0], e.lanes)
    bits = e.w.let(f"bitcast {lanes('i1', e.lanes)} {votes} to i{e.lanes}")
    return [(bits if e.lanes == 64 else e.w.let(f"zext i{e.lanes} {bits} to i64"),)]


# --- across simdgroups ----------------------------------------------------------------------------


def give(e: Emitter, op: Op) -> None:
    """Stores this simdgroup's part: totals for the group to join, and the lanes' own values."""
    if op.name == "exchange":
        (value,) = op.args
        _store(e, op, 0, [e.type(value)], [e.names(value)])
        return
    half = len(op.args) if op.name == "reduce" else len(op.args) // 2
    values, scalars = op.args[:half], [_ll(a) for a in op.args[:half]]
    if op.name == "reduce":
        varying = e.uniform.join(op.args) == 2
        totals = _tree(e, op, e.lanes) if varying else _repeated(e, op, e.lanes)
        _store(e, op, 0, scalars, totals)
        return
    sums = _running(e, op)
    last = [e.lanes - 1]
    totals = [
        tuple(e.w.pick(n, _ll(a), e.lanes, last) for n in names)
        for a, names in zip(values, sums, strict=True)
    ]
    _store(e, op, 0, scalars, totals)
    own = _shifted(e, op, sums) if op.attr("exclusive") else sums
    _store(e, op, 1, [lanes(t, e.lanes) for t in scalars], own)


def join(e: Emitter, op: Op) -> None:
    """Combines the simdgroups' totals from left to right, once a group.

    Row 2 of the partials receives, for a reduction, the total of each run; for a scan, the base
    of each simdgroup: the unit combined with all totals to its left in the run.
    """
    u = e.uniform
    per_run = reach(u, op) // u.width
    types = [_ll(a) for a in _combined(op)]
    counter = e.w.cell("i64")
    e.w.do(f"store i64 0, ptr {counter}")
    head, start, onward, placed, end = (
        e.w.fresh(p) for p in ("join", "start", "onward", "joined", "join_end")
    )
    e.w.jump(head)
    e.w.label(head)
    at = e.w.let(f"load i64, ptr {counter}")
    rest = e.w.let(f"urem i64 {at}, {per_run}")
    e.w.branch(e.w.let(f"icmp eq i64 {rest}, 0"), start, onward)
    is_scan = op.name == "scan"
    e.w.label(start)
    first = [e.names(v, 1) for v in op.args[len(types) :]] if is_scan else _read(e, op, 0, at)
    _write(e, op, 3, types, first, "0")
    e.w.jump(placed)
    e.w.label(onward)
    source = e.w.let(f"sub i64 {at}, 1") if is_scan else at
    so_far = _read(e, op, 3, "0")
    total = e.combine(op.regions[0], [*so_far, *_read(e, op, 0, source)], 1)
    _write(e, op, 3, types, total, "0")
    e.w.jump(placed)
    e.w.label(placed)
    row = at if is_scan else e.w.let(f"udiv i64 {at}, {per_run}")
    _write(e, op, 2, types, _read(e, op, 3, "0"), row)
    following = e.w.let(f"add i64 {at}, 1")
    e.w.do(f"store i64 {following}, ptr {counter}")
    e.w.branch(e.w.let(f"icmp ult i64 {following}, {u.simdgroups}"), head, end)
    e.w.label(end)


def take(e: Emitter, op: Op) -> list[Names]:
    """The results of a wide collective for this simdgroup."""
    u = e.uniform
    if op.name == "exchange":
        (value,) = op.args
        mask = op.attr("mask")
        other = e.w.let(f"xor i64 {e.simdgroup}, {mask // u.width}")
        (names,) = _read(e, op, 0, other)
        return [_crossed(e, value, names, mask % u.width) if e.varies(value) else names]
    per_run = reach(u, op) // u.width
    if op.name == "reduce":
        row = "0" if per_run == u.simdgroups else e.w.let(f"udiv i64 {e.simdgroup}, {per_run}")
        return _read(e, op, 2, row)
    half = len(op.args) // 2
    bases = _read(e, op, 2, e.simdgroup)
    spread = [
        tuple(e.w.splat(n, _ll(a), e.lanes) for n in names)
        for a, names in zip(op.args[:half], bases, strict=True)
    ]
    return e.combine(op.regions[0], [*spread, *_read(e, op, 1, e.simdgroup)], e.lanes)


def _combined(op: Op) -> tuple[Value, ...]:
    return op.args if op.name in ("reduce", "exchange") else op.args[: len(op.args) // 2]


def _store(e: Emitter, op: Op, row: int, types: list[str], values: list[Names]) -> None:
    _write(e, op, row, types, values, e.simdgroup)


def _write(e: Emitter, op: Op, row: int, types: list[str], values: list[Names], at: str) -> None:
    cells = _cells(e, op, row, types, [len(v) for v in values])
    for t, (cell, each), names in zip(types, cells, values, strict=True):
        for c, name in enumerate(names):
            e.w.do(f"store {t} {name}, ptr {_pointer(e, t, cell, each, at, c)}")


def _read(e: Emitter, op: Op, row: int, at: str) -> list[Names]:
    types, cells = e.partials[op, row]
    return [
        tuple(e.w.let(f"load {t}, ptr {_pointer(e, t, cell, each, at, c)}") for c in range(each))
        for t, (cell, each) in zip(types, cells, strict=True)
    ]


def _cells(
    e: Emitter, op: Op, row: int, types: list[str], counts: list[int]
) -> list[tuple[str, int]]:
    if (op, row) not in e.partials:
        copies = 1 if row == 3 else e.uniform.simdgroups
        made = [(e.w.cell(t, n * copies), n) for t, n in zip(types, counts, strict=True)]
        e.partials[op, row] = (types, made)
    return e.partials[op, row][1]


def _pointer(e: Emitter, t: str, cell: str, each: int, at: str, component: int) -> str:
    index = e.scaled(at, each)
    if component:
        index = e.w.let(f"add i64 {index}, {component}")
    return e.w.let(f"getelementptr {t}, ptr {cell}, i64 {index}")


RULES = {
    "thread": _thread,
    "group": _group,
    "barrier": _barrier,
    "reduce": _reduce,
    "scan": _scan,
    "exchange": _exchange,
    "ballot": _ballot,
}
