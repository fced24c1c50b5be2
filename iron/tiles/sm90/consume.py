"""A consumer: a warpgroup that multiplies what the rings hold into accumulators of its own.

A product is issued where it stands and awaited before anything reads an accumulator, at the latest
at the end of its block; a slot is freed there, as soon as the last product that reads it is done.
"""

from __future__ import annotations

from collections.abc import Callable

from iron.dtypes import bool_, f32
from iron.ir.build import Builder
from iron.ir.core import Block, Op, Value, carried, const_of, is_const
from iron.ir.ops.ring import WARPGROUP
from iron.ir.types import Tensor, Tile, tensor
from iron.tiles.emitter import named
from iron.tiles.ring import Ring, staged
from iron.tiles.sm90.plan import ROWS, Plan, Refused
from iron.tiles.sm90.role import Held, Role

COLUMNS_A_REGISTER = WARPGROUP // ROWS


class Consumer(Role):
    """Emits the program of the consumer whose number is `number`."""

    def __init__(
        self, b: Builder, plan: Plan, held: Held, values: dict[Value, Value], number: Value
    ) -> None:
        super().__init__(b, plan, held, values)
        self.me = number
        self.lane = b.emit("mod", held.thread, b.const(WARPGROUP, held.thread.type))
        named(self.lane, "lane")
        self.sums: dict[Value, list[Value]] = {}  # an accumulator's registers, 64 rows each
        self.begins: dict[Value, tuple[Value, Value]] = {}  # of a carried sum: counter, first turn
        self.flying = False
        self.waited: set[Ring] = set()
        self.left: dict[Ring, int] = {}  # products of this block that have yet to read a slot

    # --- blocks and loops -------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Products are awaited inside their block."""
        outer, self.left = self.left, {}
        for op in block.ops:
            for ring in self._rings(op):
                self.left[ring] = self.left.get(ring, 0) + 1
        super().block(block)
        self.settle()
        self.left = outer

    def _rings(self, op: Op) -> set[Ring]:
        if op.name != "mma":
            return set()
        return {self.plan.ring_of(s.site) for s in staged(op) if s is not None}

    def loop(self, op: Op) -> None:
        """Sums that a loop carries stay in their registers."""
        (body,) = op.regions
        low, high = (self.values[a] for a in op.args[:2])
        sums: list[Value] = []
        for i, init in enumerate(op.args[3:]):
            if isinstance(init.type, Tile):
                param = body.params[1 + i]
                self._chained(op, i)
                if not _zeros(init):
                    raise Refused("a sum does not begin at 0")
                self.sums[param] = self.sums[op.results[i]] = self.registers(param)
                self.begins[param] = body.params[0], low
                sums.append(param)
        super().loop(op)
        if sums:
            self.only(self.b.emit("ge", low, high), lambda: self._clear(sums))

    def _chained(self, op: Op, i: int) -> None:
        """A carried sum goes through products alone, so that it can stay where it is."""
        (body,) = op.regions
        value = body.params[1 + i]
        users = [o for o in body.walk() if value in o.args]
        while len(users) == 1 and users[0].name == "mma" and users[0].args.count(value) == 1:
            if users[0].args[2] is not value or users[0] not in body.ops:
                break
            value = users[0].results[0]
            users = [o for o in body.walk() if value in o.args]
        if value is not carried(op)[i] or len(users) != 1:
            raise Refused("a sum is read while its products run")

    def registers(self, of: Value) -> list[Value]:
        """New registers for this consumer's rows of an accumulator."""
        assert isinstance(of.type, Tile)
        held = tensor(f32, 1, "registers", (of.type.shape[1] // COLUMNS_A_REGISTER,))
        made = [self.b.emit("registers", attrs=(held,)) for _ in range(self.plan.blocks)]
        for value in made:
            named(value, of.name)
        return made

    def _clear(self, sums: list[Value]) -> None:
        """What a loop without a turn leaves."""
        for held in (h for v in sums for h in self.sums[v]):
            assert isinstance(held.type, Tensor)
            self.each(held.type.shape[0], lambda i, h=held: self._zero(h, i))

    def _zero(self, held: Value, i: Value) -> None:
        self.b.emit_all("store", (held, i, self.b.const(0.0, f32)))

    def each(self, count: int, body: Callable[[Value], object], name: str = "i") -> None:
        """A counted loop that carries nothing."""
        b, counter = self.b, Value(self.held.thread.type, None, name)
        bounds = self.number(0), self.number(count), self.number(1)
        with b.block((counter,)) as block:
            body(counter)
            b.emit_all("yield")
        b.emit_all("for", bounds, (False, 0), (block,))

    # --- products ---------------------------------------------------------------------------------

    def tile(self, op: Op) -> None:
        """Products run where they stand; other values are made where a write reads them."""
        if op.name == "mma":
            self._product(op)
        elif op.name == "tile_write":
            self.settle()
            self.write(op)

    def write(self, op: Op) -> None:
        """A tile leaves the group."""
        raise NotImplementedError

    def _product(self, op: Op) -> None:
        b, (x, y) = self.b, staged(op)
        assert x is not None
        assert y is not None
        for ring in sorted(self._rings(op), key=lambda r: r.sites):
            if ring not in self.waited:
                b.emit_all("ring_wait", (self.held.barriers[ring], *self.turns[ring]))
                self.waited.add(ring)
        sums, keep = self._sum(op)
        slots = [self.turns[self.plan.ring_of(s.site)].slot for s in (x, y)]
        majors = tuple(self.plan.operands[s.site].k_major for s in (x, y))
        first = b.emit("mul", self.me, self.number(self.plan.rows))
        for i, held in enumerate(sums):
            row = b.emit("add", first, self.number(i * ROWS))
            left = (self.held.parts[x.site], slots[0], row)
            right = (self.held.parts[y.site], slots[1])
            b.emit_all("wgmma", (held, *left, *right, keep), majors)
        self.sums[op.results[0]] = sums
        self.flying = True
        for ring in self._rings(op):
            self.left[ring] -= 1

    def _sum(self, op: Op) -> tuple[list[Value], Value]:
        """The registers of a product's sum, and whether they hold something yet."""
        b, acc = self.b, op.args[2]
        if acc in self.begins:
            counter, low = self.begins[acc]
            return self.sums[acc], b.emit("ne", self.values[counter], low)
        if acc in self.sums:
            return self.sums[acc], b.const(True, bool_)
        if not _zeros(acc):
            raise Refused("a sum does not begin at 0")
        return self.registers(op.results[0]), b.const(False, bool_)

    def settle(self) -> None:
        """Awaits the products, then frees the slots that no product of this block reads again."""
        if not self.flying:
            return
        self.b.emit_all("wgmma_wait")
        self.flying = False
        for ring in sorted(self.waited, key=lambda r: r.sites):
            if not self.left[ring]:
                self.b.emit_all("ring_free", (self.held.barriers[ring], self.turns[ring].slot))
                self.advance(ring)
                self.waited.discard(ring)


def _zeros(value: Value) -> bool:
    op = value.op
    return (
        op is not None
        and op.name == "tile_full"
        and is_const(op.args[0])
        and const_of(op.args[0]) == 0
    )
