"""Accesses whose lanes lie anywhere: gathers, scatters, and loops over the active lanes.

Elements narrower than 32 bits are gathered as the 32-bit words that hold them: no CPU gathers
them otherwise, and an aligned word around a readable byte is readable.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from iron.backends.cpu.address import Address
from iron.backends.cpu.convert import recast
from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter
from iron.backends.cpu.types import lanes, scalar, suffix
from iron.dtypes import DType, u8, u32


def gather(e: Emitter, elem: DType, where: Address, n: int) -> list[str]:
    """`n` neighbouring elements from each lane's own address, in memory form."""
    bits = elem.bytes * 8
    if bits >= 32:
        return [_gather(e, where.ll, where.pointers(e, j), elem.bytes) for j in range(n)]
    stored = u8 if elem.kind == "b" else elem
    words = Lanes(e.w, u32, e.lanes)
    if n * bits % 32 == 0:
        per_word = 32 // bits
        parts = [_gather(e, "i32", where.pointers(e, j), elem.bytes) for j in range(0, n, per_word)]
        return recast(words, parts, stored)
    return [_narrow_gather(e, where.pointers(e, j), bits) for j in range(n)]


def _gather(e: Emitter, ll: str, pointers: str, align: int) -> str:
    t, addresses = lanes(ll, e.lanes), lanes("ptr", e.lanes)
    mask = "splat (i1 true)"
    if e.mask is not None and e.target.has("avx512"):
        mask = e.mask
    elif e.mask is not None:
        pointers = _clamped(e, pointers)
    return e.w.call(
        t,
        f"llvm.masked.gather.{suffix(ll, e.lanes)}.v{e.lanes}p0",
        (f"{addresses} align {align}", pointers),
        (lanes("i1", e.lanes), mask),
        (t, "zeroinitializer"),
    )


def _clamped(e: Emitter, pointers: str) -> str:
    """Inactive lanes read what the first active one reads: without a masked gather this avoids a
    branch a lane."""
    assert e.mask is not None
    t = lanes("ptr", e.lanes)
    at = e.w.first_set(e.mask, e.lanes)
    one = e.w.let(f"extractelement {t} {pointers}, i32 {at}")
    safe = e.w.splat(one, "ptr", e.lanes)
    return e.w.let(f"select {lanes('i1', e.lanes)} {e.mask}, {t} {pointers}, {t} {safe}")


def _narrow_gather(e: Emitter, pointers: str, bits: int) -> str:
    wide, t = lanes("i64", e.lanes), lanes("ptr", e.lanes)
    number = e.w.let(f"ptrtoint {t} {pointers} to {wide}")
    aligned = e.w.let(f"and {wide} {number}, {e.w.splat('-4', 'i64', e.lanes)}")
    inside = e.w.let(f"and {wide} {number}, {e.w.splat('3', 'i64', e.lanes)}")
    words = _gather(e, "i32", e.w.let(f"inttoptr {wide} {aligned} to {t}"), 4)
    x = Lanes(e.w, u32, e.lanes)
    bytes_in = e.w.let(f"trunc {wide} {inside} to {x.t}")
    moved = x.op("lshr", words, x.op("shl", bytes_in, x.const(3)))
    return x.convert("trunc", moved, f"i{bits}")


def scatter(e: Emitter, elem: DType, where: Address, names: list[str]) -> None:
    """Each lane's components to its own address; `names` are in memory form."""
    native = e.target.has("avx512") and elem.bytes >= 4
    for j, name in enumerate(names):
        if native:
            _native_scatter(e, elem, where.pointers(e, j), name)
        else:
            _scatter_by_lane(e, elem, where, name, j)


def _native_scatter(e: Emitter, elem: DType, pointers: str, name: str) -> None:
    ll = scalar(elem)
    e.w.call(
        "void",
        f"llvm.masked.scatter.{suffix(ll, e.lanes)}.v{e.lanes}p0",
        (lanes(ll, e.lanes), name),
        (f"{lanes('ptr', e.lanes)} align {elem.bytes}", pointers),
        (lanes("i1", e.lanes), e.mask or "splat (i1 true)"),
    )


def _scatter_by_lane(e: Emitter, elem: DType, where: Address, name: str, component: int) -> None:
    t = lanes(where.ll, e.lanes)
    values = e.w.cell(t)
    e.w.do(f"store {t} {name}, ptr {values}")
    with each_active_lane(e, where) as (lane, pointer):
        source = e.w.let(f"getelementptr {where.ll}, ptr {values}, i64 {lane}")
        mine = e.w.let(f"load {where.ll}, ptr {source}")
        if component:
            pointer = e.w.let(f"getelementptr {where.ll}, ptr {pointer}, i64 {component}")
        e.w.do(f"store {where.ll} {mine}, ptr {pointer}, align {elem.bytes}")


@contextmanager
def each_active_lane(e: Emitter, where: Address) -> Generator[tuple[str, str]]:
    """A loop over the active lanes, lowest first: an i64 lane number and its address."""
    bits = f"i{e.lanes}"
    left, addresses = e.w.cell(bits), e.w.cell("ptr", e.lanes)
    active = "-1"
    if e.mask is not None:
        active = e.w.let(f"bitcast {lanes('i1', e.lanes)} {e.mask} to {bits}")
    if where.stride is None:
        pointers = where.pointers(e, 0)
        e.w.do(f"store {lanes('ptr', e.lanes)} {pointers}, ptr {addresses}")
    e.w.do(f"store {bits} {active}, ptr {left}")
    head, turn, done = (e.w.fresh(p) for p in ("lane_head", "lane", "lanes_done"))
    e.w.jump(head)
    e.w.label(head)
    now = e.w.let(f"load {bits}, ptr {left}")
    e.w.branch(e.w.let(f"icmp ne {bits} {now}, 0"), turn, done)
    e.w.label(turn)
    found = e.w.call(bits, f"llvm.cttz.{bits}", (bits, now), ("i1", "true"))
    lane = found if e.lanes == 64 else e.w.let(f"zext {bits} {found} to i64")
    if where.stride is None:
        slot = e.w.let(f"getelementptr ptr, ptr {addresses}, i64 {lane}")
        pointer = e.w.let(f"load ptr, ptr {slot}")
    else:
        at = e.scaled(lane, where.stride) if where.stride else "0"
        pointer = e.w.let(f"getelementptr {where.ll}, ptr {where.base}, i64 {at}")
    yield lane, pointer
    fewer = e.w.let(f"sub {bits} {now}, 1")
    rest = e.w.let(f"and {bits} {now}, {fewer}")
    e.w.do(f"store {bits} {rest}, ptr {left}")
    e.w.jump(head)
    e.w.label(done)
