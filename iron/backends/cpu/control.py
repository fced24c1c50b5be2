"""Control rows inside a piece: branches and loops of scalars, masks where lanes disagree.

Results and carried values live in stack cells, which LLVM turns into registers. Under a mask a
cell is blended; every masked region is entered only when some lane is active.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iron.backends.cpu import guards, rows
from iron.backends.cpu.guards import all_hold, grown
from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter, Names, components
from iron.backends.cpu.types import each_lane, lanes, scalar
from iron.dtypes import DType, i64
from iron.ir.core import Block, Op, Value, carried, stop_flag
from iron.ir.table import Trait
from iron.ir.types import element

SELECTED = 24
"""Pure ops up to which both sides of a varying branch are computed and selected."""

DOUBLED = 400
"""Ops up to which a region is emitted twice, once for the case that all lanes are active."""

Cells = tuple[str, ...]


def _cells(e: Emitter, value: Value) -> Cells:
    return tuple(e.w.cell(e.type(value)) for _ in range(components(value)))


def _put(e: Emitter, value: Value, cells: Cells, names: Names, mask: str | None = None) -> None:
    t = e.type(value)
    for cell, name in zip(cells, names, strict=True):
        if mask is not None:
            old = e.w.let(f"load {t}, ptr {cell}")
            flags = lanes("i1", e.width(value))
            name = e.w.let(f"select {flags} {mask}, {t} {name}, {t} {old}")
        e.w.do(f"store {t} {name}, ptr {cell}")


def _take(e: Emitter, value: Value, cells: Cells) -> Names:
    return tuple(e.w.let(f"load {e.type(value)}, ptr {cell}") for cell in cells)


def _both(e: Emitter, a: str, b: str | None) -> str:
    return a if b is None else e.w.let(f"and {lanes('i1', e.lanes)} {a}, {b}")


def _inverse(e: Emitter, mask: str) -> str:
    ones = e.w.splat("true", "i1", e.lanes)
    return e.w.let(f"xor {lanes('i1', e.lanes)} {mask}, {ones}")


# --- branches -------------------------------------------------------------------------------------


def _if(e: Emitter, op: Op) -> list[Names]:
    condition = op.args[0]
    if not e.varies(condition) or e.lanes == 1:
        return _scalar_if(e, op)
    if _is_cheap(op):
        return _selected_if(e, op)
    return _masked_if(e, op)


def _is_cheap(op: Op) -> bool:
    inside = [o for side in op.regions for o in side.ops if o.name != "yield"]
    return len(inside) <= SELECTED and all(o.row.has(Trait.PURE) for o in inside)


def _selected_if(e: Emitter, op: Op) -> list[Names]:
    sides: list[list[Names]] = []
    for side in op.regions:
        with e.nested():
            sides.append([e.names(v, e.lanes) for v in e.body(side)])
    (condition,) = e.names(op.args[0])
    out: list[Names] = []
    for result, *pair in zip(op.results, *sides, strict=True):
        x = e.view(result)
        out.append(tuple(x.select(condition, a, b) for a, b in zip(*pair, strict=True)))
    return out


def _scalar_if(e: Emitter, op: Op) -> list[Names]:
    cells = [_cells(e, r) for r in op.results]
    (condition,) = e.names(op.args[0])
    yes, no, end = (e.w.fresh(p) for p in ("then", "else", "end"))
    e.w.branch(condition, yes, no)
    for label, side in zip((yes, no), op.regions, strict=True):
        e.w.label(label)
        _side(e, op, side, cells, None)
        e.w.jump(end)
    e.w.label(end)
    return [_take(e, r, c) for r, c in zip(op.results, cells, strict=True)]


def _side(e: Emitter, op: Op, side: Block, cells: list[Cells], blend: str | None) -> None:
    with e.nested():
        yielded = e.body(side)
        for result, cell, value in zip(op.results, cells, yielded, strict=True):
            _put(e, result, cell, e.names(value, e.width(result)), blend)


def _masked_if(e: Emitter, op: Op) -> list[Names]:
    cells = [_cells(e, r) for r in op.results]
    for result, cell in zip(op.results, cells, strict=True):
        _put(e, result, cell, ("zeroinitializer",) * len(cell))
    if e.mask is None and guards.is_long(op):
        guards.one_body(e, op)
        return []
    (condition,) = e.names(op.args[0])
    end = e.w.fresh("end")
    if e.mask is None and _gains_by_two_forms(op):
        _full_side(e, op, cells, end)
    for number, side in enumerate(op.regions):
        if number and len(side.ops) == 1 and not op.results:
            continue
        mask = _both(e, _inverse(e, condition) if number else condition, e.mask)
        go, past = e.w.fresh("some"), e.w.fresh("none")
        e.w.branch(e.w.any(mask, e.lanes), go, past)
        e.w.label(go)
        with e.masked(mask):
            _side(e, op, side, cells, mask if number else None)
        e.w.jump(past)
        e.w.label(past)
    e.w.jump(end)
    e.w.label(end)
    return [_take(e, r, c) for r, c in zip(op.results, cells, strict=True)]


def _full_side(e: Emitter, op: Op, cells: list[Cells], end: str) -> None:
    """The first side without a mask, for the case that all lanes take it and, where it splits flat
    indices into rows, that all lanes are in one row."""
    then = op.regions[0]
    splits = rows.splits(e, then)
    full, partial = e.w.fresh("full"), e.w.fresh("partial")
    whole = all_hold(e, op.args[0])
    with e.nested():
        for split in splits:
            whole = e.w.let(f"and i1 {whole}, {rows.stays_in_row(e, split)}")
        e.w.branch(whole, full, partial)
        e.w.label(full)
        strides = {v: stride for split in splits for v, stride in split.strides.items()}
        with e.strides.assuming(strides):
            _side(e, op, then, cells, None)
    e.w.jump(end)
    e.w.label(partial)


def _gains_by_two_forms(op: Op) -> bool:
    """True for a side alone with accesses in it: pure ops are the same with a mask and without."""
    inside = (o for o in op.regions[0].walk() if o.name not in ("yield", "if"))
    plain = all(o.row.has(Trait.PURE) for o in inside)
    return not plain and _is_small(op) and len(op.regions[1].ops) == 1


def _is_small(op: Op) -> bool:
    return sum(1 for region in op.regions for _ in region.walk()) <= DOUBLED


# --- loops ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop being emitted: its cells and the parts every form shares."""

    op: Op
    counter: Value
    params: tuple[Value, ...]
    cells: list[Cells]
    stop: Value | None

    @property
    def dtype(self) -> DType:
        """The counter's dtype."""
        return element(self.counter.type)

    def results(self, e: Emitter) -> list[Names]:
        """What the loop carried at its end, at the widths of its results."""
        return [_take(e, p, c) for p, c in zip(self.params, self.cells, strict=True)]


