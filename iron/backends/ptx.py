"""Rings, bulk copies and products of warpgroups as CUDA text: a function of inline PTX for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from iron.backends.clike.expression import PRODUCT, SUM, UNARY, Expr
from iron.dtypes import u64
from iron.ir.core import Op, Value
from iron.ir.ops.ring import PANEL_BYTES, bytes_of, panel
from iron.ir.types import Tensor
from iron.targets.atoms.nvidia import operand

if TYPE_CHECKING:
    from iron.backends.clike.render import Renderer

ALIGN = 1024
"""Bytes after which the pattern of a swizzle begins anew."""
K_BYTES = 32
"""Bytes along k of one instruction."""

WGMMA_NAMES = {"f32": "tf32", "i8": "s8"}
"""Operands that PTX calls otherwise; the unit reads the bits of tf32 in an f32."""


def _shape(value: Value) -> Tensor:
    assert isinstance(value.type, Tensor)
    return value.type


def _in_slot(r: Renderer, part: Value, slot: Value, more: Sequence[Expr] = ()) -> str:
    """The address of an element of a part in a slot."""
    t, at = _shape(part), r.expr(slot)
    size = int(np.prod(t.shape[1:]))
    terms = [Expr(f"{at.at(PRODUCT)} * {size}", PRODUCT)] if at.text != "0" else []
    terms += [e for e in more if e.text != "0"]
    base = r.expr(part).text
    return " + ".join([base, *(t.at(SUM + 1) for t in terms)])


def registers(r: Renderer, op: Op) -> None:
    """An array of the thread."""
    t = op.attrs[0]
    name = r.fresh(op.results[0].name or "held")
    r.line(f"{t.elem} {name}[{t.shape[0]}];")
    r.expressions[op.results[0]] = Expr(name)


def slots(r: Renderer, op: Op) -> None:
    """Group memory."""
    t, (result,) = op.attrs[0], op.results
    size = int(np.prod(t.shape))
    r.expressions[result] = Expr(r.array(t.elem, result.name or "slots", size, ALIGN))


def ring(r: Renderer, op: Op) -> None:
    """Barriers that tell a slot to be full, then those that tell it to be free.

    Before the first ring, what describes the copies is sent for: it is far away as well.
    """
    if op is next(o for o in r.kernel.body.walk() if o.name == "ring"):
        for name in r.maps.values():
            r.line(f"iron_prefetch_map(&{name});")
    _, count, readers = op.attrs
    for result in op.results[1:]:
        t = _shape(result)
        size = int(np.prod(t.shape))
        r.expressions[result] = Expr(r.array(t.elem, result.name or "part", size, ALIGN))
    name = r.array(u64, op.results[0].name or "ring", 2 * count)
    r.expressions[op.results[0]] = Expr(name)
    r.line(f"iron_ring_open({name}, {count}, {readers});")


def _made(value: Value) -> Op:
    assert value.op is not None
    return value.op


def ring_claim(r: Renderer, op: Op) -> None:
    """Waits, then promises."""
    name, slot, phase = (r.expr(a).text for a in op.args)
    parts, count, _ = _made(op.args[0]).attrs
    bytes = sum(map(bytes_of, parts))
    r.line(f"iron_ring_claim({name}, {count}, {slot}, {phase}, {bytes});")


def _coordinates(r: Renderer, op: Op, places: Sequence[Value], column: int) -> str:
    """The axis of neighbours first; an end last, as `TensorMap` has it."""
    texts = [r.expr(p) for p in places]
    if op.attr("ended"):
        *texts, end = texts
        row = op.attr("axes")[0]
        moved = f"(i32){r.length(op)} - {end.at(SUM + 1)} + {texts[row].at(SUM + 1)}"
        texts[row] = Expr(moved, SUM)
        texts.insert(0, end)
    texts.reverse()
    first = texts[0].text if not column else f"{texts[0].at(SUM)} + {column}"
    if column and texts[0].text == "0":
        first = str(column)
    return ", ".join([first, *(t.text for t in texts[1:])])


def ring_copy(r: Renderer, op: Op) -> None:
    """A copy for each panel."""
    part, barriers, slot, _, *place = op.args
    t, name = _shape(part), r.expr(barriers).text
    at = r.expr(slot).at(SUM)
    for first in range(0, t.shape[2], panel(t)):
        to = _in_slot(r, part, slot, [Expr(str(first * t.shape[1]))])
        where = _coordinates(r, op, place, first)
        r.line(f"iron_copy_{len(place)}d({to}, &{r.map(op)}, {name} + {at}, {where});")


def ring_wait(r: Renderer, op: Op) -> None:
    """The slot's first barrier."""
    name, slot, phase = (r.expr(a) for a in op.args)
    r.line(f"iron_mbarrier_wait({name.text} + {slot.at(SUM)}, {phase.text});")


