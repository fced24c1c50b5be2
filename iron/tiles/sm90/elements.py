"""Elements of tile values in the threads of a consumer: the scalar behind one register of a sum.

A step is 16 columns of 64 rows: eight registers a lane, which lie as `stmatrix` takes them. What is
computed from sums is computed register by register where it is written; an iota is a coordinate,
and a read beside the rings a load of one element.
"""

from __future__ import annotations

from typing import NamedTuple

from iron.dtypes import DType, bool_, i32
from iron.ir.build import Builder
from iron.ir.core import Op, Value
from iron.ir.layout import Coordinate
from iron.ir.table import Trait
from iron.ir.types import Tensor, Tile, element
from iron.targets.atoms.nvidia import ACCUMULATOR, LANES, STMATRIX_4, WARPGROUP
from iron.tiles.sides import sides
from iron.tiles.sm90.boxes import Refused
from iron.tiles.sm90.consume import Consumer
from iron.tiles.sm90.plan import ROWS

SIDE = 16
HELD = SIDE * SIDE // LANES
LAYOUT = ACCUMULATOR.repeat(1, 2).across(0, WARPGROUP)

assert LAYOUT.register == STMATRIX_4.data.register, "a sum is stored as it lies"
assert LAYOUT.lane == STMATRIX_4.data.lane, "a sum is stored as it lies"

Place = tuple[Value, ...]
"""An i32 coordinate for each axis of a tile."""


class Step(NamedTuple):
    """Columns 16 * number .. of the rows 64 * block .. of a consumer.

    Its registers of a sum begin at `first`; `corner` is the element of the lane's register 0.
    """

    block: int
    first: Value
    corner: Place


class Elements(Consumer):
    """A consumer that can compute the elements of tile values."""

    memo: dict[object, Value]

    def step(self, block: int, number: Value) -> Step:
        """The step of that number among the columns; what it computes is computed once."""
        b = self.b
        self.memo = {}
        down, across = (spread(b, self.lane, axis) for axis in (0, 1))
        rows = b.emit("mul", self.me, self.number(self.plan.rows))
        row = b.emit("add", b.emit("add", rows, self.number(block * ROWS)), down)
        column = b.emit("add", b.emit("mul", number, self.number(SIDE)), across)
        return Step(block, b.emit("mul", number, self.number(HELD)), (row, column))

    def place_of(self, step: Step, r: int) -> Place:
        """Where register `r` of a step lies in the tile."""
        moved = LAYOUT.at(r)
        return tuple(
            self.b.emit("add", c, self.number(m)) for c, m in zip(step.corner, moved, strict=True)
        )

    def element(self, value: Value, step: Step, r: int) -> Value:
        """Register `r` of a step of a tile of two axes."""
        key = (value, r)
        if key not in self.memo:
            self.memo[key] = self.computed(value, step, r)
        return self.memo[key]

    def computed(self, value: Value, step: Step, r: int) -> Value:
        """`element`, not yet known."""
        b, op = self.b, value.op
        if value in self.sums:
            at = b.emit("add", step.first, self.number(r))
            return b.emit("load", self.sums[value][step.block], at, attrs=(0,))
        if op is None:
            raise Refused("it computes with what a loop carries beside its sums")
        if _elementwise(op):
            return self.apply(op, [self.element(a, step, r) for a in op.args])
        return self.lone(value, self.place_of(step, r))

    def apply(self, op: Op, args: list[Value]) -> Value:
        """An elementwise op on elements."""
        self.b.loc, self.b.exact = op.loc, op.exact
        return self.b.emit(op.name, *args, attrs=op.attrs, surface=op.surface)

    def lone(self, value: Value, place: Place) -> Value:
        """An element of a value that no sum is part of, by its coordinates."""
        key = (value, place)
        if key not in self.memo:
            self.memo[key] = self.alone(value, place)
        return self.memo[key]

    def alone(self, value: Value, place: Place) -> Value:
        """`lone`, not yet known."""
        op = value.op
        if op is None or value in self.sums:
            raise Refused("it reads another axis of what it has computed")
        if _elementwise(op):
            return self.apply(op, [self.lone(a, place) for a in op.args])
        rule = _RULES.get(op.name)
        if rule is None:
            raise Refused(f"it writes the result of `{op.surface}`")
        return rule(self, op, place)

    # --- values without sums ----------------------------------------------------------------------

    def full(self, op: Op, place: Place) -> Value:
        """A scalar."""
        return self.values[op.args[0]]

    def iota(self, op: Op, place: Place) -> Value:
        """A coordinate."""
        dtype = op.attr("dtype")
        return place[0] if dtype is i32 else self.b.emit("cast", place[0], attrs=(dtype,))

    def expand(self, op: Op, place: Place) -> Value:
        """An axis less."""
        axis = op.attr("axis")
        return self.lone(op.args[0], (*place[:axis], *place[axis + 1 :]))

    def broadcast(self, op: Op, place: Place) -> Value:
        """The only element of an axis that is repeated."""
        held = op.args[0].type
        assert isinstance(held, Tile)
        zero = self.number(0)
        inner = (zero if side == 1 else c for side, c in zip(held.shape, place, strict=True))
        return self.lone(op.args[0], tuple(inner))

    def transpose(self, op: Op, place: Place) -> Value:
        """The coordinates exchanged."""
        return self.lone(op.args[0], place[::-1])

    def read(self, op: Op, place: Place) -> Value:
        """A load where the view has the element, else 0."""
        _readable(op)
        return self.loaded(op, *self.spot(op, place))

    def gather(self, op: Op, place: Place) -> Value:
        """A load where the view has the element and it is kept, else 0."""
        b, t = self.b, _readable(op)
        count = len(op.attr("axes"))
        index = [self.integer(v) for v in op.args[1 : 1 + t.rank]]
        wanted, extents = op.args[1 + t.rank :][:count], op.args[1 + t.rank + count : -1]
        exists = self.lone(op.args[-1], place)
        for j, axis in enumerate(op.attr("axes")):
            held = wanted[j]
            u = self.lone(held, place) if isinstance(held.type, Tile) else self.values[held]
            if element(held.type).bits > 32:
                raise Refused("an index has 64 bits")
            u = u if u.type is i32 else b.emit("cast", u, attrs=(i32,))
            exists = b.emit("and", exists, self.inside(u, extents[j]))
            moved = b.emit("mul", u, self.number(op.attr("steps")[j]))
            index[axis] = b.emit("add", index[axis], moved)
        return self.loaded(op, index, exists)

    def inside(self, u: Value, extent: Value) -> Value:
        """0 <= u < extent."""
        b = self.b
        return b.emit("and", b.emit("ge", u, self.number(0)), b.emit("lt", u, self.integer(extent)))

    def loaded(self, op: Op, at: list[Value], exists: Value) -> Value:
        """The element of an access, or 0."""
        b = self.b
        with b.block() as then:
            b.emit_all("yield", (b.emit("load", self.values[op.args[0]], *at, attrs=(0,)),))
        with b.block() as other:
            b.emit_all("yield", (b.const(0, element(op.args[0].type)),))
        (made,) = b.emit_all("if", (exists,), (), (then, other))
        return made

    def spot(self, op: Op, at: Place) -> tuple[list[Value], Value]:
        """The indices of an access's element, and whether its view has it."""
        b, t = self.b, op.args[0].type
        assert isinstance(t, Tensor)
        axes, count, groups = op.attr("axes"), len(op.attr("axes")), sides(op)
        pairs = zip(at, groups, strict=True)
        place = [c for number, whole in pairs for c in self.split(number, whole)]
        index = [self.integer(v) for v in op.args[1 : 1 + t.rank]]
        first = op.args[1 + t.rank : 1 + t.rank + count]
        extent = op.args[1 + t.rank + count : 1 + t.rank + 2 * count]
        exists = b.const(True, bool_)
        for j, axis in enumerate(axes):
            u = b.emit("add", self.integer(first[j]), place[j])
            exists = b.emit("and", exists, self.inside(u, extent[j]))
            moved = b.emit("mul", u, self.number(op.attr("steps")[j]))
            index[axis] = b.emit("add", index[axis], moved)
        return index, exists


