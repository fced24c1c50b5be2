"""`mma` as register-blocked fused multiply-adds over operands in group memory.

Each thread holds a block of the accumulator: for every k it reads its rows of a and its columns of
b once, and multiplies all pairs. Any shape and dtype has this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from iron.ir.core import Op, Value
from iron.ir.types import Tile, Vector, element
from iron.tiles import columns, compute, hints, matrix, opaque, panel
from iron.tiles.emitter import Emitter, named
from iron.tiles.storage import Place, Private, Registers, Shared, Spot

CHAIN = 32
"""Products that are summed one after another: longer chains leave the class of a product."""
ROWS = 8
"""Rows of a block where the accumulator is walked by loops: eight rows of a CPU's lanes fill half
of its vector registers, or all where they are few."""


def mma(e: Emitter, op: Op) -> None:
    """acc + a @ b; the sum is kept by each thread, in place where acc has no other reader."""
    (value,), left = op.results, op.args[0]
    held = e.plan.placed[left].role == "held"
    a, b = None if held else _operand(e, left), _operand(e, op.args[1])
    assert isinstance(value.type, Tile)
    kinds = e.plan.kinds[value]
    if a is not None and e.grid.opaque:
        opaque.multiply(e, op, a, b)
        return
    for operand in (left, op.args[2]) if held else (op.args[2],):
        compute.ready(e, operand, kinds)
    for operand in (a, b):
        if operand is not None:
            e.fence.reads(e.b, operand.array)
    e.follow(op)
    if a is None or e.grid.matrix is not None:
        matrix.multiply(e, op, a, b)
    elif e.micro is not None:
        panel.multiply(e, op, a, b, place_of_sum(e, op))
    elif e.grid.looped:
        _in_memory(e, op, a, b)
    else:
        _in_registers(e, op, a, b)


def _operand(e: Emitter, value: Value) -> Shared:
    """The operand in group memory."""
    op = value.op
    if op is not None and op.name == "tile_transpose":
        return _operand(e, op.args[0]).transpose()
    return compute.copied(e, value)


def _read(value: Value) -> Value:
    """What an operand is before it is turned."""
    while value.op is not None and value.op.name == "tile_transpose":
        value = value.op.args[0]
    return value


def _in_registers(e: Emitter, op: Op, a: Shared, b: Shared) -> None:
    (value,) = op.results
    assert isinstance(value.type, Tile)
    init = compute.spread(e, op.args[2])
    kinds, shape = e.plan.kinds[value], value.type.shape
    rows, columns = (
        [e.spot(k, s, i) for i in range(e.grid.along(k, s).count)]
        for k, s in zip(kinds, shape, strict=True)
    )
    e.follow(op)
    sums = _block(e, op, (a, b), (rows, columns), init)
    places = product(range(len(rows)), range(len(columns)))
    e.kept[value] = Registers(kinds, dict(zip(places, sums, strict=True)))
    for held in sums:
        named(held, value.name)


def _in_memory(e: Emitter, op: Op, a: Shared, b: Shared) -> None:
    """Blocks of `ROWS` rows by one chunk of columns, the columns of b outside: they stay near.

    The products along k are summed from 0, `CHAIN` at a time, and acc is added to the sum of these
    sums: chains stay short.
    """
    (value,) = op.results
    assert isinstance(value.type, Tile)
    kinds, shape = e.plan.kinds[value], value.type.shape
    kept = place_of_sum(e, op)
    down, across = e.axes(kinds, shape)
    many = next(n for n in (ROWS, 4, 2, 1) if down.count % n == 0)
    in_column = down.count // many
    upcoming = e.upcoming.pop(e.plan.block[value], [])
    coming = columns.first(e, _read(op.args[1]))

    def block(first: Value, column: Value) -> None:
        row = e.b.emit("floordiv", first, e.number(many))
        number = e.b.emit("add", e.b.emit("mul", column, e.number(in_column)), row)
        hints.ask(e, upcoming, number, in_column * across.count)
        held = b if coming is None else columns.due(e, coming, b, column, (row, in_column))
        cols = [e.spot(kinds[1], shape[1], column)]
        numbers = [e.b.emit("add", first, e.number(i)) for i in range(many)]
        rows = [e.spot(kinds[0], shape[0], n) for n in numbers]
        places: list[Place] = [(r, cols[0]) for r in rows]
        sums = _chained(e, op, (a, held), (rows, cols))
        init = [e.wide(compute.chunk(e, op.args[2], p), p[-1].width) for p in places]
        e.follow(op)
        total = [e.b.emit("add", x, y) for x, y in zip(init, sums, strict=True)]
        for p, one in zip(places, total, strict=True):
            e.store(kept, p, one)

    def over_rows(column: Value) -> None:
        if down.count == many:
            block(e.number(0), column)
            return
        with e.loop(down.count, "rows", many) as first:
            block(first, column)

    if across.count == 1:
        over_rows(e.number(0))
    else:
        with e.loop(across.count, "columns") as column:
            over_rows(column)
    e.kept[value] = kept


def _chained(
    e: Emitter,
    op: Op,
    operands: tuple[Shared, Shared],
    spots: tuple[Sequence[Spot], Sequence[Spot]],
) -> Sequence[Value]:
    """The sums of one block from 0, where walks are loops; those of chains are added."""
    rows, columns = spots
    depth = _depth(op)
    none = [e.zero(element(op.results[0].type), columns[0].width)] * (len(rows) * len(columns))
    if depth % CHAIN or depth == CHAIN:
        return _block(e, op, operands, spots, none)

    def chain(number: Value) -> Sequence[Value]:
        first = e.b.emit("mul", number, e.number(CHAIN))
        return _block(e, op, operands, spots, none, (first, CHAIN))

    def added(number: Value, total: Sequence[Value]) -> list[Value]:
        sums = chain(e.b.emit("add", number, e.number(1)))
        return [e.b.emit("add", x, y) for x, y in zip(total, sums, strict=True)]

    return e.carry(depth // CHAIN - 1, chain(e.number(0)), added, "chain")


def place_of_sum(e: Emitter, op: Op) -> Private:
    """The accumulator's own array when this is the last that is read of it, else a new one."""
    (value,) = op.results
    for old in _leaves(e, op.args[2]):
        kept = e.kept.get(old)
        last = e.plan.uses[old] == 1 and e.plan.block[old] is e.plan.block[value]
        alike = isinstance(kept, Private) and kept.kinds == e.plan.kinds[value]
        if isinstance(kept, Private) and alike and last and old.type is value.type:
            return kept
    return e.private(value)