def ring_free(r: Renderer, op: Op) -> None:
    """One thread of the warpgroup arrives."""
    name, slot = (r.expr(a).text for a in op.args)
    r.line(f"iron_ring_free({name}, {_made(op.args[0]).attrs[1]}, {slot});")


def wgmma(r: Renderer, op: Op) -> None:
    """An instruction for each 32 bytes along k."""
    acc, a, a_slot, a_row, b, b_slot, keep = op.args
    a_k, b_k, depth, floats = op.attrs
    ta, tb = _shape(a), _shape(b)
    row = r.expr(a_row)
    per_row = panel(ta) if a_k else ta.shape[1]
    at = [] if row.text == "0" else [Expr(f"{row.at(PRODUCT)} * {per_row}", PRODUCT)]
    left = _descriptor(r, a, _in_slot(r, a, a_slot, at), a_k)
    right = _descriptor(r, b, _in_slot(r, b, b_slot), b_k)
    n = 2 * _shape(acc).shape[0]
    x, y = (floats or WGMMA_NAMES.get(t.elem.name, t.elem.name) for t in (ta, tb))
    name = f"iron_wgmma_m64n{n}_{x}"
    name += f"<{int(not a_k)}, {int(not b_k)}>" if ta.elem.bytes == 2 else f"_{y}"
    r.line("iron_wgmma_fence();")
    held = r.expr(acc).text
    for step in range(depth * ta.elem.bytes // K_BYTES):
        places = [_moved(left, ta, a_k, step), _moved(right, tb, b_k, step)]
        kept = f"(i32){r.expr(keep).at(UNARY)}" if step == 0 else "1"
        r.line(f"{name}({held}, {places[0]}, {places[1]}, {kept});")
    r.line("iron_wgmma_commit();")


def wgmma_a(r: Renderer, op: Op) -> None:
    """An instruction for each four words."""
    acc, words, b, b_slot, keep = op.args
    dtype, b_k = op.attrs
    t = _shape(b)
    right = _descriptor(r, b, _in_slot(r, b, b_slot), b_k)
    name = f"iron_wgmma_a_m64n{2 * _shape(acc).shape[0]}_{dtype}<{int(not b_k)}>"
    r.line("iron_wgmma_fence();")
    for step in range(_shape(words).shape[0] // 4):
        a = r.expr(words).text + (f" + {4 * step}" if step else "")
        kept = f"(i32){r.expr(keep).at(UNARY)}" if step == 0 else "1"
        r.line(f"{name}({r.expr(acc).text}, {a}, {_moved(right, t, b_k, step)}, {kept});")
    r.line("iron_wgmma_commit();")


def _descriptor(r: Renderer, part: Value, at: str, k_major: bool) -> str:
    """A named descriptor of a part's first instruction."""
    t = _shape(part)
    rows, depth = t.shape[1:] if k_major else t.shape[:0:-1]
    walk = operand(k_major, PANEL_BYTES, rows, depth)
    text = f"iron_descriptor({at}, {walk.leading}, {walk.stride})"
    return r.constant("u64", f"{r.expr(part).text}_tile", text)


def _moved(name: str, t: Tensor, k_major: bool, step: int) -> str:
    """The descriptor of the instruction number `step`: addresses count 16 bytes."""
    within = PANEL_BYTES // K_BYTES if k_major else step + 1
    walk = operand(k_major, PANEL_BYTES, t.shape[1], t.shape[1])
    bytes = step // within * t.shape[1] * PANEL_BYTES + step % within * walk.step
    return f"{name} + {bytes // 16}" if bytes else name


def wgmma_wait(r: Renderer, op: Op) -> None:
    """Each product is a group."""
    r.line(f"iron_wgmma_wait<{op.attrs[0]}>();")


def pair(r: Renderer, op: Op) -> None:
    """Packed by one instruction."""
    low, high = (r.expr(a) for a in op.args)
    made = Expr(f"iron_pair_{op.attrs[0]}({low.text}, {high.text})", reads=low.reads | high.reads)
    r.place(op.results[0], made, op)


def greater(r: Renderer, op: Op) -> None:
    """One instruction, where `max` has to mind the signs of zeros."""
    _bound(r, op, "max")


def lesser(r: Renderer, op: Op) -> None:
    """The other way."""
    _bound(r, op, "min")


def _bound(r: Renderer, op: Op, name: str) -> None:
    a, b = (r.expr(x) for x in op.args)
    made = Expr(f"iron_{name}_bound_f32({a.text}, {b.text})", reads=a.reads | b.reads)
    r.place(op.results[0], made, op)


def stmatrix(r: Renderer, op: Op) -> None:
    """The lanes' addresses are found inside."""
    to, slot, *rest = op.args
    given = ", ".join(r.expr(a).text for a in rest)
    name = "iron_stmatrix_turned" if op.attr("turned") else "iron_stmatrix"
    r.line(f"{name}({_in_slot(r, to, slot)}, {_shape(to).shape[1]}, {given});")


def part_store(r: Renderer, op: Op) -> None:
    """One place, one or two elements."""
    to, slot, *rest = op.args
    given = ", ".join(r.expr(a).text for a in rest)
    name = "iron_part_store2" if len(rest) == 4 else "iron_part_store"
    r.line(f"{name}({_in_slot(r, to, slot)}, {_shape(to).shape[1]}, {given});")


def bulk_store(r: Renderer, op: Op) -> None:
    """A store for each panel, in one group."""
    part, slot, _, *place = op.args
    t = _shape(part)
    for first in range(0, t.shape[2], panel(t)):
        at = _in_slot(r, part, slot, [Expr(str(first * t.shape[1]))])
        where = _coordinates(r, op, place, first)
        r.line(f"iron_store_{len(place)}d(&{r.map(op)}, {at}, {where});")
    r.line("iron_bulk_commit();")


def bulk_wait(r: Renderer, op: Op) -> None:
    """Of this thread's groups."""
    pending, read = op.attrs
    r.line(f"iron_bulk_wait{'_read' if read else ''}<{pending}>();")


def fence_async(r: Renderer, op: Op) -> None:
    """Between the two kinds of access."""
    r.line("iron_fence_async();")


def part_barrier(r: Renderer, op: Op) -> None:
    """A named barrier."""
    r.line(f"iron_part_barrier({r.expr(op.args[0]).text}, {op.attrs[0]});")


def part_arrive(r: Renderer, op: Op) -> None:
    """Its threads are counted."""
    r.line(f"iron_part_arrive({r.expr(op.args[0]).text}, {op.attrs[0]});")


def register_limit(r: Renderer, op: Op) -> None:
    """The count is part of the instruction."""
    count, grow = op.attrs
    r.line(f"iron_{'more' if grow else 'fewer'}_registers<{count}>();")


RULES: dict[str, Callable[[Renderer, Op], None]] = {
    rule.__name__: rule
    for rule in (
        *(registers, slots, ring, ring_claim, ring_copy, ring_wait, ring_free),
        *(wgmma, wgmma_a, wgmma_wait, pair, greater, lesser),
        *(stmatrix, part_store, fence_async),
        *(bulk_store, bulk_wait, part_barrier, part_arrive, register_limit),
    )
}