def _readable(op: Op) -> Tensor:
    """The tensor of an access, which the kernel does not write."""
    t = op.args[0].type
    assert isinstance(t, Tensor)
    if t.space not in ("in", "table"):
        raise Refused("it reads what it may have written")
    return t


def _elementwise(op: Op) -> bool:
    return op.row.has(Trait.ELEMENTWISE) or op.name == "bitcast"


def spread(b: Builder, lane: Value, axis: int) -> Value:
    """The coordinate along `axis` that a lane of the warpgroup adds to those of its registers."""
    images: list[Coordinate] = [*LAYOUT.lane, *LAYOUT.simd]
    out = b.const(0, i32)
    bit = 0
    while bit < len(images):
        image, count = images[bit][axis], 1
        while bit + count < len(images) and images[bit + count][axis] == image << count and image:
            count += 1
        if image:
            moved = b.emit("shr", lane, b.const(bit, i32))
            part = b.emit("and", moved, b.const((1 << count) - 1, i32))
            out = b.emit("add", out, b.emit("mul", part, b.const(image, i32)))
        bit += count
    return out


def wide(value: Value) -> Value:
    """The f32 values that a tile of a 16-bit float was rounded from, or the tile itself."""
    op = value.op
    return op.args[0] if op is not None and op.name == "cast" and _is_f32(op.args[0]) else value


def _is_f32(value: Value) -> bool:
    dtype: DType = element(value.type)
    return dtype.name == "f32"


_RULES = {
    "tile_full": Elements.full,
    "tile_iota": Elements.iota,
    "tile_expand": Elements.expand,
    "tile_broadcast": Elements.broadcast,
    "tile_transpose": Elements.transpose,
    "tile_read": Elements.read,
    "tile_gather": Elements.gather,
}