def _leaves(e: Emitter, value: Value) -> list[Value]:
    """The kept values that computing `value` reads, chunk by chunk."""
    if value in e.kept:
        return [value]
    if value.op is None or value.op.name in ("tile_expand", "tile_broadcast", "tile_transpose"):
        return []
    return [leaf for a in value.op.args if isinstance(a.type, Tile) for leaf in _leaves(e, a)]


def _block(
    e: Emitter,
    op: Op,
    operands: tuple[Shared, Shared],
    spots: tuple[Sequence[Spot], Sequence[Spot]],
    init: Sequence[Value],
    part: tuple[Value, int] | None = None,
) -> tuple[Value, ...]:
    """The sums of one block, rows outermost: `init` plus the products along k, all of them or so
    many from a first."""
    (a, b), (rows, columns) = operands, spots

    def step(k: Value, sums: Sequence[Value]) -> list[Value]:
        k = k if part is None else e.b.emit("add", part[0], k)
        left = [_widened(e, op, e.shared(a, (r.at, k), 1)) for r in rows]
        right = [_widened(e, op, _column(e, b, k, c)) for c in columns]
        pairs = product(left, right)
        return [_add(e, x, y, s) for (x, y), s in zip(pairs, sums, strict=True)]

    return e.carry(_depth(op) if part is None else part[1], init, step)


def _depth(op: Op) -> int:
    inner = op.args[0].type
    assert isinstance(inner, Tile)
    return inner.shape[1]


def _column(e: Emitter, b: Shared, k: Value, spot: Spot) -> Value:
    """This thread's chunk of row k of the right operand."""
    if not b.panels:
        return e.shared(b, (k, spot.at), spot.width)
    chunk = e.number(spot.chunk) if isinstance(spot.chunk, int) else spot.chunk
    chunk = chunk if b.slot is None else b.slot
    lane = e.lane(spot.kind, e.grid.along(spot.kind, spot.size).lanes, 1)
    return e.b.emit("load", b.array, chunk, k, lane, attrs=(0,))


def _widened(e: Emitter, op: Op, value: Value) -> Value:
    total = element(op.results[0].type)
    if element(value.type) is total:
        return value
    return e.b.emit("cast", value, attrs=(total,))


def _add(e: Emitter, x: Value, y: Value, total: Value) -> Value:
    width = total.type.count if isinstance(total.type, Vector) else 1
    x, y = e.wide(x, width), e.wide(y, width)
    if element(total.type).is_float:
        return e.b.emit("fma", x, y, total)
    return e.b.emit("add", total, e.b.emit("mul", x, y))