def _for(e: Emitter, op: Op) -> list[Names]:
    counter, *params = op.regions[0].params
    e.strides.counts(counter, op)
    loop = _Loop(op, counter, tuple(params), [_cells(e, p) for p in params], stop_flag(op))
    for param, cell, init in zip(params, loop.cells, op.args[3:], strict=True):
        _put(e, param, cell, e.names(init, e.width(param)))
    deciding = (*op.args[:3], loop.stop) if loop.stop is not None else op.args[:3]
    if e.lanes == 1 or not any(e.varies(v) for v in deciding):
        _scalar_for(e, loop)
        return loop.results(e)
    even = e.lane_stride(op.args[0]) is not None and not any(e.varies(v) for v in op.args[1:3])
    if even:
        _even_for(e, loop)
    else:
        _uneven_for(e, loop)
    return loop.results(e)


def _turn(e: Emitter, loop: _Loop, mask: str | None, blend: str | None, width: int) -> str | None:
    """One turn of the body, its counter bound by the caller; the stop flag at `width` lanes."""
    with e.masked(mask), e.nested(), e.turn(loop.op):
        for param, cell in zip(loop.params, loop.cells, strict=True):
            e.bind(param, _take(e, param, cell))
        e.body(loop.op.regions[0])
        stop = None
        if loop.stop is not None:
            (stop,) = e.names(loop.stop, width)
        new = [e.names(v, e.width(p)) for v, p in zip(carried(loop.op), loop.params, strict=True)]
        for param, cell, names in zip(loop.params, loop.cells, new, strict=True):
            _put(e, param, cell, names, blend if e.varies(param) else None)
    return stop


