"""What the roles of a group have alike: the scalars of the tile program, its loops, and the turns
of the rings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from iron.dtypes import i32
from iron.ir.build import Builder
from iron.ir.core import Block, Op, Value, carried
from iron.ir.types import Tensor, Tile
from iron.tiles.emitter import named
from iron.tiles.ring import Ring, touches
from iron.tiles.sm90.boxes import Box, Refused
from iron.tiles.sm90.plan import Plan


class Turn(NamedTuple):
    """Which slot of a ring comes next, and the phase of its round; both i32."""

    slot: Value
    phase: Value


@dataclass(slots=True)
class Held:
    """What the group shares: barriers of rings, arrays of their parts by site, and the arrays that
    writes go through. `thread` is this thread's number, an i32."""

    thread: Value
    barriers: dict[Ring, Value]
    parts: dict[int, Value]
    buffers: Value | None


class Role:
    """Emits what one role does of the tile program; subclasses do the tile ops."""

    def __init__(self, b: Builder, plan: Plan, held: Held, values: dict[Value, Value]) -> None:
        self.b = b
        self.plan = plan
        self.held = held
        self.values = values
        self.groups: tuple[Value, ...] = ()
        self.turns: dict[Ring, Turn] = {}
        self.at = 0  # the op of the innermost block

    # --- turns ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Every ring is at its first slot."""
        for ring in self.plan.rings:
            self.turns[ring] = Turn(self.number(0), self.number(0))

    def advance(self, ring: Ring) -> None:
        """The ring's next slot; after the last comes the first with the other phase."""
        b, (slot, phase) = self.b, self.turns[ring]
        other = b.emit("xor", phase, self.number(1))
        if ring.slots == 1:
            self.turns[ring] = Turn(self.number(0), other)
            return
        after = b.emit("add", slot, self.number(1))
        named(after, "next")
        last = b.emit("eq", after, self.number(ring.slots))
        self.turns[ring] = Turn(
            b.emit("where", last, self.number(0), after), b.emit("where", last, other, phase)
        )

    # --- the program ------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Every op of a block but its yield."""
        outer = self.at
        for self.at, op in enumerate(block.ops):
            self.b.loc, self.b.exact = op.loc, op.exact
            if op.name != "yield":
                self._op(op)
                self.emitted(op)
        self.at = outer

    def emitted(self, op: Op) -> None:
        """What follows an op."""

    def _op(self, op: Op) -> None:
        if op.name == "group":
            number = self.groups[op.attrs[0]]
            self.values[op.results[0]] = named(number, op.results[0].name or f"group{op.attrs[0]}")
        elif op.name == "for":
            self.loop(op)
        elif op.name == "if":
            self.branch(op)
        elif any(isinstance(v.type, Tile) for v in (*op.args, *op.results)):
            self.tile(op)
        elif op.regions or op.name in ("thread", "threads", "barrier", "shared", "store", "atomic"):
            raise Refused(f"`{op.surface}` beside tiles")
        else:
            self.copy(op)

    def copy(self, op: Op) -> None:
        """A scalar op as it is."""
        args = [self.values[a] for a in op.args]
        made = self.b.emit_all(op.name, args, op.attrs, (), op.surface)
        for old, new in zip(op.results, made, strict=True):
            self.values[old] = named(new, old.name)

    def tile(self, op: Op) -> None:
        """An op of tiles."""
        raise NotImplementedError

    def loop(self, op: Op) -> None:
        """A loop of the program, which carries the turns of the rings that it uses."""
        if op.attr("stop"):
            raise Refused("a loop of products ends early")
        (old,) = op.regions
        used = [r for r in self.plan.rings if not r.once and touches(old, r)]
        held = [self.parts(v) for v in op.args[3:]]
        init = [part for parts in held for part in parts]
        bounds = [self.values[v] for v in op.args[:3]]
        counter = Value(bounds[0].type, None, old.params[0].name)
        names = [p.name for p, parts in zip(old.params[1:], held, strict=True) for _ in parts]
        params = [Value(v.type, None, name) for v, name in zip(init, names, strict=True)]
        self.values[old.params[0]] = counter
        sizes = [len(parts) for parts in held]
        self._bind(old.params[1:], sizes, params)
        made = self.carry(used, bounds, counter, init, params, lambda: self.turn(op))
        self._bind(op.results, sizes, made)

    def turn(self, op: Op) -> list[Value]:
        """The body of a loop; what it carries on."""
        self.block(op.regions[0])
        return [part for v in carried(op) for part in self.parts(v)]

    def _bind(self, values: Sequence[Value], sizes: list[int], parts: Sequence[Value]) -> None:
        """Gives each of `values` as many of `parts` as its size says."""
        at = 0
        for value, count in zip(values, sizes, strict=True):
            self.bind(value, parts[at : at + count])
            at += count

    def parts(self, value: Value) -> list[Value]:
        """The scalars that a loop carries for a value of the program."""
        return [] if isinstance(value.type, Tile) else [self.values[value]]

    def bind(self, value: Value, parts: Sequence[Value]) -> None:
        """The other way: a value that has these scalars."""
        if parts:
            (self.values[value],) = parts

    def branch(self, op: Op) -> None:
        """A branch that the whole group takes alike; each side uses the rings in its own way."""
        b, start = self.b, dict(self.turns)
        sites = {
            inner.attr("site")
            for region in op.regions
            for inner in region.walk()
            if inner.name == "tile_read"
        }
        used = [r for r in self.plan.rings if sites.intersection(r.sites)]
        sides: list[Block] = []
        sizes: list[int] = []
        for region in op.regions:
            self.turns = dict(start)
            with b.block() as side:
                held = self.side(op, region)
                sizes = [len(parts) for parts in held]
                turns = (v for r in used for v in self.turns[r])
                b.emit_all("yield", (*turns, *(p for parts in held for p in parts)))
            sides.append(side)
        self.turns = start
        made = b.emit_all("if", (self.values[op.args[0]],), (), tuple(sides))
        self._take(used, made)
        self._bind(op.results, sizes, made[2 * len(used) :])

    def side(self, op: Op, region: Block) -> list[list[Value]]:
        """One side of a branch; what it leaves."""
        self.block(region)
        return [self.parts(v) for v in region.yielded]

    def carry(
        self,
        used: list[Ring],
        bounds: list[Value],
        counter: Value,
        init: list[Value],
        params: list[Value],
        body: Callable[[], list[Value]],
    ) -> list[Value]:
        """A loop that carries `init` as `params`, and the turns of `used`; what it leaves."""
        b = self.b
        start = [v for r in used for v in self.turns[r]]
        inner = [Value(i32, None, name) for _ in used for name in ("slot", "phase")]
        self._take(used, inner)
        with b.block((counter, *inner, *params)) as block:
            left = body()
            b.emit_all("yield", (*(v for r in used for v in self.turns[r]), *left))
        made = b.emit_all("for", (*bounds, *start, *init), (False, 0), (block,))
        self._take(used, made[: len(inner)])
        return list(made[len(inner) :])

    def _take(self, used: list[Ring], values: Sequence[Value]) -> None:
        for i, ring in enumerate(used):
            self.turns[ring] = Turn(values[2 * i], values[2 * i + 1])

    # --- small things -----------------------------------------------------------------------------

    def number(self, value: int) -> Value:
        """An i32 constant."""
        return self.b.const(value, i32)

    def integer(self, value: Value) -> Value:
        """A scalar of the source as an i32."""
        new = self.values[value]
        return new if new.type is i32 else self.b.emit("cast", new, attrs=(i32,))

    def only(self, condition: Value, body: Callable[[], object]) -> None:
        """A branch that leaves nothing."""
        b = self.b
        with b.block() as then:
            body()
            b.emit_all("yield")
        with b.block() as other:
            b.emit_all("yield")
        b.emit_all("if", (condition,), (), (then, other))

    def place(
        self, op: Op, box: Box, row: Value | None = None, column: Value | None = None
    ) -> list[Value]:
        """The first element of an access on each axis of its buffer, moved by rows and columns of
        the box; then the end of its rows, if that is the view's own."""
        t, b = box.buffer.type, self.b
        assert isinstance(t, Tensor)
        axes = op.attr("axes")
        out = [self.integer(v) for v in op.args[1 : 1 + t.rank]]
        first, extents = op.args[1 + t.rank :][: len(axes)], op.args[1 + t.rank + len(axes) :]
        end: list[Value] = []
        if box.ended:
            extent = self.integer(extents[axes.index(box.axes[0])])
            end = [b.emit("add", out[box.axes[0]], extent)]
        for axis, at in zip(axes, first, strict=True):
            out[axis] = b.emit("add", out[axis], self.integer(at))
        moved = self.split(row, box.whole) if row is not None else []
        if column is not None:
            moved.append(column)
        for axis, more in zip(box.axes, moved, strict=False):
            out[axis] = b.emit("add", out[axis], more)
        return out + end

    def split(self, number: Value, sides: tuple[int, ...]) -> list[Value]:
        """The coordinates of element `number` of an array of these sides."""
        out: list[Value] = []
        for side in sides[:0:-1]:
            out.insert(0, self.b.emit("mod", number, self.number(side)))
            number = self.b.emit("floordiv", number, self.number(side))
        return [number, *out]
