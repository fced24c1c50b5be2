"""What an sm_90a group holds: rings, parts of their slots, consumers, and buffers of writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

from iron.dtypes import DType, bf16, f16, f32, i8, i32, u8
from iron.ir.core import Kernel, Op, Value
from iron.ir.ops.ring import PANEL_BYTES, bytes_of
from iron.ir.types import Tensor, Tile, element, tensor
from iron.targets.target import Target
from iron.tiles.ring import Ring, Staged, rings, staged
from iron.tiles.sm90.boxes import Box, Boxes, Refused

ROWS = 64
"""Rows of an accumulator that a warpgroup's instruction computes."""
MOST_COLUMNS = 256
DEPTH_BYTES = 32
COLUMN_STEP = 16
ATOM_OPERANDS = (f16, bf16, i8, u8)
COLUMNS = 64
"""Columns of a buffer: a panel of 16-bit elements."""
BARRIER_BYTES = 16
"""Bytes of the two barriers of a slot."""
ACCUMULATED = 192
"""Registers of a consumer's thread that accumulators may take; others hold addresses and words."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A staged read: its box, and the part that it fills; `k_major` columns run along k.

    A part has whole panels, of which the last may have columns that no product reads.
    """

    box: Box
    part: Tensor
    k_major: bool


@dataclass(frozen=True, slots=True)
class Leaving:
    """A write through buffers of `rows` x `COLUMNS`: its box, and how many of these each consumer
    fills.

    The buffers of a turned box hold 64 rows of an accumulator as columns.
    """

    box: Box
    dtype: DType
    rows: int
    pieces: int


@dataclass(slots=True)
class Plan:
    """The decisions for one kernel, whose consumers run `program`, which means the same.

    Each consumer has `rows` rows of every accumulator, which take `held` registers of a thread.
    """

    kernel: Kernel
    program: Kernel
    rings: tuple[Ring, ...]
    consumers: int
    rows: int
    operands: dict[int, Operand] = field(default_factory=lambda: dict[int, Operand]())
    targets: dict[Op, Leaving | None] = field(default_factory=lambda: dict[Op, Leaving | None]())
    held: int = 0
    buffers: int = 0
    boxes: Boxes = field(init=False)

    def __post_init__(self) -> None:
        self.boxes = Boxes(self.kernel, self.program)

    def ring_of(self, site: int) -> Ring:
        """The ring of a staged site."""
        return next(r for r in self.rings if site in r.sites)

    def parts(self, ring: Ring) -> tuple[Tensor, ...]:
        """The parts of a ring's slots, in the order of its sites."""
        return tuple(self.operands[site].part for site in ring.sites)

    @property
    def blocks(self) -> int:
        """Accumulators of 64 rows of one consumer."""
        return self.rows // ROWS

    @property
    def threads(self) -> int:
        """A producer's warpgroup and the consumers."""
        return 128 * (1 + self.consumers)

    def setting(self, name: str, default: Any) -> Any:
        """A value of the kernel's schedule."""
        return dict(self.kernel.schedule).get(name, default)


def fits(kernel: Kernel) -> bool:
    """True when every product has whole instructions of rows."""
    products = (op for op in kernel.body.walk() if op.name == "mma")
    return all(_shape(op.results[0])[0] % ROWS == 0 for op in products)


def plan(kernel: Kernel, program: Kernel, target: Target) -> Plan:
    """The plan for `kernel` on `target`. Raises Refused."""
    products = [op for op in program.body.walk() if op.name == "mma"]
    if not products:
        raise Refused("it has no product")
    heights = {_shape(op.results[0])[0] for op in products}
    if len(heights) != 1:
        raise Refused(f"its accumulators have different heights {sorted(heights)}")
    (height,) = heights
    usual = next((n for n in (2, 3) if height % (n * ROWS) == 0), 1)
    consumers = dict(kernel.schedule).get("CONSUMERS", usual) or usual
    if height % (consumers * ROWS):
        raise Refused(f"{height} rows are no multiple of {ROWS} for each of {consumers} consumers")
    made = Plan(kernel, program, rings(kernel), consumers, height // consumers)
    for op in products:
        _product(made, op)
    made.held = _registers(made, products)
    for op in program.body.walk():
        if op.name == "tile_write":
            made.targets[op] = _written(made, op)
    _alike(made)
    _room(made, target)
    return made


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, Tile)
    return value.type.shape


def _product(made: Plan, op: Op) -> None:
    n = _shape(op.results[0])[1]
    if n % COLUMN_STEP or n > MOST_COLUMNS:
        raise Refused(f"no instruction has {n} columns")
    _multiplied(op)
    for place, found in enumerate(staged(op)):
        if found is None:
            _computed(op.args[place], place)
            continue
        operand = _operand(made, found, place)
        known = made.operands.setdefault(found.site, operand)
        if known != operand:
            raise Refused("one read is the factor of unlike products")
    depth = DEPTH_BYTES // element(op.args[0].type).bytes
    if _shape(op.args[0])[1] % depth:
        raise Refused(f"{_shape(op.args[0])[1]} is no multiple of {depth} along k")