def _counted(e: Emitter, loop: _Loop) -> tuple[str, str, str]:
    """The low bound, high bound and step of lane 0 as i64, which no counter overflows."""
    low, high, step = (grown(e, e.first(v), loop.dtype) for v in loop.op.args[:3])
    return low, high, step


def _scalar_for(e: Emitter, loop: _Loop) -> None:
    low, high, step = _counted(e, loop)
    cell = e.w.cell("i64")
    e.w.do(f"store i64 {low}, ptr {cell}")
    head, turn, end = (e.w.fresh(p) for p in ("head", "turn", "end"))
    e.w.jump(head)
    e.w.label(head)
    at = e.w.let(f"load i64, ptr {cell}")
    e.w.branch(e.w.let(f"icmp slt i64 {at}, {high}"), turn, end)
    e.w.label(turn)
    with e.nested():
        e.bind(loop.counter, (_shrunk(e, at, loop.dtype, _no_wrap(loop.dtype)),))
        stop = _turn(e, loop, e.mask, None, 1)
    following = e.w.let(f"add nsw i64 {at}, {step}")
    e.w.do(f"store i64 {following}, ptr {cell}")
    if stop is None:
        e.w.jump(head)
    else:
        e.w.branch(stop, end, head)
    e.w.label(end)


def _shrunk(e: Emitter, name: str, dtype: DType, flag: str = "") -> str:
    if dtype.bits == 64:
        return name
    return e.w.let(f"trunc {flag} i64 {name} to {scalar(dtype)}")


def _no_wrap(dtype: DType) -> str:
    return "nsw" if dtype.kind == "i" else "nuw"


@dataclass(frozen=True, slots=True)
class _Even:
    """A loop whose lanes start `stride` apart and step together; `at` holds lane 0's counter."""

    loop: _Loop
    at: str
    high: str
    step: str
    stride: int
    alive: str | None


def _even_for(e: Emitter, loop: _Loop) -> None:
    """Turns in which every lane is active come first and need no mask, then masked ones."""
    low, high, step = _counted(e, loop)
    stride = e.lane_stride(loop.op.args[0]) or 0
    at_cell = e.w.cell("i64")
    e.w.do(f"store i64 {low}, ptr {at_cell}")
    even = _Even(loop, at_cell, high, step, stride, _alive_cell(e, loop))
    if e.mask is None and _is_small(loop.op):
        _full_turns(e, even)
    head, turn, end = (e.w.fresh(p) for p in ("head", "turn", "end"))
    e.w.jump(head)
    e.w.label(head)
    at = e.w.let(f"load i64, ptr {at_cell}")
    wide = Lanes(e.w, i64, e.lanes)
    ramp = each_lane([i * stride for i in range(e.lanes)], "i64")
    here = wide.op("add", e.w.splat(at, "i64", e.lanes), ramp)
    mask = wide.compare("slt", here, e.w.splat(high, "i64", e.lanes))
    _masked_turn(e, mask, even.alive, turn, end, lambda m: _even_turn(e, even, m, head))


def _full_turns(e: Emitter, even: _Even) -> None:
    head, turn, tail = (e.w.fresh(p) for p in ("full_head", "full", "tail"))
    e.w.jump(head)
    e.w.label(head)
    at = e.w.let(f"load i64, ptr {even.at}")
    furthest = max(0, even.stride * (e.lanes - 1))
    last = e.w.let(f"add nsw i64 {at}, {furthest}")
    whole = e.w.let(f"icmp slt i64 {last}, {even.high}")
    if even.alive is not None:
        flags = e.w.let(f"load {lanes('i1', e.lanes)}, ptr {even.alive}")
        whole = e.w.let(f"and i1 {whole}, {e.w.all(flags, e.lanes)}")
    e.w.branch(whole, turn, tail)
    e.w.label(turn)
    _even_turn(e, even, None, head)
    e.w.label(tail)


