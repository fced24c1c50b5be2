"""Memory rows: loads and stores by the class of their address, atomics, shared arrays, tables.

A uniform address is a scalar access, neighbouring lanes at neighbouring elements are one wide
access, a small constant stride is a few wide loads and shuffles, anything else a gather or
scatter. Lanes that are masked off touch no memory.
"""

from __future__ import annotations

from iron.backends.cpu import arith, runs, steps
from iron.backends.cpu.address import Address, address
from iron.backends.cpu.ahead import LINE, prefetch
from iron.backends.cpu.gather import each_active_lane, gather, scatter
from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter, Names, Runs
from iron.backends.cpu.transpose import turned
from iron.backends.cpu.types import in_memory, lanes, suffix
from iron.dtypes import DType, u8
from iron.ir.core import Op
from iron.ir.types import Tensor

WIDEST = 64
"""Elements of the widest vector that is shuffled at once."""

STREAM_ALIGN = 16
"""Bytes of the least aligned streaming store, which is what allocators give."""

FARTHEST = 4
"""The greatest lane stride served by wide loads and shuffles."""


def _load(e: Emitter, op: Op) -> list[Names | Runs]:
    buffer, *indices = op.args
    axis = steps.open_axis(e, buffer, indices)
    inside = not op.attr("count") or axis == len(indices) - 1  # else lanes have runs of their own
    if axis is not None and inside:
        return steps.either(e, op, axis, lambda where: _load_at(e, op, where))
    return _load_at(e, op, address(e, buffer, indices))


