"""A consumer: a warpgroup that multiplies what the rings hold into accumulators of its own.

A product is issued where it stands and awaited before anything reads an accumulator, at the latest
at the end of its block; a slot is freed there, as soon as the last product that reads it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from iron.dtypes import bool_, f32, i32
from iron.ir.build import Builder
from iron.ir.core import Block, Op, Value, carried, const_of, is_const
from iron.ir.floats8 import FLOATS8
from iron.ir.ops.ring import WARPGROUP
from iron.ir.types import Tensor, Tile, element, tensor
from iron.tiles.emitter import named
from iron.tiles.ring import Ring, Staged, staged
from iron.tiles.sm90.boxes import Refused
from iron.tiles.sm90.plan import ROWS, Plan
from iron.tiles.sm90.role import Held, Role

COLUMNS_A_REGISTER = WARPGROUP // ROWS
SUMS = (f32, i32)
FIRST_TURN = 5
"""Named barrier at which the first of two consumers waits for its turn; the other's is the next."""


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
        self.packed: dict[Value, list[Value]] = {}  # words of a carried matrix of 16-bit floats
        self.flying: list[tuple[list[Value], set[Ring]]] = []  # sums and rings of products
        self.waited: set[Ring] = set()
        self.left: dict[Ring, int] = {}  # products of this block that have yet to read a slot
        self.paced: tuple[Op, Op] | None = None  # the first and the last product of a loop's turn

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
        found = (self.plan.ring_of(s.site) for s in staged(op) if s is not None)
        return {ring for ring in found if not ring.once}

    def loop(self, op: Op) -> None:
        """Sums that a loop carries stay in their registers."""
        (body,) = op.regions
        low, high = (self.values[a] for a in op.args[:2])
        sums: list[Value] = []
        for i, init in enumerate(op.args[3:]):
            if not _matrix(init):
                continue
            param = body.params[1 + i]
            if element(init.type) not in SUMS:
                self.packed[param] = self.packed[op.results[i]] = self.words(init)
                continue
            if init in self.sums and self.last(init) <= self.at:
                self.sums[param] = self.sums[op.results[i]] = self.sums[init]
                continue
            held = self.registers(param)
            if _zeros(init) and self._chained(op, i):
                self.begins[param] = body.params[0], low
                sums.append(param)
            else:
                self.fill(held, init)
            self.sums[param] = self.sums[op.results[i]] = held
        outer, self.paced = self.paced, self._pace(body)
        super().loop(op)
        self.paced = outer
        if sums:
            self.only(self.b.emit("ge", low, high), lambda: self._clear(sums))

    def _pace(self, body: Block) -> tuple[Op, Op] | None:
        """Where consumers take turns: one starts its products while the other computes."""
        products = [op for op in body.ops if op.name == "mma"]
        wanted = self.plan.setting("PINGPONG", 0) and self.plan.consumers == 2
        return (products[0], products[-1]) if wanted and len(products) > 1 else None

    def pass_on(self) -> None:
        """The other consumer may start its products."""
        other = self.b.emit("sub", self.number(FIRST_TURN + 1), self.me)
        self.b.emit_all("part_arrive", (other,), (2 * WARPGROUP,))

    def turn(self, op: Op) -> list[Value]:
        """A carried matrix goes back to the registers that the loop carries it in."""
        left = super().turn(op)
        params = op.regions[0].params[1:]
        for param, value in zip(params, carried(op), strict=True):
            if not _matrix(value):
                continue
            if param in self.packed:
                self.pack(self.packed[param], value)
                continue
            held = self.sums.get(value)
            if held is not None and any(self.sums.get(p) is held for p in params if p is not param):
                raise Refused("carried matrices change places")
            if held is not self.sums[param]:
                self.fill(self.sums[param], value)
        return left

    def branch(self, op: Op) -> None:
        """Sums that a branch leaves have registers of their own."""
        for result in op.results:
            if _matrix(result):
                if element(result.type) not in SUMS:
                    raise Refused("a branch leaves a matrix of 16-bit floats")
                self.sums[result] = self.registers(result)
        super().branch(op)

    def side(self, op: Op, region: Block) -> list[list[Value]]:
        """Each side puts its sums there."""
        left = super().side(op, region)
        for value, result in zip(region.yielded, op.results, strict=True):
            if _matrix(value):
                self.fill(self.sums[result], value)
        return left

    def _chained(self, op: Op, i: int) -> bool:
        """True when a carried sum goes through products alone, the first of which may set it."""
        (body,) = op.regions
        value = body.params[1 + i]
        users = [o for o in body.walk() if value in o.args]
        while len(users) == 1 and users[0].name == "mma" and users[0].args.count(value) == 1:
            if users[0].args[2] is not value or users[0] not in body.ops:
                break
            value = users[0].results[0]
            users = [o for o in body.walk() if value in o.args]
        return value is carried(op)[i] and len(users) == 1

    def registers(self, of: Value) -> list[Value]:
        """New registers for this consumer's rows of an accumulator."""
        assert isinstance(of.type, Tile)
        size = of.type.shape[1] // COLUMNS_A_REGISTER
        held = tensor(of.type.elem, 1, "registers", (size,))
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
        self.b.emit_all("store", (held, i, self.b.const(0, element(held.type))))

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

    def fill(self, arrays: list[Value], value: Value) -> None:
        """Puts a matrix into registers."""
        raise NotImplementedError

    def keep(self, value: Value) -> list[Value]:
        """The registers of a matrix, computed now."""
        raise NotImplementedError

    def words(self, value: Value) -> list[Value]:
        """A matrix of 16-bit floats as a product's factor, for each 64 rows."""
        raise NotImplementedError

    def pack(self, arrays: list[Value], value: Value) -> None:
        """Puts a matrix of 16-bit floats into words."""
        raise NotImplementedError

    def last(self, value: Value) -> int:
        """The op of this block after which nothing reads `value`."""
        raise NotImplementedError

    def _product(self, op: Op) -> None:
        b, (x, y) = self.b, staged(op)
        assert y is not None
        if self.paced is not None and op is self.paced[0]:
            mine = b.emit("add", self.me, self.number(FIRST_TURN))
            b.emit_all("part_barrier", (mine,), (2 * WARPGROUP,))
        words = self.words(op.args[0]) if x is None else []
        factor, math = op.args[0].type, op.attr("math")
        assert isinstance(factor, Tile)
        kind = (factor.shape[1], math if math in FLOATS8 else "")
        sums, keep = self._sum(op)
        for ring in sorted(self._rings(op), key=lambda r: r.sites):
            if ring not in self.waited:
                b.emit_all("ring_wait", (self.held.barriers[ring], *self.turns[ring]))
                self.waited.add(ring)
        right, right_k = self._factor(y)
        first = b.emit("mul", self.me, self.number(self.plan.rows))
        for i, held in enumerate(sums):
            if x is None:
                attrs = (element(op.args[0].type), right_k)
                b.emit_all("wgmma_a", (held, words[i], *right, keep), attrs)
                continue
            left, left_k = self._factor(x)
            row = b.emit("add", first, self.number(i * ROWS))
            b.emit_all("wgmma", (held, *left, row, *right, keep), (left_k, right_k, *kind))
        self.sums[op.results[0]] = sums
        self.flying.append(([*sums, *words], self._rings(op)))
        for ring in self._rings(op):
            self.left[ring] -= 1
        if self.paced is not None and op is self.paced[1]:
            self.pass_on()

    def _factor(self, of: Staged) -> tuple[tuple[Value, Value], bool]:
        """A part and its slot, and whether its columns run along k."""
        slot = self.turns[self.plan.ring_of(of.site)].slot
        return (self.held.parts[of.site], slot), self.plan.operands[of.site].k_major

    def _sum(self, op: Op) -> tuple[list[Value], Value]:
        """The registers of a product's sum, and whether they hold something yet."""
        b, acc = self.b, op.args[2]
        if acc in self.begins:
            counter, low = self.begins[acc]
            return self.sums[acc], b.emit("ne", self.values[counter], low)
        if _zeros(acc):
            return self.registers(op.results[0]), b.const(False, bool_)
        held = self.sums[acc] if acc in self.sums else self.keep(acc)
        if self.last(acc) > self.at:
            copied = self.registers(op.results[0])
            self.fill(copied, acc)
            held = copied
        return held, b.const(True, bool_)

    def settle(self, touched: Collection[Value] | None = None) -> None:
        """Awaits the products of these registers (None: all), then frees the slots that no product
        of this block reads again."""
        ends = [i for i, (held, _) in enumerate(self.flying, 1) if _meet(held, touched)]
        if not ends:
            return
        self.b.emit_all("wgmma_wait", (), (len(self.flying) - ends[-1],))
        self.flying = self.flying[ends[-1] :]
        read = {ring for _, rings in self.flying for ring in rings}
        for ring in sorted(self.waited - read, key=lambda r: r.sites):
            if not self.left[ring]:
                self.b.emit_all("ring_free", (self.held.barriers[ring], self.turns[ring].slot))
                self.advance(ring)
                self.waited.discard(ring)


def _meet(some: Collection[Value], others: Collection[Value] | None) -> bool:
    return others is None or any(v in others for v in some)


def _matrix(value: Value) -> bool:
    return isinstance(value.type, Tile) and len(value.type.shape) == 2


def _zeros(value: Value) -> bool:
    op = value.op
    return (
        op is not None
        and op.name == "tile_full"
        and is_const(op.args[0])
        and const_of(op.args[0]) == 0
    )
