"""The steps of a random program: one emitter for each form of the language.

Elementwise steps invert the signatures and kinds of the op table. Every access is in bounds and
ordered, every collective is reached uniformly, and nothing shows the bits of a NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from iron.check.generate.pool import ALL, Pool
from iron.check.generate.program import contents
from iron.dtypes import DType, bool_, i32, i64, u32
from iron.ir.core import Block, Value
from iron.ir.ops.memory import ATOMICS
from iron.ir.table import OpDef
from iron.ir.types import Type, Vector, count, element, tensor, vector

SIZE = 256  # elements of every flat input

# Operands whose NaN sign shows in the result.
_SIGN_SHOWS = {"copysign": 1}


@dataclass(slots=True)
class Scene:
    """What steps draw on: the pool, the tensors, this thread's places, and limits.

    `own` is the place that belongs to this thread alone; `together` says that every thread of a
    group is here; `met` that a collective was emitted since it was last cleared.
    """

    pool: Pool
    rows: list[OpDef]
    threads: int
    index: DType
    thread: Value
    own: Value
    trace: Value
    inputs: list[Value] = field(default_factory=list[Value])
    grids: list[Value] = field(default_factory=list[Value])
    cells: list[Value] = field(default_factory=list[Value])
    counters: dict[Value, str] = field(default_factory=dict[Value, str])
    shared: list[Value] = field(default_factory=list[Value])
    together: bool = True
    met: bool = False
    depth: int = 0

    def show(self, values: list[Value]) -> None:
        """Mixes a digest of `values` into this thread's element of the trace."""
        pool, values = self.pool, [v for v in values if self.pool.rng.random() < 0.9]
        if values:
            old = pool.b.emit("load", self.trace, self.own, attrs=(0,))
            new = pool.b.emit("add", old, pool.digest(values))
            pool.b.emit_all("store", (self.trace, self.own, new))

    def steps(self, turns: int) -> None:
        """Emits `turns` random steps."""
        rng = self.pool.rng
        for _ in range(turns):
            if rng.random() < 0.65:
                weights = [3 if row.unit else 1 for row in self.rows]
                elementwise(self, rng.choices(self.rows, weights)[0])
            else:
                weights = [w for _, w in STEPS]
                rng.choices([s for s, _ in STEPS], weights)[0](self)


# --- values ---------------------------------------------------------------------------------------


def elementwise(s: Scene, row: OpDef) -> None:
    """An op of a row typed by a signature, on a random dtype of its kinds."""
    pool, rng = s.pool, s.pool.rng
    t = pool.type(row.kinds)
    wanted = row.sig.split("->")[0].split()
    args = [pool.pick(_like(t, bool_) if w == "b" else t) for w in wanted]
    if wanted.count("T") > 1:
        _degenerate(pool, t, args)
    shows = _SIGN_SHOWS.get(row.name)
    if shows is not None:
        args[shows] = pool.number(args[shows])
    attrs = (rng.choice(ALL),) if row.attrs else ()
    pool.emit(row.name, *args, attrs=attrs)


def _degenerate(pool: Pool, t: DType | Vector, args: list[Value]) -> None:
    """Now and then the operands that rewrites are about: equal ones, and small constants."""
    chance, dtype = pool.rng.random(), element(t)
    if chance < 0.1:
        args[-1] = args[-2]
    elif chance < 0.35:
        small: list[object] = [True, False] if dtype is bool_ else [0, 1, -1, 2, dtype.bits]
        small += [-0.0] if dtype.is_float else []
        args[-1 if pool.rng.random() < 0.7 else -2] = pool.const(t, pool.rng.choice(small))


def _like(t: DType | Vector, dtype: DType) -> DType | Vector:
    return vector(dtype, t.count) if isinstance(t, Vector) else dtype


def _bitcast(s: Scene) -> None:
    t = s.pool.type("fius")
    s.pool.bits(s.pool.pick(t), s.pool.rng.choice(s.pool.bit_targets(t)))


def _dot4(s: Scene) -> None:
    """Bytes of words, signed or not; a constant now and then."""
    pool, rng = s.pool, s.pool.rng
    words = [pool.pick(rng.choice([i32, u32])) for _ in range(2)]
    if rng.random() < 0.3:
        words[rng.randrange(2)] = pool.const(rng.choice([i32, u32]))
    pool.emit("dot4", *words, pool.pick(i32))


def _vectors(s: Scene) -> None:
    """Takes vectors apart and packs others."""
    pool, rng = s.pool, s.pool.rng
    held = [v for v in pool.values if isinstance(v.type, Vector)]
    for v in held[-2:]:
        pool.emit("extract", v, attrs=(rng.randrange(count(v.type)),))
    t = pool.type(vectors=False)
    assert isinstance(t, DType)
    pool.emit("pack", *(pool.pick(t) for _ in range(rng.choice([1, 2, 3, 4, 5]))))


# --- memory ---------------------------------------------------------------------------------------


