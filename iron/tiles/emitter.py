"""The state of lowering one tile kernel: builder, threads, kept values, and walks over chunks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

from iron.analysis.uniform import GROUP, uniformity
from iron.dtypes import DType, f32, u32
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.types import Tensor, Tile, Vector, element, tensor, vector
from iron.targets.atoms.atom import MatrixAtom
from iron.targets.target import Target
from iron.tiles.grid import Along, Grid, Kinds
from iron.tiles.place import Plan
from iron.tiles.storage import Fence, Kept, Place, Private, Registers, Shared, Spot
from iron.tiles.window import Coming, Hint

PAD_BYTES = 16
"""Bytes after a row of a staged tile on a GPU: neighbouring rows begin in other banks, and stay
aligned for wide accesses."""


class Emitter:
    """Emits the thread-level body of `kernel` on the group `grid`, with at most `stages` slots."""

    def __init__(
        self, kernel: Kernel, target: Target | None, grid: Grid, plan: Plan, stages: int
    ) -> None:
        self.kernel = kernel
        self.stages = stages
        self.cpu = target is not None and target.family == "cpu"
        self.grid = grid
        self.plan = plan
        self.index = kernel.index
        self.b = Builder()
        self.fence = Fence()
        self.values: dict[Value, Value] = {}
        self.kept: dict[Value, Kept] = {}
        levels = uniformity(replace(kernel, threads=grid.threads)).levels
        self.varying = {v for v, level in levels.items() if level != GROUP}
        self.slots: dict[
            tuple[int, int], Value
        ] = {}  # arrays by the site of a read and their slots
        self.sums: set[Value] = set()  # tiles that stay matrices: only products read them
        self.scratch: dict[DType, Value] = {}  # a block of each simdgroup
        self.fetched: set[Op] = set()  # reads of open loops that are already staged
        self.apart = 0  # loops and branches around the current op that threads run differently
        self.turned: list[dict[Value, Shared]] = [{}]  # by open block: copies in group memory
        self.upcoming: dict[Block, list[Hint]] = {}  # by body of a loop: what its next turn reads
        self.coming: dict[Value, Coming] = {}  # operands that are filled panel by panel
        self.micro: MatrixAtom | None = None  # what multiplies from memory
        self.entry = Block()
        self._early = Builder()
        self._memo: dict[Any, tuple[Value, ...]] = {}

    # --- scalars ----------------------------------------------------------------------------------

    def number(self, value: int) -> Value:
        """A constant of the index type."""
        return self.b.const(value, self.index)

    def integer(self, value: Value) -> Value:
        """An integer of the source program in the index type."""
        return self.indexed(self.values[value])

    def indexed(self, value: Value) -> Value:
        """An integer of the new program in the index type."""
        return (
            value if value.type is self.index else self.b.emit("cast", value, attrs=(self.index,))
        )

    def early(self, name: str, *args: Value | int, attrs: tuple[Any, ...] = ()) -> Value:
        """Emits at the kernel's entry, from what was emitted there and constants."""
        b = self._early
        with b.into(self.entry, self._memo):
            values = [b.const(a, self.index) if isinstance(a, int) else a for a in args]
            return b.emit(name, *values, attrs=attrs)

    def thread(self, kind: str) -> Value:
        """This thread's column (`across`) or row (`down`) of the grid."""
        thread = self.early("thread", attrs=(self.index,))
        bits, below = self.grid.bits(kind), 0
        found: Value | None = None
        while bits:
            run = next((n for n in range(1, len(bits)) if bits[n] != bits[0] + n), len(bits))
            part = thread if bits[0] == 0 else self.early("floordiv", thread, 1 << bits[0])
            if 1 << (bits[0] + run) < self.grid.threads:
                part = self.early("mod", part, 1 << run)
            if below:
                part = self.early("mul", part, 1 << below)
            found = part if found is None else self.early("add", found, part)
            bits, below = bits[run:], below + run
        if found is None:
            return self.number(0)
        return named(found, "column" if kind == "across" else "row")

    def lane(self, kind: str, lanes: int, width: int) -> Value:
        """Where this thread's chunk of `width` begins among those of the first `lanes` threads of
        its row or column."""
        if lanes == 1:
            return self.number(0)
        thread = self.thread(kind)
        whole = self.grid.across if kind == "across" else self.grid.down
        own = thread if lanes == whole else self.early("mod", thread, lanes)
        return own if width == 1 else self.early("mul", own, width)

    # --- arrays -----------------------------------------------------------------------------------

    def array(self, elem: DType, shape: Sequence[int], name: str) -> Value:
        """A new array of group memory."""
        new = self.early("shared", attrs=(tensor(elem, len(shape), "shared", tuple(shape)),))
        return named(new, name)

    def staged(self, of: Value, elem: DType, turned: bool) -> Shared:
        """A new array for the tile `of`, its rows padded where banks would collide."""
        assert isinstance(of.type, Tile)
        shape = list(of.type.shape[::-1] if turned else of.type.shape)
        if len(shape) > 1 and not self.cpu:
            shape[-1] += PAD_BYTES // elem.bytes
        return Shared(self.array(elem, shape, of.name or "staged"), turned)

    def panels(self, of: Value, elem: DType, turned: bool, most: int | None = None) -> Shared:
        """A new array for a right operand, the columns of a chunk together; for `most` chunks."""
        assert isinstance(of.type, Tile)
        depth, side = of.type.shape[::-1] if turned else of.type.shape
        a = self.grid.along("across", side)
        count = a.count if most is None else min(a.count, most)
        array = self.array(elem, (count, depth, a.lanes), of.name or "panels")
        return Shared(array, turned, panels=True)

    def private(self, of: Value, kinds: Kinds | None = None) -> Private:
        """A new array for each thread's own chunks of the tile `of`, which lie as planned if no
        `kinds` are given."""
        assert isinstance(of.type, Tile)
        kinds = kinds or self.plan.kinds[of]
        counts = [a.count for a in self.axes(kinds, of.type.shape)]
        shape = (*counts, self.grid.threads)
        return Private(kinds, self.array(of.type.elem, shape, of.name or "kept"))

    # --- chunks -----------------------------------------------------------------------------------

    def axes(self, kinds: Kinds, shape: Sequence[int]) -> list[Along]:
        """How each axis lies on the threads."""
        return [self.grid.along(k, s) for k, s in zip(kinds, shape, strict=True)]

    def spot(self, kind: str, size: int, chunk: int | Value) -> Spot:
        """The chunk number `chunk` of this thread."""
        a, b = self.grid.along(kind, size), self.b
        lane = self.lane(kind, a.lanes, a.width)
        number = self.number(chunk) if isinstance(chunk, int) else chunk
        moved = b.emit("mul", number, self.number(a.lanes * a.width))
        return Spot(kind, size, chunk, b.emit("add", moved, lane), a.width)

    def walk(self, kinds: Kinds, shape: Sequence[int], body: Callable[[Place], None]) -> None:
        """Runs `body` for every chunk of this thread: written out, or as loops where the grid
        says so."""
        if self.grid.looped:
            self._loops(list(zip(kinds, shape, strict=True)), (), body)
            return
        counts = [range(a.count) for a in self.axes(kinds, shape)]
        for chunks in product(*counts):
            spots = zip(kinds, shape, chunks, strict=True)
            body(tuple(self.spot(k, s, c) for k, s, c in spots))

    def _loops(
        self, axes: list[tuple[str, int]], done: Place, body: Callable[[Place], None]
    ) -> None:
        if not axes:
            body(done)
            return
        (kind, size), rest = axes[0], axes[1:]
        count = self.grid.along(kind, size).count
        if count == 1:
            self._loops(rest, (*done, self.spot(kind, size, 0)), body)
            return
        with self.loop(count) as chunk:
            self._loops(rest, (*done, self.spot(kind, size, chunk)), body)

    @contextmanager
    def loop(self, count: int, name: str = "i", step: int = 1) -> Generator[Value]:
        """A counted loop that carries nothing; what it holds sees no barrier."""
        b = self.b
        counter = Value(self.index, None, name)
        bounds = self.number(0), self.number(count), self.number(step)
        with b.block((counter,)) as body:
            yield counter
            b.emit_all("yield")
        b.emit_all("for", bounds, (False,), (body,))

    def carry(
        self,
        count: int,
        init: Sequence[Value],
        body: Callable[[Value, Sequence[Value]], Sequence[Value]],
        name: str = "k",
    ) -> tuple[Value, ...]:
        """A counted loop that carries values."""
        b = self.b
        counter = Value(self.index, None, name)
        params = [Value(v.type, None, v.name) for v in init]
        bounds = self.number(0), self.number(count), self.number(1)
        with b.block((counter, *params)) as block:
            b.emit_all("yield", body(counter, params))
        return b.emit_all("for", (*bounds, *init), (False,), (block,))

    def branch(
        self,
        condition: Value,
        then: Callable[[], Iterable[Value]],
        other: Callable[[], Iterable[Value]],
    ) -> tuple[Value, ...]:
        """A branch that leaves values."""
        b = self.b
        sides: list[Block] = []
        for side in (then, other):
            with b.block() as block:
                b.emit_all("yield", tuple(side()))
            sides.append(block)
        return b.emit_all("if", (condition,), (), tuple(sides))

    @contextmanager
    def only(self, condition: Value | None) -> Generator[None]:
        """Emits under a condition; None: always."""
        if condition is None:
            yield
            return
        b = self.b
        with b.block() as then:
            yield
            b.emit_all("yield")
        with b.block() as other:
            b.emit_all("yield")
        b.emit_all("if", (condition,), (), (then, other))

    def owner(self, kinds: Kinds, shape: Sequence[int]) -> Value | None:
        """Whether this thread's elements are no copies; None when no thread holds any."""
        b, zero = self.b, self.number(0)
        out: Value | None = None
        held = dict(zip(kinds, self.axes(kinds, shape), strict=True))
        for kind, whole in (("across", self.grid.across), ("down", self.grid.down)):
            lanes = held[kind].lanes if kind in held else 1
            if lanes == whole:
                continue
            thread = self.thread(kind)
            own = (
                b.emit("lt", thread, self.number(lanes))
                if lanes > 1
                else b.emit("eq", thread, zero)
            )
            out = own if out is None else b.emit("and", out, own)
        return out

    # --- kept values ------------------------------------------------------------------------------

    def load(self, kept: Kept, place: Place) -> Value:
        """The chunk of a kept value at `place`."""
        if isinstance(kept, Registers):
            return kept.chunks[tuple(_known(s.chunk) for s in place)]
        if isinstance(kept, Private):
            return self.b.emit("load", kept.array, *self._mine(place), attrs=(0,))
        assert isinstance(kept, Shared), "only products read opaque matrices"
        return self.shared(kept, [s.at for s in place], place[-1].width)

    def store(self, kept: Private, place: Place, value: Value) -> None:
        """Writes the chunk of a value that threads keep in memory."""
        self.b.emit_all("store", (kept.array, *self._mine(place), value))

    def _mine(self, place: Place) -> list[Value]:
        chunks = [self.number(s.chunk) if isinstance(s.chunk, int) else s.chunk for s in place]
        return [*chunks, self.b.emit("thread", attrs=(self.index,))]

    def shared(self, kept: Shared, at: Sequence[Value], width: int) -> Value:
        """`width` neighbours along the last axis of a staged tile."""
        b = self.b
        held = kept.array.type
        assert isinstance(held, Tensor)
        where = [*at[::-1]] if kept.turned else [*at]
        if width == 1 or not kept.turned:
            return b.emit("load", kept.array, *where, attrs=(width if width > 1 else 0,))
        parts = [
            b.emit(
                "load", kept.array, b.emit("add", where[0], self.number(i)), *where[1:], attrs=(0,)
            )
            for i in range(width)
        ]
        return b.emit("pack", *parts)

    def put(self, kept: Shared, at: Sequence[Value], value: Value) -> None:
        """Writes one element of a staged tile, widened if the array is."""
        held = element(kept.array.type)
        if element(value.type) is not held:
            value = self.b.emit("cast", value, attrs=(held,))
        self.b.emit_all("store", (kept.array, *(at[::-1] if kept.turned else at), value))

    def wider(self, elem: DType) -> DType:
        """What elements of `elem` are staged as: a CPU widens floats once, when it fills."""
        return f32 if self.cpu and elem.kind == "s" else elem

    def wide(self, value: Value, width: int) -> Value:
        """`value` as a vector of `width`; a scalar where that is 1."""
        if width == 1 or isinstance(value.type, Vector):
            return value
        return self.b.emit("splat", value, attrs=(width,))

    def parts(self, value: Value, width: int) -> list[Value]:
        """The elements of a chunk."""
        if not isinstance(value.type, Vector):
            return [value] * width
        return [self.b.emit("extract", value, attrs=(i,)) for i in range(width)]

    def packed(self, parts: Sequence[Value]) -> Value:
        """A chunk of these elements."""
        return parts[0] if len(parts) == 1 else self.b.emit("pack", *parts)

    def bits(self, value: Value) -> Value:
        """The elements of one word of 32 bits, as it."""
        out = self.b.emit("bitcast", value, attrs=(u32,))
        return self.b.emit("extract", out, attrs=(0,)) if isinstance(out.type, Vector) else out

    def zero(self, elem: DType, width: int) -> Value:
        """A chunk of zeros."""
        return self.b.const(0, elem if width == 1 else vector(elem, width))

    def follow(self, op: Op) -> None:
        """What is emitted next belongs to the line of `op`."""
        self.b.loc, self.b.exact = op.loc, op.exact


def _known(chunk: int | Value) -> int:
    assert isinstance(chunk, int), "registers have no run-time numbers"
    return chunk


def named(value: Value, name: str) -> Value:
    """`value`, called `name` unless it has a name."""
    if name and not value.name:
        value.name = name
    return value
