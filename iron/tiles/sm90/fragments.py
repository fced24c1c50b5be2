"""What a consumer computes between products: matrices that lie as its sums do, and vectors along
the rows.

A matrix that one op reads is computed where that op needs it, register by register. One that more
ops read, or that a loop carries, is kept: in the registers of an operand that nothing reads later,
or in new ones. A vector along the rows is two scalars for each 64 rows, the same in the four lanes
that share a row.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.dtypes import f32, u32
from iron.ir.core import Block, Op, Value
from iron.ir.table import Trait
from iron.ir.types import Tile, element, tensor
from iron.tiles.ring import Ring, staged, touches
from iron.tiles.sm90.boxes import Refused
from iron.tiles.sm90.consume import SUMS
from iron.tiles.sm90.elements import HELD, LAYOUT, SIDE, Place, Step, spread, wide
from iron.tiles.sm90.plan import ROWS
from iron.tiles.sm90.write import Writer

OFFSETS = sorted({LAYOUT.at(r)[0] for r in range(HELD)})
"""Rows that one lane holds of each 64, from its first."""
SHARING = tuple(1 << i for i, image in enumerate(LAYOUT.lane) if image[1])
"""Bits of the lanes that share a row."""
UNITS = {"add": 0.0, "max": float("-inf"), "min": float("inf")}
JOINING = {"add": "add", "max": "greater", "min": "lesser"}
"""The row that combines two numbers of a reduction, which has no order and so no sign of zero."""
NEVER = 1 << 30


class Fragments(Writer):
    """A consumer that computes between products."""

    def start(self) -> None:
        """Nothing is known before the first block; the first consumer has the first turn."""
        if self.plan.setting("PINGPONG", 0) and self.plan.consumers == 2:
            self.only(self.b.emit("eq", self.me, self.number(1)), self.pass_on)
        self.memo = {}
        self.rows: dict[Value, list[Value]] = {}
        self.ops: list[Op] = []
        self.readers: dict[Value, list[int]] = {}
        self.local: set[Value] = set()
        self.yields: set[Value] = set()
        self.open: dict[Ring, int] = {}

    # --- one block --------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Ops in order; what a value is read by decides where it lives."""
        outer = self.ops, self.readers, self.local, self.yields, self.open
        self.ops, self.yields, self.open = block.ops, set(block.yielded), {}
        self.local = {*block.params, *(r for op in block.ops for r in op.results)}
        self.readers = {}
        for at, op in enumerate(block.ops):
            inner = (a for r in op.regions for o in r.walk() for a in o.args)
            for value in {*op.args, *inner} if op.name != "yield" else ():
                self.readers.setdefault(value, []).append(at)
        super().block(block)
        self.ops, self.readers, self.local, self.yields, self.open = outer

    def emitted(self, op: Op) -> None:
        """A slot that a whole loop reads is freed after the last op that does."""
        for ring in [r for r, last in self.open.items() if last <= self.at]:
            self.settle()
            self.b.emit_all("ring_free", (self.held.barriers[ring], self.turns[ring].slot))
            self.advance(ring)
            del self.open[ring]

    def last(self, value: Value) -> int:
        """The op of this block after which nothing reads `value`, through what is computed late."""
        if value not in self.local or value in self.yields:
            return NEVER
        out = -1
        for at in self.readers.get(value, ()):
            out = max(out, at)
            op = self.ops[at]
            for result in op.results:
                if isinstance(result.type, Tile) and self._late(op, result):
                    out = max(out, self.last(result))
        return out

    def _late(self, op: Op, result: Value) -> bool:
        """True for a value that is computed where it is read."""
        if result in self.rows or not (
            _computes(op) or op.name in ("tile_expand", "tile_broadcast")
        ):
            return False
        return not self._wanted(result)

    def _wanted(self, value: Value) -> bool:
        """True for a matrix that is worth its registers."""
        assert isinstance(value.type, Tile)
        if len(value.type.shape) != 2 or value.type.elem not in SUMS or not self._mixed(value):
            return False
        reading = self.readers.get(value, [])
        return (
            len(reading) > 1 or value in self.yields or any(self.ops[at].regions for at in reading)
        )

    def _mixed(self, value: Value) -> bool:
        """True for what depends on sums, or on vectors along the rows."""
        op = value.op
        if value in self.sums or value in self.rows:
            return True
        if op is None or not (_computes(op) or op.name in ("tile_expand", "tile_broadcast")):
            return False
        return any(self._mixed(a) for a in op.args)

    # --- ops --------------------------------------------------------------------------------------

    def tile(self, op: Op) -> None:
        """Vectors along rows at once, kept matrices at once, all else where it is read."""
        if op.name == "tile_read":
            self._read_ahead(op)
        elif op.name == "tile_reduce":
            self.rows[op.results[0]] = self._reduced(op)
        elif op.name in ("mma", "tile_write") or not _computes(op):
            super().tile(op)
        elif any(a in self.rows for a in op.args):
            columns = zip(*(self.parts(a) for a in op.args), strict=True)
            self.rows[op.results[0]] = [self.apply(op, list(c)) for c in columns]
        elif self._wanted(op.results[0]):
            self.keep(op.results[0])

    def _read_ahead(self, op: Op) -> None:
        """A slot that a whole loop reads is awaited before the loop."""
        for ring in self.plan.rings:
            mine = [o for o in self.ops if o.name == "tile_read" and o.attr("site") in ring.sites]
            if ring.once and mine and mine[-1] is op:
                self.b.emit_all("ring_wait", (self.held.barriers[ring], *self.turns[ring]))
                using = [at for at, o in enumerate(self.ops) if _uses(o, ring)]
                self.open[ring] = max([self.at, *using])

    # --- matrices ---------------------------------------------------------------------------------

    def keep(self, value: Value) -> list[Value]:
        """The registers of a matrix, computed now."""
        dying = (leaf for leaf in self._leaves(value) if self.last(leaf) <= self.at)
        found = next((leaf for leaf in dying if leaf.type is value.type), None)
        arrays = self.registers(value) if found is None else self.sums[found]
        self.fill(arrays, value)
        self.sums[value] = arrays
        return arrays

    def _leaves(self, value: Value) -> list[Value]:
        """The matrices in registers that `value` is computed from."""
        if value in self.sums:
            return [value]
        op = value.op
        return [v for a in op.args for v in self._leaves(a)] if op and _computes(op) else []

    def fill(self, arrays: list[Value], value: Value) -> None:
        """Puts a matrix into registers."""
        self.ready(value, arrays)
        assert isinstance(value.type, Tile)
        for block, held in enumerate(arrays):
            self.each(
                value.type.shape[1] // SIDE,
                lambda j, k=block, h=held: self._put_step(h, value, self.step(k, j)),
                "step",
            )

    def _put_step(self, held: Value, value: Value, step: Step) -> None:
        for r in range(HELD):
            made = self.element(value, step, r)
            at = self.b.emit("add", step.first, self.number(r))
            self.b.emit_all("store", (held, at, made))

    def ready(self, value: Value, arrays: Sequence[Value] = ()) -> None:
        """Awaits the products that `value` depends on, and those of `arrays`."""
        self.settle({*arrays, *(held for leaf in self._leaves(value) for held in self.sums[leaf])})

    def words(self, value: Value) -> list[Value]:
        """A matrix of 16-bit floats as a product's factor, for each 64 rows."""
        if value in self.packed:
            return self.packed[value]
        assert isinstance(value.type, Tile)
        held = tensor(u32, 1, "registers", (value.type.shape[1] // SIDE * HELD // 2,))
        made = [self.b.emit("registers", attrs=(held,)) for _ in range(self.plan.blocks)]
        self.pack(made, value)
        return made

    def pack(self, arrays: list[Value], value: Value) -> None:
        """Puts a matrix of 16-bit floats into words."""
        if value in self.packed:
            raise Refused("carried factors change places")
        self.ready(value, arrays)
        assert isinstance(value.type, Tile)
        for block, held in enumerate(arrays):
            self.each(
                value.type.shape[1] // SIDE,
                lambda j, k=block, h=held: self._pack(h, value, self.step(k, j), j),
                "step",
            )

    def _pack(self, held: Value, value: Value, step: Step, number: Value) -> None:
        b, dtype = self.b, element(value.type)
        found = [self.in_f32(self.element(wide(value), step, r)) for r in range(HELD)]
        first = b.emit("mul", number, self.number(HELD // 2))
        for i in range(HELD // 2):
            word = b.emit("pair", *found[2 * i : 2 * i + 2], attrs=(dtype,))
            b.emit_all("store", (held, b.emit("add", first, self.number(i)), word))

    def computed(self, value: Value, step: Step, r: int) -> Value:
        """What is repeated along the columns is the scalar of the register's row."""
        op = value.op
        if value not in self.sums and op is not None and op.name == "tile_broadcast":
            under = op.args[0]
            assert isinstance(under.type, Tile)
            if under.type.shape[1] == 1 and self._mixed(under):
                return self._of_row(under, step.block, LAYOUT.at(r)[0])
        return super().computed(value, step, r)

    def _of_row(self, value: Value, block: int, offset: int) -> Value:
        """An element of a tile of one column."""
        op = value.op
        if op is not None and _computes(op):
            return self.apply(op, [self._of_row(a, block, offset) for a in op.args])
        if op is not None and op.name == "tile_full":
            return self.values[op.args[0]]
        if op is not None and op.name == "tile_expand" and op.attr("axis") == 1:
            return self.parts(op.args[0])[block * len(OFFSETS) + OFFSETS.index(offset)]
        raise Refused("a column is computed from what is none")

    def alone(self, value: Value, place: Place) -> Value:
        """A vector along the rows has no elements by coordinate."""
        if value in self.rows:
            raise Refused("a vector along the rows is read along the columns")
        return super().alone(value, place)

    # --- vectors along the rows -------------------------------------------------------------------

    def coordinates(self) -> list[Value]:
        """The rows of this lane."""
        b = self.b
        first = b.emit("mul", self.me, self.number(self.plan.rows))
        first = b.emit("add", first, spread(b, self.lane, 0))
        return [
            b.emit("add", first, self.number(block * ROWS + offset))
            for block in range(self.plan.blocks)
            for offset in OFFSETS
        ]

    def parts(self, value: Value) -> list[Value]:
        """Vectors along the rows are carried as their scalars."""
        if not isinstance(value.type, Tile):
            return super().parts(value)
        if len(value.type.shape) != 1:
            return []
        if value in self.rows:
            return self.rows[value]
        outer, self.memo = self.memo, {}
        made = [self.lone(value, (row,)) for row in self.coordinates()]
        self.memo = outer
        return made

    def bind(self, value: Value, parts: Sequence[Value]) -> None:
        """The other way."""
        if not isinstance(value.type, Tile):
            super().bind(value, parts)
        elif len(value.type.shape) == 1:
            self.rows[value] = list(parts)

    def _reduced(self, op: Op) -> list[Value]:
        """Each lane combines its own elements of a row, then the lanes that share it theirs."""
        value, (kind, axis) = op.args[0], op.attrs
        assert isinstance(value.type, Tile)
        if (
            len(value.type.shape) != 2
            or axis != 1
            or kind not in UNITS
            or element(value.type) is not f32
        ):
            raise Refused(f"it reduces {value.type} along axis {axis} by `{kind}`")
        self.ready(value)
        out: list[Value] = []
        for block in range(self.plan.blocks):
            out += self._own(value, kind, block)
        return [self._joined(kind, v) for v in out]

    def _own(self, value: Value, kind: str, block: int) -> list[Value]:
        b, unit, join = self.b, self.b.const(UNITS[kind], f32), JOINING[kind]
        assert isinstance(value.type, Tile)
        bounds = [self.number(n) for n in (0, value.type.shape[1] // SIDE, 1)]
        counter = Value(bounds[0].type, None, "step")
        held = [Value(f32, None, "sum" if kind == "add" else kind) for _ in OFFSETS]

        def turn() -> list[Value]:
            """Pairs first, so that steps wait for one operation of the step before."""
            step = self.step(block, counter)
            found: list[list[Value]] = [[] for _ in OFFSETS]
            for r in range(HELD):
                found[OFFSETS.index(LAYOUT.at(r)[0])].append(self.element(value, step, r))
            while len(found[0]) > 1:
                found = [[b.emit(join, *v[i : i + 2]) for i in range(0, len(v), 2)] for v in found]
            return [b.emit(join, h, v) for h, (v,) in zip(held, found, strict=True)]

        return self.carry([], bounds, counter, [unit] * len(OFFSETS), held, turn)

    def _joined(self, kind: str, value: Value) -> Value:
        for mask in SHARING:
            other = self.b.emit("exchange", value, attrs=(mask,))
            value = self.b.emit(JOINING[kind], value, other)
        return value

    def write(self, op: Op) -> None:
        """A vector along the rows is written by the first lane of each row."""
        value = op.args[-1]
        if value not in self.rows:
            super().write(op)
            return
        b = self.b
        mask = b.emit("and", self.lane, self.number(sum(SHARING)))
        first = b.emit("eq", mask, self.number(0))
        for row, made in zip(self.coordinates(), self.rows[value], strict=True):
            at, exists = self.spot(op, (row,))
            self.only(b.emit("and", first, exists), lambda i=at, v=made: self.put(op, i, v))


def _computes(op: Op) -> bool:
    return op.row.has(Trait.ELEMENTWISE) or op.name == "bitcast"


def _uses(op: Op, ring: Ring) -> bool:
    if op.name == "mma":
        return any(s.site in ring.sites for s in staged(op) if s is not None)
    return any(touches(r, ring) for r in op.regions)
