"""Loops and branches: tiles that they carry become chunks, or arrays that the turns write."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iron.ir.core import Block, Op, Value, carried
from iron.ir.types import Tile
from iron.tiles import compute, opaque
from iron.tiles.ahead import Ahead
from iron.tiles.early import Early
from iron.tiles.emitter import Emitter
from iron.tiles.hints import Hints
from iron.tiles.slots import Slots
from iron.tiles.storage import Private

Body = Callable[[Emitter, Block], None]


def loop(e: Emitter, op: Op, body: Body) -> None:
    """`for`: tiles are carried chunk by chunk, or in arrays of their own."""
    low, high, step = (e.values[v] for v in op.args[:3])
    (block,) = op.regions
    apart = any(v in e.varying for v in op.args[:3])
    e.apart += apart
    tiles = _Carried(e, op.args[3:], block.params[1:], opaque.accumulators(e, op))
    init = tiles.start()
    many, early = len(init), _early(e, op)
    starts = [one.start(low, high, step) for one in early]
    init = [*init, *(v for start in starts for v in start)]
    counter = Value(block.params[0].type, None, block.params[0].name)
    params = [Value(v.type, None, v.name) for v in init]
    e.values[block.params[0]] = counter
    stop = op.attr("stop")
    e.follow(op)
    with e.fence.loop(), e.b.block((counter, *params)) as new:
        tiles.take(block.params[1:], params[:many])
        e.turned.append({})
        following, rest = list[Value](), params[many:]
        for one, start in zip(early, starts, strict=True):
            following += one.turn(counter, (high, step), rest[: len(start)])
            rest = rest[len(start) :]
            e.fetched |= set(one.done)
        body(e, block)
        e.fetched -= {read for one in early for read in one.done}
        ends = [e.values[block.yielded[0]]] if stop else []
        ends += [*tiles.turn(carried(op)), *following]
        e.turned.pop()
        e.b.emit_all("yield", ends)
    e.follow(op)
    results = e.b.emit_all("for", (low, high, step, *init), (stop,), (new,), op.surface)
    tiles.take(op.results, results[:many])
    e.apart -= apart


def _early(e: Emitter, loop: Op) -> list[Early]:
    """The reads of a loop that start before their turn, by the ways there are."""
    slots = Slots(e, loop)
    ways = (slots, Ahead(e, loop, slots.reads), Hints(e, loop))
    return [one for one in ways if one.reads]


def branch(e: Emitter, op: Op, body: Body) -> None:
    """`if`: each side leaves its chunks, or writes the array of the result."""
    apart = op.args[0] in e.varying
    e.apart += apart
    tiles = _Carried(e, op.results, op.results)
    sides: list[Block] = []
    e.follow(op)
    for region in op.regions:
        with e.fence.side(), e.b.block() as new:
            e.turned.append({})
            body(e, region)
            e.b.emit_all("yield", tiles.turn(region.yielded))
            e.turned.pop()
        sides.append(new)
    e.follow(op)
    results = e.b.emit_all("if", (e.values[op.args[0]],), (), tuple(sides), op.surface)
    tiles.take(op.results, results)
    e.apart -= apart


class _Carried:
    """The values that leave a region: `first` before it runs, kept as `homes` says; the homes
    `sums` are matrices."""

    def __init__(
        self,
        e: Emitter,
        first: Sequence[Value],
        homes: Sequence[Value],
        sums: frozenset[Value] = frozenset(),
    ) -> None:
        self.e = e
        self.first = first
        self.homes = homes
        self.sums = sums
        self.arrays: dict[Value, Private] = {}
        if e.grid.looped:
            self.arrays = {h: e.private(h) for h in homes if isinstance(h.type, Tile)}

    def start(self) -> list[Value]:
        """What the loop begins with."""
        out: list[Value] = []
        for first, home in zip(self.first, self.homes, strict=True):
            if not isinstance(home.type, Tile):
                out.append(self.e.values[first])
            elif home in self.arrays:
                self._write(first, home)
            elif home in self.sums:
                out += opaque.matrices(self.e, first)
            else:
                out += compute.spread(self.e, first, like=home)
        return out

    def take(self, names: Sequence[Value], values: Sequence[Value]) -> None:
        """Binds what a region gets or leaves to the names of the source program."""
        rest = list(values)
        for name, home in zip(names, self.homes, strict=True):
            if not isinstance(home.type, Tile):
                self.e.values[name] = rest.pop(0)
            elif home in self.arrays:
                self.e.kept[name] = self.arrays[home]
            elif home in self.sums:
                rest = opaque.taken(self.e, name, rest, inside=name is home)
            else:
                rest = compute.gathered(self.e, name, rest, like=home)

    def turn(self, ends: Sequence[Value]) -> list[Value]:
        """What a turn of the region ends with."""
        pairs = list(zip(ends, self.homes, strict=True))
        out: list[Value] = []
        for end, home in pairs:
            if not isinstance(home.type, Tile):
                out.append(self.e.values[end])
            elif home in self.sums:
                out += opaque.matrices(self.e, end)
            elif home not in self.arrays:
                out += compute.spread(self.e, end, like=home)
        self._write_all([(end, home) for end, home in pairs if home in self.arrays])
        return out

    def _write_all(self, pairs: list[tuple[Value, Value]]) -> None:
        """All at once: what reads an array that is written before it is computed first."""
        written: list[Private] = []
        for i, (end, home) in enumerate(pairs):
            array = self.arrays[home]
            if self.e.kept.get(end) is array:
                continue
            if any(compute.reads(self.e, end, earlier) for earlier in written):
                pairs[i] = compute.saved(self.e, end, home), home
            written.append(array)
        for end, home in pairs:
            if self.e.kept.get(end) is not self.arrays[home]:
                self._write(end, home)

    def _write(self, value: Value, home: Value) -> None:
        assert isinstance(home.type, Tile)
        e, array = self.e, self.arrays[home]
        compute.ready(e, value, array.kinds)
        e.walk(
            array.kinds,
            home.type.shape,
            lambda place: e.store(array, place, compute.chunk(e, value, place)),
        )