def _even_turn(e: Emitter, even: _Even, mask: str | None, again: str) -> None:
    at = e.w.let(f"load i64, ptr {even.at}")
    with e.nested():
        _bind_even_counter(e, even.loop, at, even.stride)
        stop = _turn(e, even.loop, mask, mask, e.lanes)
    e.w.do(f"store i64 {e.w.let(f'add nsw i64 {at}, {even.step}')}, ptr {even.at}")
    if stop is not None and even.alive is not None:
        _retire(e, even.alive, stop, mask)
    e.w.jump(again)


def _alive_cell(e: Emitter, loop: _Loop) -> str | None:
    """Lanes that have not stopped; None for a loop that cannot stop early."""
    if loop.stop is None:
        return None
    flags = lanes("i1", e.lanes)
    alive = e.w.cell(flags)
    e.w.do(f"store {flags} {e.w.splat('true', 'i1', e.lanes)}, ptr {alive}")
    return alive


def _masked_turn(
    e: Emitter,
    mask: str,
    alive: str | None,
    turn: str,
    end: str,
    body: Callable[[str], None],
) -> None:
    """Runs `body` under `mask`, the lanes alive and those active outside; leaves when none is."""
    if alive is not None:
        mask = _both(e, mask, e.w.let(f"load {lanes('i1', e.lanes)}, ptr {alive}"))
    mask = _both(e, mask, e.mask)
    e.w.branch(e.w.any(mask, e.lanes), turn, end)
    e.w.label(turn)
    body(mask)
    e.w.label(end)


def _retire(e: Emitter, alive: str, stop: str, mask: str | None) -> None:
    flags = lanes("i1", e.lanes)
    stopping = _both(e, stop, mask)
    old = e.w.let(f"load {flags}, ptr {alive}")
    e.w.do(f"store {flags} {_both(e, old, _inverse(e, stopping))}, ptr {alive}")


def _bind_even_counter(e: Emitter, loop: _Loop, at: str, stride: int) -> None:
    flag = _no_wrap(loop.dtype) if stride >= 0 else ""  # else lane 0 may have left the loop
    first = _shrunk(e, at, loop.dtype, flag)
    if not e.varies(loop.counter):
        e.bind(loop.counter, (first,))
        return
    x = e.view(loop.counter)
    ramp = each_lane([i * stride for i in range(e.lanes)], x.ll)
    vector = x.op("add", e.w.splat(first, x.ll, e.lanes), ramp)
    e.bind(loop.counter, (vector,))
    e.scope.anchors[loop.counter] = first


def _uneven_for(e: Emitter, loop: _Loop) -> None:
    """Every lane has its own bounds; a lane leaves when its next turn would pass its high bound."""
    x = Lanes(e.w, loop.dtype, e.lanes)
    low, high, step = (e.names(v, e.lanes)[0] for v in loop.op.args[:3])
    at_cell, alive = e.w.cell(x.t), e.w.cell(x.flags)
    e.w.do(f"store {x.t} {low}, ptr {at_cell}")
    e.w.do(f"store {x.flags} {x.order('lt', low, high)}, ptr {alive}")
    head, turn, end = (e.w.fresh(p) for p in ("head", "turn", "end"))
    e.w.jump(head)
    e.w.label(head)
    now = e.w.let(f"load {x.flags}, ptr {alive}")

    def body(mask: str) -> None:
        at = e.w.let(f"load {x.t}, ptr {at_cell}")
        with e.nested():
            if e.varies(loop.counter):
                e.bind(loop.counter, (at,))
            else:
                e.bind(loop.counter, (e.w.pick(at, x.ll, e.lanes, [0]),))
            stop = _turn(e, loop, mask, mask, e.lanes)
        more = x.compare("ugt", x.op("sub", high, at), step)
        e.w.do(f"store {x.t} {x.op('add', at, step)}, ptr {at_cell}")
        going = _both(e, now, more)
        if stop is not None:
            going = _both(e, going, _inverse(e, stop))
        e.w.do(f"store {x.flags} {going}, ptr {alive}")
        e.w.jump(head)

    _masked_turn(e, now, None, turn, end, body)


RULES = {"if": _if, "for": _for}