def _multiplied(op: Op) -> None:
    """An instruction has these dtypes."""
    x, y = (element(a.type) for a in op.args[:2])
    for dtype in (x, y):
        if dtype not in ATOM_OPERANDS and (dtype, op.attr("math")) != (f32, "tf32"):
            raise Refused(f"a factor is {dtype}")


def _computed(value: Value, place: int) -> None:
    """A first factor may come from registers."""
    if place or element(value.type) not in (f16, bf16):
        raise Refused("a second factor of a product is computed")


def _operand(made: Plan, found: Staged, place: int) -> Operand:
    (held,) = found.read.results
    assert isinstance(held.type, Tile)
    where = made.boxes.of(found.read)
    rows, columns = held.type.shape[::-1] if where.turned else held.type.shape
    whole = PANEL_BYTES // held.type.elem.bytes
    part = tensor(held.type.elem, 2, "shared", (rows, -(-columns // whole) * whole))
    if rows % 8:
        raise Refused(f"a part has {rows} rows, no multiple of 8")
    # The tile's axis that the columns are, as the product sees it, against its axis k.
    axis = (0 if where.turned else 1) ^ found.turned
    if axis != 1 - place and held.type.elem.bytes != 2:
        raise Refused(f"{held.type.elem} factors of a product lie along k")
    return Operand(where, part, axis == 1 - place)


def _registers(made: Plan, products: list[Op]) -> int:
    """Products of one chain share their registers, and so do the copies of one."""
    first = [op for op in products if op.args[2].op is None or op.args[2].op.name != "mma"]
    sites = {op.attr("site"): _shape(op.results[0])[1] for op in first}
    held = sum(made.blocks * columns // 2 for columns in sites.values())
    if held > ACCUMULATED:
        raise Refused(f"its accumulators take {held} registers a thread, more than {ACCUMULATED}")
    return held


def _written(made: Plan, op: Op) -> Leaving | None:
    """A write through a buffer; None for one that is done element by element."""
    value = op.args[-1]
    assert isinstance(value.type, Tile)
    shape = value.type.shape
    if shape == (made.rows * made.consumers,):
        return None
    if len(shape) != 2 or shape[0] != made.rows * made.consumers or shape[1] % COLUMN_STEP:
        raise Refused(f"it writes a tile of {shape}")
    if value.type.elem not in (f16, bf16, f32, i32):
        return None
    turned = made.boxes.turned(op)
    rows = gcd(shape[1], ROWS) if turned else ROWS
    try:
        where = made.boxes.of(op, rows)
    except Refused:
        return None
    columns = rows if turned else COLUMNS
    if shape[1] % columns:
        return None
    return Leaving(where, value.type.elem, rows, made.blocks * shape[1] // columns)


def _alike(made: Plan) -> None:
    """Writes share their buffers: those of another kind than most elements go one by one."""
    sizes: dict[tuple[DType, int], int] = {}
    for found in made.targets.values():
        if found is not None:
            kind = found.dtype, found.rows
            sizes[kind] = sizes.get(kind, 0) + found.rows * found.pieces
    if sizes:
        most = max(sizes, key=lambda k: sizes[k])
        for op, found in made.targets.items():
            if found is not None and (found.dtype, found.rows) != most:
                made.targets[op] = None


def _room(made: Plan, target: Target) -> None:
    """Where a group takes one tile after the other, what a whole tile reads has a second slot, if
    there is room: so the next tile begins to be filled while this one is finished."""
    single = made.rings
    if made.setting("PERSISTENT", 0):
        made.rings = tuple(replace(r, slots=2) if r.once else r for r in single)
    try:
        made.buffers = _buffers(made, target)
    except Refused:
        if made.rings == single:
            raise
        made.rings = single
        made.buffers = _buffers(made, target)


def _buffers(made: Plan, target: Target) -> int:
    """Buffers for what each consumer writes: as many as there is room for."""
    if not made.targets:
        raise Refused("it writes no tile")
    ringed = sum(r.slots * (sum(map(bytes_of, made.parts(r))) + BARRIER_BYTES) for r in made.rings)
    left = target.shared_bytes - -(-ringed // 16) * 16
    through = [found for found in made.targets.values() if found is not None]
    size = sum(f.rows * COLUMNS * f.dtype.bytes for f in through[:1]) * made.consumers
    counts = [f.pieces for f in through]
    if not counts and left >= 0:
        return 0
    fitting = [
        n
        for n in range(1, min(counts, default=0) + 1)
        if n * size <= left and all(c % n == 0 for c in counts)
    ]
    if not fitting:
        shown = ", ".join(f"{r.slots} x {sum(map(bytes_of, made.parts(r)))}" for r in made.rings)
        raise Refused(
            f"its slots ({shown} bytes) and a buffer of {size} bytes are more than "
            f"{target.shared_bytes}"
        )
    return max(fitting)
