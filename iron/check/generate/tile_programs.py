"""Random tile programs whose results do not depend on the order of a sum, for comparing roads.

What is summed or multiplied together is small and whole, so every order gives the same bits; the
rest of a program is any value. `tile_program(seed)` makes one, `TILE_ROADS` run it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from iron.check.generate.program import Program, Setting
from iron.dtypes import DType, bf16, bool_, f16, f32, i8, i32, u8, u32
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Param, Value
from iron.ir.table import OpDef, Trait, elementwise
from iron.ir.types import Tensor, Tile, element, held, tensor, tile

SIDES = (1, 2, 4, 8, 16, 32, 48)
DTYPES = (f32, f32, i32, u32)
GROUPS = 3
ROWS, COLUMNS = 21, 37  # of every input, for each group
SHOWN = 12  # values of a shape that its output shows

Shape = tuple[int, ...]


def tile_program(seed: int) -> Program:
    """The program of a seed, built without folding."""
    return _Writer(seed).program()


def rows() -> list[OpDef]:
    """The elementwise rows that random steps use; elementary functions are left out."""
    return [r for r in elementwise() if not r.has(Trait.EXPANDED)]


class _Writer:
    """One program: inputs, random steps on a pool of values, and outputs that show them."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, Random(seed)
        self.b = Builder(fold=False)
        self.b.exact = True
        self.params: list[Param] = []
        self.values: list[Value] = []
        self.arrays: dict[str, Shape] = {}
        self.inputs: list[Value] = []
        self.pool: list[Value] = []
        self.rows = rows()
        self.sites = 0
        self.shapes = self._shapes()

    def _shapes(self) -> list[Shape]:
        """Shapes that products and reductions lead from one to another, of few elements."""
        m, n, k = (self.rng.choice(SIDES) for _ in range(3))
        return [(m, n), (m, k), (k, n), (m,), (n,)]

    # --- parameters -------------------------------------------------------------------------------

    def tensor(self, name: str, elem: DType, space: str, *shape: int) -> Value:
        t = tensor(elem, len(shape), space)
        self.params.append(Param(name, "tensor", t))
        self.values.append(Value(t, None, name))
        self.arrays[name] = shape
        return self.values[-1]

    def program(self) -> Program:
        """Parameters, body and a host block that launches `GROUPS` groups."""
        body = Block()
        outs: list[tuple[Value, Tile]] = []
        for elem in dict.fromkeys((*DTYPES, self.rng.choice((f16, bf16, i8, u8, bool_)))):
            name = f"x_{elem}"
            self.inputs.append(self.tensor(name, elem, "in", GROUPS, ROWS, COLUMNS))
        for number, shape in enumerate(self.shapes):
            t = tile(DTYPES[number % len(DTYPES)], shape)
            extents = tuple(max(1, n - self.rng.choice((0, 0, 1, 3))) for n in shape)
            outs.append((self.tensor(f"y{number}", t.elem, "out", GROUPS, *extents), t))
        marks = self.tensor("marks", i32, "inout", GROUPS, 64)
        with self.b.into(body, {}):
            self.group = self.moving = self.b.emit("group", attrs=(0, i32))
            for _ in range(self.rng.randrange(8, 22)):
                self.step(self.rng.choice(STEPS))
            self.scattered(marks)
            for out, t in outs:
                self.write(
                    out, self.mixed(t), self.arrays[self.params[self.values.index(out)].name]
                )
        body.params = tuple(self.values)
        with self.b.block() as host:
            self.b.emit_all("yield", (self.number(GROUPS),))
        made = Kernel(f"tiles_{self.seed}", tuple(self.params), body, host, 1, 1, 32, (), i32)
        return Program(made, Setting(self.seed, (GROUPS,), self.arrays, {}))

    # --- values -----------------------------------------------------------------------------------

    def number(self, value: int, elem: DType = i32) -> Value:
        return self.b.const(value, elem)

    def add(self, value: Value) -> Value:
        self.pool.append(value)
        return value

    def emit(self, name: str, *args: Value, attrs: tuple[object, ...] = ()) -> Value:
        return self.add(self.b.emit(name, *args, attrs=attrs))

    def shape(self) -> Shape:
        return self.rng.choice(self.shapes)

    def pick(self, t: Tile) -> Value:
        """A tile of the type: one at hand, or one made of another dtype, read, or counted."""
        have = [v for v in self.pool if v.type is t]
        if have and self.rng.random() < 0.85:
            return self.rng.choice(have[-4:])
        near = [v for v in self.pool if isinstance(v.type, Tile) and v.type.shape == t.shape]
        if near and self.rng.random() < 0.7:
            return self.emit("cast", self.rng.choice(near), attrs=(t.elem,))
        if len(t.shape) <= 2 and self.rng.random() < 0.8:
            found = next(x for x in self.inputs if element(x.type) is f32)
            same = [x for x in self.inputs if element(x.type) is t.elem]
            got = self.read((same or [found])[0], t.shape)
            return got if same else self.emit("cast", got, attrs=(t.elem,))
        return self.emit("tile_full", self.number(self.rng.randrange(5), t.elem), attrs=(t.shape,))

    def mixed(self, t: Tile) -> Value:
        """A tile in which every recent value of this shape shows."""
        have = [v for v in self.pool if isinstance(v.type, Tile) and v.type.shape == t.shape]
        total = self.b.const(0, t)
        for n, v in enumerate(have[-SHOWN:]):
            part = self.b.emit("cast", self.tame(v), attrs=(t.elem,))
            total = self.b.emit("add", total, self.b.emit("mul", part, self.b.const(n + 1, t)))
        return total

    def scalar(self) -> Value:
        """A small integer that differs between groups, or between the turns of a loop."""
        return self.b.emit("mul", self.moving, self.number(self.rng.choice((0, 1, 2, 5))))

    def tame(self, value: Value) -> Value:
        """A tile of floats or integers as small whole numbers, without a negative zero."""
        t = value.type
        assert isinstance(t, Tile)
        if t.elem is bool_:
            return self.tame(self.b.emit("cast", value, attrs=(i32,)))
        if t.elem.kind == "s":
            value, t = self.b.emit("cast", value, attrs=(f32,)), tile(f32, t.shape)
        if t.elem is not f32:
            return self.b.emit("mod", value, self.b.const(7, t))
        small = self.b.emit("lt", self.b.emit("abs", value), self.b.const(9.0, t))
        whole = self.b.emit("add", self.b.emit("rint", value), self.b.const(0.0, t))
        return self.b.emit("where", small, whole, self.b.const(3.0, t))

    # --- places -----------------------------------------------------------------------------------

    def window(self, buffer: Value, at: list[Value], extents: Shape) -> tuple[Value, ...]:
        """The operands of an access to the part of a tensor that belongs to the group."""
        whole = [*at, *(self.number(n) for n in extents)]
        return (buffer, self.group, *(self.number(0) for _ in extents), *whole)

    def read(self, buffer: Value, shape: Shape) -> Value:
        """A tile that begins inside, or at times outside, the group's part of an input."""
        extents = self.rng.choice([(ROWS, COLUMNS), (ROWS - 4, 16), (1, 5)])
        at = [self.start(n) for n in extents]
        turned = self.rng.random() < 0.3
        axes = (2, 1) if turned else (1, 2)
        sides: tuple[int | tuple[int, ...], ...] = shape
        if len(shape) == 1:
            base, joined = self.rng.randrange(5), self.sites % 3 == 1 and shape[0] % 4 == 0
            places = self.window(buffer, at[:1], extents[:1])
            operands = (*places[:3], self.number(base), *places[3:])
            axes = (1,)
            if joined:
                sides, axes = ((shape[0] // 4, 4),), (1, 2)
                operands = self.window(buffer, at, extents)
        else:
            operands = self.window(buffer, at, extents[:: -1 if turned else 1])
            operands = self._turned(operands, turned, extents)
        self.sites += 1
        attrs = (sides, axes, (1,) * len(axes), self.sites - 1)
        return self.emit("tile_read", *operands, attrs=attrs)

    def _turned(
        self, operands: tuple[Value, ...], turned: bool, extents: Shape
    ) -> tuple[Value, ...]:
        """Extents in the order of the view's axes, which may be those of the buffer reversed."""
        ends = [self.number(n) for n in (extents[::-1] if turned else extents)]
        return (*operands[: -len(extents)], *ends)

    def start(self, extent: int) -> Value:
        by = self.rng.choice((0, 0, 1, 7, -3, extent))
        return self.b.emit("add", self.scalar(), self.number(by))

    def write(self, out: Value, value: Value, shape: Shape) -> None:
        """All of the group's part of an output, of which a tile may be larger."""
        at = [self.number(0) for _ in shape[1:]]
        assert isinstance(value.type, Tile)
        attrs = (value.type.shape, tuple(range(1, len(shape))), (1,) * (len(shape) - 1))
        self.b.emit_all("tile_write", (*self.window(out, at, shape[1:]), value), attrs)

    def scattered(self, marks: Value) -> None:
        """Numbers at places that no two elements share, some outside and some not kept."""
        count = self.rng.choice((8, 16, 32))
        place = self.b.emit("tile_iota", attrs=(count, i32))
        by = self.b.const(self.rng.choice((1, 3, 5)), place.type)
        index = self.b.emit("sub", self.b.emit("mul", place, by), self.b.const(4, place.type))
        keep = self.b.emit("ne", self.b.emit("mod", place, self.b.const(3, place.type)),
                           self.b.const(1, place.type))  # fmt: skip
        operands = (marks, self.group, self.number(0), index, self.number(64), keep)
        value = self.pick(tile(i32, (count,)))
        self.b.emit_all("tile_scatter", (*operands, value), ((1,), (1,)))

    # --- steps ------------------------------------------------------------------------------------

    def step(self, kind: Callable[[_Writer], None]) -> None:
        """One random step."""
        kind(self)


def _elementwise(w: _Writer) -> None:
    fitting = [r for r in w.rows if set(r.kinds) & set("fiu")]
    row = w.rng.choice(fitting)
    elem = w.rng.choice([t for t in DTYPES if t.kind in row.kinds])
    shape = w.shape()
    wanted = row.sig.split("->")[0].split()
    args = [w.pick(tile(bool_ if want == "b" else elem, shape)) for want in wanted]
    attrs = (w.rng.choice((*DTYPES, f16, i8)),) if row.attrs else ()
    w.emit(row.name, *args, attrs=attrs)


def _shaped(w: _Writer) -> None:
    """A vector or scalar repeated to a matrix, or a matrix turned and back."""
    shape = w.rng.choice([s for s in w.shapes if len(s) == 2])
    elem = w.rng.choice(DTYPES)
    axis = w.rng.randrange(2)
    x = w.pick(tile(elem, (shape[axis],)))
    wide = w.b.emit("tile_expand", x, attrs=(1 - axis,))
    w.emit("tile_broadcast", wide, attrs=(shape,))
    other = w.emit("tile_transpose", w.pick(tile(elem, shape[::-1])))
    assert held(other.type) == shape
    count = w.emit("tile_iota", attrs=(shape[0], i32))
    w.emit("cast", count, attrs=(f32,))
    w.emit("tile_full", w.b.emit("cast", w.scalar(), attrs=(elem,)), attrs=(shape,))


def _reduce(w: _Writer) -> None:
    shape, elem = w.shape(), w.rng.choice((f32, f32, i32, u32, bool_))
    kinds = {"f": ("add", "mul", "max", "min"), "b": ("and", "or")}.get(
        elem.kind, ("add", "mul", "max", "min", "and", "or")
    )
    kind, axis = w.rng.choice(kinds), w.rng.randrange(len(shape))
    x = w.pick(tile(elem, shape))
    if elem is f32:
        x = w.tame(x)
        if kind == "mul":
            few = w.b.emit("gt", x, w.b.const(0.0, x.type))
            x = w.b.emit("where", few, w.b.const(2.0, x.type), w.b.const(-1.0, x.type))
    total = w.b.emit("tile_reduce", x, attrs=(kind, axis))
    if isinstance(total.type, Tile):
        w.add(total)
    else:
        w.emit("tile_full", total, attrs=(w.shape(),))


def _mma(w: _Writer) -> None:
    """A product of tame operands; half of the time one of them was turned, or both are narrow."""
    (m, k), (_, n) = w.shapes[1], w.shapes[2]
    elem = w.rng.choice((f32, f32, f16, bf16, i8, u8))
    total = i32 if elem in (i8, u8) else f32
    held_ = [w.tame(w.pick(tile(w.rng.choice((f32, i32)), s))) for s in ((m, k), (k, n))]
    x, y = (w.b.emit("cast", v, attrs=(elem,)) for v in held_)
    if w.rng.random() < 0.5:
        other = w.tame(w.pick(tile(f32, (n, k))))
        y = w.b.emit("tile_transpose", w.b.emit("cast", other, attrs=(elem,)))
    acc = w.tame(w.pick(tile(total, (m, n))))
    w.sites += 1
    w.emit("mma", x, y, acc, attrs=("strict", w.sites - 1))


def _loop(w: _Writer) -> None:
    """A loop that carries a tile and a number, and reads at places that its counter gives."""
    t = tile(w.rng.choice(DTYPES), w.shape())
    init = w.tame(w.pick(t)) if t.elem is f32 else w.pick(t)
    turn, carried, count = Value(i32), Value(t), Value(i32)
    kept = list(w.pool)
    stages = w.rng.choice((0, 1, 2))
    with w.b.block((turn, carried, count)) as body:
        w.add(carried)
        w.moving = turn
        x = w.read(next(i for i in w.inputs if element(i.type) is f32), t.shape)
        place = w.b.emit("tile_full", w.b.emit("cast", turn, attrs=(t.elem,)), attrs=(t.shape,))
        for _ in range(w.rng.randrange(3)):
            w.step(w.rng.choice(STEPS[:3]))
        mixed = w.b.emit("add", w.pick(t), place)
        mixed = w.b.emit("max", mixed, w.b.emit("cast", w.tame(x), attrs=(t.elem,)))
        more = w.b.emit("add", count, turn)
        w.b.emit_all("yield", (w.tame(mixed) if t.elem is f32 else mixed, more))
    w.pool, w.moving = kept, w.group
    high = w.b.emit("add", w.group, w.number(w.rng.randrange(3)))
    bounds = (w.number(0), high, w.number(1), init, w.number(0))
    results = w.b.emit_all("for", bounds, (False, stages), (body,))
    w.add(results[0])
    w.emit("tile_full", results[1], attrs=(w.shape(),))


def _branch(w: _Writer) -> None:
    t = tile(w.rng.choice(DTYPES), w.shape())
    condition = w.b.emit("lt", w.group, w.number(w.rng.randrange(3)))
    sides: list[Block] = []
    for _ in range(2):
        kept = list(w.pool)
        with w.b.block() as side:
            for _ in range(w.rng.randrange(3)):
                w.step(w.rng.choice(STEPS[:3]))
            w.b.emit_all("yield", (w.pick(t),))
        w.pool = kept
        sides.append(side)
    (result,) = w.b.emit_all("if", (condition,), (), tuple(sides))
    w.add(result)


def _stage(w: _Writer) -> None:
    """Through an array of the group, which threads change, and a gather of it."""
    t = tile(w.rng.choice((i32, u32)), w.shape())
    buffer = w.b.emit("tile_stage", w.pick(t))
    shared = buffer.type
    assert isinstance(shared, Tensor)
    count = w.b.emit("threads", attrs=(i32,))
    own = w.b.emit("thread", attrs=(i32,))
    at = Value(i32)
    rest = [w.number(0) for _ in t.shape[1:]]
    with w.b.block((at,)) as body:
        old = w.b.emit("load", buffer, at, *rest, attrs=(0,))
        new = w.b.emit("add", w.b.emit("cast", at, attrs=(t.elem,)), old)
        w.b.emit_all("store", (buffer, at, *rest, new))
        w.b.emit_all("yield", ())
    w.b.emit_all("for", (own, w.number(t.shape[0]), count), (False,), (body,))
    w.b.emit_all("barrier")
    bases = [w.number(0) for _ in t.shape]
    extents = [w.number(n) for n in t.shape]
    w.sites += 1
    places = (buffer, *bases, *bases, *extents)
    axes = tuple(range(len(t.shape)))
    steps = (1,) * len(axes)
    w.emit("tile_read", *places, attrs=(t.shape, axes, steps, w.sites - 1))
    index = [w.b.emit("sub", w.pick(tile(i32, t.shape)), w.b.const(1, tile(i32, t.shape)))
             for _ in axes]  # fmt: skip
    index = [
        w.b.emit("mod", i, w.b.const(n + 2, i.type)) for i, n in zip(index, t.shape, strict=True)
    ]
    keep = w.pick(tile(bool_, t.shape))
    w.sites += 1
    w.emit("tile_gather", buffer, *bases, *index, *extents, keep, attrs=(axes, steps, w.sites - 1))


STEPS: tuple[Callable[[_Writer], None], ...] = (
    *(_elementwise, _shaped, _reduce),
    *(_elementwise, _mma, _mma, _loop, _branch, _stage),
)
"""The first three open no region and no array, and so may stand in one."""