def _load(s: Scene) -> None:
    pool, rng = s.pool, s.pool.rng
    buffer = rng.choice(s.inputs)
    length = rng.choice([0, 0, 0, 1, 2, 3, 4, 8])
    at = pool.index(SIZE if length < 2 else SIZE // 2)
    if length > 2 and rng.random() < 0.6:
        narrow = pool.emit("cast", pool.index(16), attrs=(i32,))
        at = pool.emit("mul", narrow, pool.const(i32, length))
    pool.add(s.pool.b.emit("load", buffer, at, attrs=(length,)), pool.are_uniform(at))


def _grid_load(s: Scene) -> None:
    pool = s.pool
    i, j = pool.index(16), pool.index(8)
    length = pool.rng.choice([0, 0, 2, 4])
    v = pool.b.emit("load", pool.rng.choice(s.grids), i, j, attrs=(length,))
    pool.add(v, pool.are_uniform(i, j))


def _table(s: Scene) -> None:
    pool = s.pool
    t = pool.type(vectors=False)
    size = pool.rng.choice([4, 16, 64])
    data = contents(np.random.default_rng(pool.rng.randrange(2**32)), element(t), size)
    place = tensor(element(t), 1, "table", (size,))
    held = pool.b.emit("table", attrs=(place, data.tobytes()))
    at = pool.index(size)
    pool.add(pool.b.emit("load", held, at, attrs=(0,)), pool.are_uniform(at))


def _cell(s: Scene) -> None:
    """Changes this thread's own element of an in-out tensor."""
    pool, cell = s.pool, s.pool.rng.choice(s.cells)
    v = pool.pick(element(cell.type))
    pool.add(pool.b.emit("load", cell, s.own, attrs=(0,)))
    pool.b.emit_all("store", (cell, s.own, v))


def _count(s: Scene) -> None:
    """An atomic on memory that all groups share; what it returns depends on the order."""
    pool = s.pool
    buffer, kind = pool.rng.choice(list(s.counters.items()))
    v = pool.pick(element(buffer.type))
    pool.b.emit_all("atomic", (buffer, pool.index(8), v), (kind,))


def _exchange_in_memory(s: Scene) -> None:
    """Every thread writes its element of a shared array and reads those of others."""
    if not s.together:
        return
    pool, b, rng = s.pool, s.pool.b, s.pool.rng
    buffer = rng.choice(s.shared)
    flat = buffer.type.rank == 1  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    elem = element(buffer.type)
    s.met = True
    b.emit_all("barrier")
    if flat:
        b.emit_all("store", (buffer, s.thread, pool.pick(elem)))
    else:
        b.emit_all("store", (buffer, s.thread, pool.const(i32, 0), pool.pick(vector(elem, 4))))
    b.emit_all("barrier")
    if flat and elem in (i32, u32) and rng.random() < 0.6:
        _shared_atomic(s, buffer)
    _read_shared(s, buffer, flat)


def _read_shared(s: Scene, buffer: Value, flat: bool) -> None:
    pool, b, rng = s.pool, s.pool.b, s.pool.rng
    shift = pool.const(s.index, rng.randrange(s.threads))
    other = pool.emit("mod", pool.emit("add", s.thread, shift), pool.const(s.index, s.threads))
    for at in (other, shift):
        rest, length = (), 0
        if not flat:
            rest, length = (pool.index(2),), rng.choice([0, 2, 3])
        v = b.emit("load", buffer, at, *rest, attrs=(length,))
        pool.add(v, pool.are_uniform(at, *rest))


def _shared_atomic(s: Scene, buffer: Value) -> None:
    """Only a thread with an element of its own may look at the old value."""
    pool, b, rng = s.pool, s.pool.b, s.pool.rng
    alone = rng.random() < 0.5
    at = s.thread
    if not alone:
        at = pool.emit("and", s.thread, pool.const(s.index, rng.choice([0, 3, 5])))
        if s.threads == 1:
            at = s.thread
    old = b.emit(
        "atomic", buffer, at, pool.pick(element(buffer.type)), attrs=(rng.choice(ATOMICS),)
    )
    if alone:
        pool.add(old)
    b.emit_all("barrier")


# --- collectives ----------------------------------------------------------------------------------

_JOINS = {"f": ("add", "mul", "max", "min", "sub"), "b": ("and", "or", "xor", "eq")}
_INTEGER_JOINS = ("add", "mul", "max", "min", "xor", "and", "or", "sub")


def _joined(s: Scene, types: list[DType | Vector]) -> Block:
    """A function of the values of two threads, some of which look at each other."""
    pool, rng = s.pool, s.pool.rng
    low, high = [Value(t) for t in types], [Value(t) for t in types]
    with pool.b.block((*low, *high)) as body:
        out: list[Value] = []
        for a, c in zip(low, high, strict=True):
            kind = element(a.type).kind
            joined = pool.b.emit(rng.choice(_JOINS.get(kind, _INTEGER_JOINS)), a, c)
            if rng.random() < 0.25:
                turned = [r for r in s.rows if r.sig == "T->T" and kind in r.kinds]
                joined = pool.b.emit(rng.choice(turned).name, joined) if turned else joined
            out.append(joined)
        scalars = all(isinstance(t, DType) for t in types[:2]) and types[0] is not bool_
        if len(types) > 1 and scalars and rng.random() < 0.6:
            better = pool.b.emit("gt", high[0], low[0])
            out[:2] = [pool.b.emit("where", better, high[k], low[k]) for k in (0, 1)]
        pool.b.emit_all("yield", out)
    return body


def _width(s: Scene) -> int:
    powers = [w for w in (1, 2, 4, 8, 16, 32, 64) if s.threads % w == 0]
    return s.pool.rng.choice([0, 0, *powers])


def _reduce(s: Scene) -> None:
    if not s.together:
        return
    pool, rng = s.pool, s.pool.rng
    types = [pool.type("fiub", vectors=rng.random() < 0.4) for _ in range(rng.choice([1, 1, 2, 3]))]
    args, width = [pool.pick(t) for t in types], _width(s)
    s.met = True
    body = _joined(s, types)
    for v in pool.b.emit_all("reduce", args, (width,), (body,), "group_reduce"):
        pool.add(v, width == 0)


def _scan(s: Scene) -> None:
    if not s.together:
        return
    pool, rng = s.pool, s.pool.rng
    types = [pool.type("fiub", vectors=rng.random() < 0.3) for _ in range(rng.choice([1, 1, 2]))]
    args = [*(pool.pick(t) for t in types), *(pool.const(t) for t in types)]
    s.met = True
    body = _joined(s, types)
    for v in pool.b.emit_all("scan", args, (_width(s), rng.random() < 0.5), (body,), "group_scan"):
        pool.add(v)


def _swap(s: Scene) -> None:
    if not s.together:
        return
    pool = s.pool
    masks = [m for m in range(s.threads) if all(t ^ m < s.threads for t in range(s.threads))]
    s.met = True
    pool.add(pool.b.emit("exchange", pool.pick(pool.type()), attrs=(pool.rng.choice(masks),)))


def _ballot(s: Scene) -> None:
    if s.together:
        s.met = True
        s.pool.add(s.pool.b.emit("ballot", s.pool.pick(bool_)))


# --- regions --------------------------------------------------------------------------------------


def _region(
    s: Scene, params: list[Value], together: bool, close: Callable[[], list[Value]]
) -> Block:
    pool, before = s.pool, s.together
    with pool.scope(), pool.b.block(params) as block:
        for p in params:
            pool.add(p, together and p is params[0])
        s.together, s.depth = before and together, s.depth + 1
        start = len(pool.values)
        s.steps(pool.rng.randrange(1, 8))
        s.show(pool.values[start:])
        pool.b.emit_all("yield", close())
        s.together, s.depth = before, s.depth - 1
    return block


def _types(s: Scene) -> list[DType | Vector]:
    return [s.pool.type() for _ in range(s.pool.rng.randrange(3))]


def _if(s: Scene) -> None:
    if s.depth > 1:
        return
    pool, types = s.pool, _types(s)
    condition = pool.pick(bool_, uniform=pool.rng.random() < 0.4)
    together = pool.are_uniform(condition)
    sides = [_region(s, [], together, lambda: [pool.pick(t) for t in types]) for _ in range(2)]
    for v in pool.b.emit_all("if", (condition,), (), tuple(sides)):
        pool.add(v)


def _for(s: Scene) -> None:
    if s.depth > 1:
        return
    pool, rng, types = s.pool, s.pool.rng, _types(s)
    uniform = rng.random() < 0.5
    counter = rng.choice([i32, i32, u32, i64])
    low = pool.const(counter, rng.choice([0, 0, 1, 2]))
    high = pool.emit("and", pool.pick(counter, uniform=uniform), pool.const(counter, 3))
    if rng.random() < 0.2:
        low = pool.emit("sub", high, pool.const(counter, 2))
    inits = [pool.pick(t) for t in types]
    together = pool.are_uniform(low, high)
    params = [Value(counter), *(Value(t) for t in types)]
    met, s.met = s.met, False
    stop: list[bool] = []

    def close() -> list[Value]:
        stop.append(not s.met and rng.random() < 0.35)
        flag = [pool.pick(bool_)] if stop[0] else []
        return [*flag, *(pool.pick(t) for t in types)]

    body = _region(s, params, together, close)
    s.met |= met
    step = pool.const(counter, rng.choice([1, 1, 2, 3]))
    for v in pool.b.emit_all("for", (low, high, step, *inits), (stop[0],), (body,)):
        pool.add(v)


STEPS: list[tuple[Callable[[Scene], None], int]] = [
    (_bitcast, 3),
    (_dot4, 2),
    (_vectors, 4),
    (_load, 6),
    (_grid_load, 2),
    (_table, 2),
    (_cell, 2),
    (_count, 1),
    (_exchange_in_memory, 4),
    (_reduce, 4),
    (_scan, 3),
    (_swap, 2),
    (_ballot, 1),
    (_if, 5),
    (_for, 5),
]


def close_types(values: list[Value], t: Type) -> list[Value]:
    """The last values of type `t`."""
    return [v for v in values if v.type is t][-4:]
