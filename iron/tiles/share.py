"""How the threads of a group share the elements of an array that they fill together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from iron.ir.core import Value
from iron.tiles.emitter import Emitter
from iron.tiles.grid import Along


def shared_out(e: Emitter, shape: Sequence[int], order: Sequence[int]) -> list[Along]:
    """How the threads of the group share the elements of an array that they fill together:
    neighbouring threads along the first axis of `order`."""
    left, out = e.grid.threads, [Along(s, 1, 1, s) for s in shape]
    for axis in order:
        size = shape[axis]
        lanes = min(left, size & -size)
        out[axis] = Along(size, 1, lanes, size // lanes)
        left //= lanes
    return out


def fill(
    e: Emitter, shape: Sequence[int], order: Sequence[int], one: Callable[[list[Value]], None]
) -> None:
    """All threads together: `one` gets the coordinates of each element of this thread, which has
    neighbours of other threads' along the first axis of `order`."""
    fill_shared(e, shared_out(e, shape, order), order, one)


def fill_shared(
    e: Emitter,
    lanes: Sequence[Along],
    order: Sequence[int],
    one: Callable[[list[Value]], None],
) -> None:
    """Loops over the elements of this thread; `one` gets the coordinates of each."""
    mine, below = _shares(e, lanes, order)
    thread = e.b.emit("thread", attrs=(e.index,))
    spare = None if below == e.grid.threads else e.b.emit("lt", thread, e.number(below))
    with e.only(spare):
        _fill_loops(e, lanes, mine, [], one)


def places(e: Emitter, lanes: Sequence[Along], order: Sequence[int]) -> list[list[Value]]:
    """The coordinates of every element of this thread, written out."""
    mine, _ = _shares(e, lanes, order)
    out: list[list[Value]] = []
    for numbers in product(*(range(a.count) for a in lanes)):
        firsts = [e.number(n * a.lanes) for n, a in zip(numbers, lanes, strict=True)]
        out.append([e.b.emit("add", f, m) for f, m in zip(firsts, mine, strict=True)])
    return out


def _shares(e: Emitter, lanes: Sequence[Along], order: Sequence[int]) -> tuple[list[Value], int]:
    """This thread's number along each axis, and how many threads have one."""
    b, below = e.b, 1
    thread, mine = b.emit("thread", attrs=(e.index,)), [e.number(0)] * len(lanes)
    for axis in order:
        count = lanes[axis].lanes
        if count == 1:
            continue
        share = thread if below == 1 else b.emit("floordiv", thread, e.number(below))
        whole = below * count == e.grid.threads
        mine[axis] = share if whole else b.emit("mod", share, e.number(count))
        below *= count
    return mine, below


def _fill_loops(
    e: Emitter,
    lanes: Sequence[Along],
    mine: Sequence[Value],
    done: list[Value],
    one: Callable[[list[Value]], None],
) -> None:
    if len(done) == len(lanes):
        one(done)
        return
    a, own = lanes[len(done)], mine[len(done)]
    if a.count == 1:
        _fill_loops(e, lanes, mine, [*done, own], one)
        return
    with e.loop(a.count) as i:
        at = e.b.emit("add", e.b.emit("mul", i, e.number(a.lanes)), own)
        _fill_loops(e, lanes, mine, [*done, at], one)
