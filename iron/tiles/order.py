"""The order in which groups walk over a launch: from a flat number to a number on each axis."""

from __future__ import annotations

from collections.abc import Sequence

from iron.ir.build import Builder
from iron.ir.core import Value
from iron.tiles.emitter import named

Order = tuple[int, int, bool]


def numbers(
    b: Builder, flat: Value, extents: Sequence[Value], order: Order | None
) -> tuple[Value, ...]:
    """The group numbers on axes of `extents` of the group number `flat`, all of one dtype.

    Without an `order` the first axis is fastest. `(axis, size, descending)` takes `size` numbers of
    `axis`, one of the first two, together: they are fastest, then the other of the two, then the
    next `size` (0: the plain order). `descending` takes the first axis from its end.
    """
    if order is None:
        return _plain(b, flat, extents)
    axis, size, descending = order
    if size == 0 or len(extents) == 1:
        made = _plain(b, flat, extents)
    else:
        pair = b.emit("mul", extents[0], extents[1])
        inner, *outer = _plain(b, flat, [pair, *extents[2:]])
        found = _grouped(b, inner, extents[axis], extents[1 - axis], size)
        made = (*(found if axis == 0 else found[::-1]), *outer)
    if not descending:
        return made
    last = b.emit("sub", extents[0], b.const(1, flat.type))
    return (b.emit("sub", last, made[0]), *made[1:])


def round_of(
    b: Builder, extents: Sequence[Value], total: Value, order: Order | None, most: int
) -> Value:
    """How many of `total` groups run at once where at most `most` do, each one after the other.

    In an order that begins with the heavy numbers, rounds and the numbers that it takes together
    begin alike, so that every second round, which goes backwards, evens out the one before. All
    run at once where nearly as many as `most` cannot do so: hardware deals them out then.
    """
    kind = total.type
    limit = b.const(most, kind)
    if order is None or not order[2]:
        return b.emit("min", total, limit)
    axis, size, _ = order
    one = b.const(1, kind)
    block = extents[0]
    if size and len(extents) > 1:
        block = b.emit("mul", extents[1 - axis], b.emit("min", extents[axis], b.const(size, kind)))
    safe = b.emit("max", block, one)
    blocks = b.emit("mul", b.emit("floordiv", limit, safe), safe)
    rounds = b.emit("floordiv", b.emit("add", safe, b.const(most - 1, kind)), limit)
    part = b.emit("floordiv", safe, rounds)
    even = b.emit("eq", b.emit("mul", part, rounds), safe)
    found = b.emit("where", b.emit("le", safe, limit), blocks, b.emit("where", even, part, one))
    enough = b.emit("ge", found, b.const(most * 7 // 8, kind))
    return b.emit("min", total, b.emit("where", enough, found, total))


def mirrored(b: Builder, flat: Value, round: Value, total: Value) -> Value:
    """The number that comes in place of `flat` where every second round of `round` numbers goes
    backwards: who had one of the first numbers of a round has one of the last of the next.

    A last round that is not whole goes forwards.
    """
    turn = b.emit("floordiv", flat, round)
    first = b.emit("mul", turn, round)
    after = b.emit("add", first, round)
    odd = b.emit("eq", b.emit("mod", turn, b.const(2, flat.type)), b.const(1, flat.type))
    back = b.emit("and", odd, b.emit("le", after, total))
    last = b.emit("sub", after, b.const(1, flat.type))
    return b.emit("where", back, b.emit("sub", last, b.emit("sub", flat, first)), flat)


def _plain(b: Builder, flat: Value, extents: Sequence[Value]) -> tuple[Value, ...]:
    out: list[Value] = []
    for extent in extents[:-1]:
        out.append(b.emit("mod", flat, extent))
        flat = b.emit("floordiv", flat, extent)
    return (*out, flat)


def _grouped(b: Builder, flat: Value, along: Value, other: Value, size: int) -> tuple[Value, Value]:
    """(number along the grouped axis, number along the other)."""
    held = b.const(size, flat.type)
    whole = b.emit("mul", other, held)
    first = b.emit("mul", b.emit("floordiv", flat, whole), held)
    within = b.emit("mod", flat, whole)
    rows = b.emit("min", b.emit("sub", along, first), held)
    for value, name in ((first, "first"), (within, "within"), (rows, "together")):
        named(value, name)
    number = b.emit("add", first, b.emit("mod", within, rows))
    return number, b.emit("floordiv", within, rows)