def _load_at(e: Emitter, op: Op, where: Address) -> list[Names | Runs]:
    buffer, *indices = op.args
    (result,) = op.results
    elem, n = buffer.type.elem, op.attr("count") or 1  # type: ignore[union-attr]
    length = runs.of_pattern(e, where.pattern) if n == 1 else 1
    if e.mask is None and where.stride != 0:
        e.read.add(buffer)
        e.in_order = e.in_order and _is_in_order(e, where, n)
    across = turned(e, elem, buffer, indices, n) if where.stride is None else None
    if across is not None:
        raw, width = across, e.lanes
    elif length > 1:
        raw, width = [_scattered_load(e, elem, where, 0, length)], e.lanes // length
    else:
        raw, width = _parts(e, elem, where, n)
    if where.stride == n and (n == 1 or where.step == "1"):
        prefetch(e, buffer, indices, where.base, e.lanes * n * elem.bytes)
    if elem.kind == "b":
        x = Lanes(e.w, u8, width)
        raw = [x.compare("ne", r, x.const(0)) for r in raw]
    return [Runs(e.lanes // width, tuple(raw)) if width != e.width(result) else tuple(raw)]


def _parts(e: Emitter, elem: DType, where: Address, n: int) -> tuple[list[str], int]:
    """`n` neighbours in memory form, and at how many lanes."""
    if n > 1 and where.step != "1":
        single = [_parts(e, elem, where.neighbour(e, j), 1) for j in range(n)]
        return [parts[0] for parts, _ in single], single[0][1]
    if where.stride == 0:
        return _uniform_load(e, elem, where, n), 1
    if where.stride == n:
        return _contiguous_load(e, elem, where, n), e.lanes
    if where.stride is not None and abs(where.stride) <= FARTHEST:
        return [_spaced_load(e, elem, where, j) for j in range(n)], e.lanes
    if where.pattern is not None and _is_near(e, where.pattern):
        return [_scattered_load(e, elem, where, j) for j in range(n)], e.lanes
    return gather(e, elem, where, n), e.lanes


def _is_in_order(e: Emitter, where: Address, n: int) -> bool:
    if where.stride is None:
        return where.pattern is not None and _is_near(e, where.pattern)
    return 0 <= where.stride <= max(n, FARTHEST)


def _is_near(e: Emitter, pattern: tuple[int, ...]) -> bool:
    return max(pattern) - min(pattern) < FARTHEST * e.lanes


def _scattered_load(
    e: Emitter, elem: DType, where: Address, component: int, length: int = 1
) -> str:
    """Lanes at known places close together: one wide load and a shuffle. Of lanes that are equal
    in runs of `length`, one for each run."""
    assert where.pattern is not None
    low = min(where.pattern)
    places = [p - low for p in where.pattern]
    users: list[list[int]] = [[] for _ in range(max(places) + 1)]
    for lane, place in enumerate(places):
        users[place].append(lane)
    whole = _shared_load(e, elem, where.at(e, low + component), users)
    return e.w.pick(whole, where.ll, len(users), places[::length])


def _shared_load(e: Emitter, elem: DType, pointer: str, users: list[list[int]]) -> str:
    """Neighbouring elements, each read when one of its users is active."""
    if e.mask is None:
        return _wide_load(e, elem, pointer, [0] * len(users))
    flags, t = "", lanes("i1", len(users))
    for turn in range(max(map(len, users))):
        some = _mask_of(e, [u[turn] if turn < len(u) else -1 for u in users])
        flags = e.w.let(f"or {t} {flags}, {some}") if flags else some
    return _masked_load(e, elem, pointer, len(users), flags)


def _uniform_load(e: Emitter, elem: DType, where: Address, n: int) -> list[str]:
    return [e.w.let(f"load {where.ll}, ptr {where.at(e, j)}, align {elem.bytes}") for j in range(n)]


def _contiguous_load(e: Emitter, elem: DType, where: Address, n: int) -> list[str]:
    """Components of lanes whose elements lie one after another, a block of lanes at a time."""
    block = _lanes_at_once(e, n)
    parts: list[list[str]] = [[] for _ in range(n)]
    for start in range(0, e.lanes, block):
        owners = [start + i // n for i in range(block * n)]
        whole = _wide_load(e, elem, where.at(e, start * n), owners)
        for j in range(n):
            at = [i * n + j for i in range(block)]
            parts[j].append(whole if n == 1 else e.w.pick(whole, where.ll, block * n, at))
    return [e.w.concat(p, where.ll, block) for p in parts]


def _lanes_at_once(e: Emitter, n: int) -> int:
    """How many lanes' neighbours fit the widest vector: a power of two or all lanes."""
    block = 1
    while 2 * block * n <= WIDEST:
        block *= 2
    return min(e.lanes, block)


def _wide_load(e: Emitter, elem: DType, pointer: str, owners: list[int]) -> str:
    """Neighbouring elements; `owners` says which lane needs each one (-1: none does)."""
    ll = in_memory(elem)
    t = lanes(ll, len(owners))
    if e.mask is None:
        return e.w.let(f"load {t}, ptr {pointer}, align {elem.bytes}")
    mask = _mask_of(e, owners)
    if len(owners) == 1:
        return _load_if(e, t, pointer, mask, elem)
    return _masked_load(e, elem, pointer, len(owners), mask)


def _masked_load(e: Emitter, elem: DType, pointer: str, count: int, mask: str) -> str:
    """The elements that `mask` names, zeros for others."""
    ll = in_memory(elem)
    t = lanes(ll, count)
    return e.w.call(
        t,
        f"llvm.masked.load.{suffix(ll, count)}.p0",
        (f"ptr align {elem.bytes}", pointer),
        (lanes("i1", count), mask),
        (t, "zeroinitializer"),
    )


def _load_if(e: Emitter, t: str, pointer: str, condition: str, elem: DType) -> str:
    cell = e.w.cell(t)
    e.w.do(f"store {t} zeroinitializer, ptr {cell}")
    safe = e.w.let(f"select i1 {condition}, ptr {pointer}, ptr {cell}")
    return e.w.let(f"load {t}, ptr {safe}, align {elem.bytes}")


def _mask_of(e: Emitter, owners: list[int]) -> str:
    assert e.mask is not None
    if owners == list(range(e.lanes)):
        return e.mask
    at = [e.lanes if o < 0 else o for o in owners]
    return e.w.pick(e.mask, "i1", e.lanes, at, "zeroinitializer")


def _spaced_load(e: Emitter, elem: DType, where: Address, component: int) -> str:
    """Lanes a few elements apart: wide loads that end at the last element used, then a shuffle."""
    assert where.stride is not None
    width, step = e.lanes, abs(where.stride)
    reverse = where.stride < 0
    last = (width - 1) * step
    starts = [k * width for k in range(step - 1)] + [last + 1 - width]
    lowest = component - (last if reverse else 0)

    def owner(element: int) -> int:
        lane, off = divmod(element, step)
        return -1 if off else (width - 1 - lane if reverse else lane)

    parts = [
        _wide_load(e, elem, where.at(e, lowest + s), [owner(s + i) for i in range(width)])
        for s in starts
    ]
    places: list[int] = []
    for lane in range(width):
        element = (width - 1 - lane if reverse else lane) * step
        part = min(element // width, step - 1)
        places.append(part * width + element - starts[part])
    if places == list(range(width)):
        return parts[0]
    whole = e.w.concat(parts, where.ll, width)
    return e.w.pick(whole, where.ll, width * len(parts), places)


# --- stores ---------------------------------------------------------------------------------------


def _store(e: Emitter, op: Op) -> list[Names]:
    buffer, *indices, value = op.args
    elem: DType = buffer.type.elem  # type: ignore[union-attr]
    where = address(e, buffer, indices)
    uniform = where.stride == 0
    names = _chosen(e, op) if uniform else list(e.names(value, e.lanes))
    if elem.kind == "b":
        x = Lanes(e.w, elem, 1 if uniform else e.lanes)
        names = [x.convert("zext", name, "i8") for name in names]
    stream = buffer in e.streamed
    if len(names) > 1 and where.step != "1":
        for j, name in enumerate(names):
            _store_parts(e, elem, where.neighbour(e, j), [name], stream)
    else:
        _store_parts(e, elem, where, names, stream)
    return []


def _store_parts(e: Emitter, elem: DType, where: Address, names: list[str], stream: bool) -> None:
    """Neighbours in memory form, scalars where the address is uniform."""
    n = len(names)
    if where.stride == 0:
        for j, name in enumerate(names):
            e.w.do(f"store {where.ll} {name}, ptr {where.at(e, j)}, align {elem.bytes}")
    elif where.stride == n:
        _contiguous_store(e, elem, where, names, stream)
    elif where.stride == -1 and n == 1:
        backwards = list(reversed(range(e.lanes)))
        turned = e.w.pick(names[0], where.ll, e.lanes, backwards)
        _wide_store(e, elem, where.at(e, 1 - e.lanes), turned, backwards)
    else:
        scatter(e, elem, where, names)


def _chosen(e: Emitter, op: Op) -> list[str]:
    """The value to store at a uniform address: only one lane may be active there."""
    value = op.args[-1]
    names = e.names(value)
    if not e.varies(value) or e.lanes == 1:
        return list(names)
    at = "0" if e.mask is None else e.w.first_set(e.mask, e.lanes)
    return [e.w.let(f"extractelement {e.type(value)} {n}, i32 {at}") for n in names]


def _contiguous_store(
    e: Emitter, elem: DType, where: Address, names: list[str], stream: bool
) -> None:
    n = len(names)
    block = _lanes_at_once(e, n)
    for start in range(0, e.lanes, block):
        here = list(range(start, start + block))
        if n == 1 and block == e.lanes:
            whole = names[0]
        else:
            parts = [
                name if block == e.lanes else e.w.pick(name, where.ll, e.lanes, here)
                for name in names
            ]
            joined = e.w.concat(parts, where.ll, block)
            mixed = [i % n * block + i // n for i in range(block * n)]
            whole = joined if n == 1 else e.w.pick(joined, where.ll, block * n, mixed)
        owners = [start + i // n for i in range(block * n)]
        pointer = where.at(e, start * n)
        if stream and e.mask is None and len(owners) * elem.bytes % LINE == 0:
            _streaming_store(e, elem, pointer, lanes(where.ll, len(owners)), whole)
        else:
            _wide_store(e, elem, pointer, whole, owners)


def _streaming_store(e: Emitter, elem: DType, pointer: str, t: str, value: str) -> None:
    """Past the caches if this launch wants it and the place is aligned: best to a whole line."""
    number = e.w.let(f"ptrtoint ptr {pointer} to i64")
    wanted = e.w.let("icmp ne i64 %streams, 0")
    end = e.w.fresh("stored")
    for align in (LINE, STREAM_ALIGN):
        rest = e.w.let(f"and i64 {number}, {align - 1}")
        aligned = e.w.let(f"icmp eq i64 {rest}, 0")
        past, through = e.w.fresh("past"), e.w.fresh("through")
        e.w.branch(e.w.let(f"and i1 {wanted}, {aligned}"), past, through)
        e.w.label(past)
        form, streamed = _as_words(e, elem, t, value)
        e.w.do(f"store {form} {streamed}, ptr {pointer}, align {align}, !nontemporal !0")
        e.w.jump(end)
        e.w.label(through)
    e.w.do(f"store {t} {value}, ptr {pointer}, align {elem.bytes}")
    e.w.jump(end)
    e.w.label(end)


def _as_words(e: Emitter, elem: DType, t: str, value: str) -> tuple[str, str]:
    """Vectors of 16-bit floats as ones of integers, from which LLVM cannot tell them apart.

    It has streaming stores of the latter only on x86-64 and forgets the hint on the former, which
    it finds behind any bit cast. Where stores are streamed `%streams` is 1.
    """
    if elem.kind != "s" or not e.target.triple.startswith("x86_64"):
        return t, value
    count = int(t.split()[0][1:]) // 2
    form = lanes("i32", count)
    nothing = e.w.let(f"trunc i64 {e.w.let('sub i64 %streams, 1')} to i32")
    bits = e.w.let(f"bitcast {t} {value} to {form}")
    return form, e.w.let(f"xor {form} {bits}, {e.w.splat(nothing, 'i32', count)}")


def _wide_store(e: Emitter, elem: DType, pointer: str, value: str, owners: list[int]) -> None:
    ll = in_memory(elem)
    t = lanes(ll, len(owners))
    if e.mask is None:
        e.w.do(f"store {t} {value}, ptr {pointer}, align {elem.bytes}")
        return
    mask = _mask_of(e, owners)
    if len(owners) == 1:
        spare = e.w.cell(t)
        safe = e.w.let(f"select i1 {mask}, ptr {pointer}, ptr {spare}")
        e.w.do(f"store {t} {value}, ptr {safe}, align {elem.bytes}")
        return
    e.w.call(
        "void",
        f"llvm.masked.store.{suffix(ll, len(owners))}.p0",
        (t, value),
        (f"ptr align {elem.bytes}", pointer),
        (lanes("i1", len(owners)), mask),
    )


# --- atomics, places ------------------------------------------------------------------------------

_ATOMIC = {
    "add": ("add", "add"),
    "min": ("min", "umin"),
    "max": ("max", "umax"),
    "and": ("and", "and"),
    "or": ("or", "or"),
    "xor": ("xor", "xor"),
}


def _atomic(e: Emitter, op: Op) -> list[Names]:
    buffer, *indices, value = op.args
    (result,) = op.results
    where = address(e, buffer, indices)
    (operand,) = e.names(value, e.lanes)
    if e.lanes == 1:
        return [(_exchange(e, op, where.base, operand),)]
    t = lanes(where.ll, e.lanes)
    values, old = e.w.cell(t), e.w.cell(t)
    e.w.do(f"store {t} {operand}, ptr {values}")
    e.w.do(f"store {t} zeroinitializer, ptr {old}")
    with each_active_lane(e, where) as (lane, pointer):
        from_lane = e.w.let(f"getelementptr {where.ll}, ptr {values}, i64 {lane}")
        mine = e.w.let(f"load {where.ll}, ptr {from_lane}")
        before = _exchange(e, op, pointer, mine)
        to_lane = e.w.let(f"getelementptr {where.ll}, ptr {old}, i64 {lane}")
        e.w.do(f"store {where.ll} {before}, ptr {to_lane}")
    name = e.w.let(f"load {t}, ptr {old}")
    return [(name if e.varies(result) else e.w.pick(name, where.ll, e.lanes, [0]),)]


def _exchange(e: Emitter, op: Op, pointer: str, operand: str) -> str:
    """Combines one lane's value into memory; a group's own memory needs no atomicity."""
    t = op.args[0].type
    assert isinstance(t, Tensor)
    kind, ll = op.attr("kind"), in_memory(t.elem)
    if t.space == "shared":
        before = e.w.let(f"load {ll}, ptr {pointer}")
        after = arith.SPELLINGS[kind](Lanes(e.w, t.elem, 1), before, operand)
        e.w.do(f"store {ll} {after}, ptr {pointer}")
        return before
    opcode = _ATOMIC[kind][t.elem.kind == "u"]
    return e.w.let(f"atomicrmw {opcode} ptr {pointer}, {ll} {operand} monotonic")


def _shared(e: Emitter, op: Op) -> list[Names]:
    t: Tensor = op.attr("type")
    size = t.elem.bytes
    for extent in t.shape:
        size *= extent
    return [(e.w.cell("i8", -(-size // 4) * 4),)]


def _table(e: Emitter, op: Op) -> list[Names]:
    data: bytes = op.attr("data")
    padded = data + bytes(-len(data) % 4)
    name = f"@{e.w.fresh('table')}"
    text = "".join(f"\\{byte:02X}" for byte in padded)
    e.w.globals.append(
        f'{name} = private unnamed_addr constant [{len(padded)} x i8] c"{text}", align 64'
    )
    return [(name,)]


RULES = {
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "shared": _shared,
    "table": _table,
}
