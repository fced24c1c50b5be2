"""What an sm_90a group holds: rings, parts of their slots, consumers, and buffers of writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from iron.dtypes import bf16, f16
from iron.ir.core import Kernel, Op, Value, const_of, is_const
from iron.ir.ops.ring import PANEL_BYTES, bytes_of, panel
from iron.ir.types import Tensor, Tile, element, tensor
from iron.targets.target import Target
from iron.tiles.ring import Ring, Staged, rings, staged

ROWS = 64
"""Rows of an accumulator that a warpgroup's instruction computes."""
MOST_COLUMNS = 256
MOST_ROWS = 256
"""Rows of a box of a tensor map, whose rank is at most `MOST_AXES`."""
MOST_AXES = 5
DEPTH = 16
BARRIER_BYTES = 16
"""Bytes of the two barriers of a slot."""
ACCUMULATED = 192
"""Registers of a consumer's thread that accumulators may take; others hold addresses and words."""


class Refused(Exception):
    """Why this road does not take a kernel; another one does."""


@dataclass(frozen=True, slots=True)
class Box:
    """A matrix of `buffer`: its rows and columns move along `axes`.

    `turned`: the rows are the tile's columns. `extents` as in the row `ring_copy`.
    """

    buffer: Value
    axes: tuple[int, int]
    turned: bool
    extents: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """A staged read: its box, and the part that it fills; `k_major` columns run along k."""

    box: Box
    part: Tensor
    k_major: bool


@dataclass(slots=True)
class Plan:
    """The decisions for one kernel, whose consumers run `program`, which means the same.

    Each consumer has `rows` rows of every accumulator.
    """

    kernel: Kernel
    program: Kernel
    rings: tuple[Ring, ...]
    consumers: int
    rows: int
    operands: dict[int, Operand] = field(default_factory=lambda: dict[int, Operand]())
    targets: dict[Op, Box | None] = field(default_factory=lambda: dict[Op, Box | None]())
    buffers: int = 0

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


def plan(kernel: Kernel, program: Kernel, target: Target) -> Plan:
    """The plan for `kernel` on `target`. Raises Refused."""
    products = [op for op in program.body.walk() if op.name == "mma"]
    if not products:
        raise Refused("it has no product")
    heights = {_shape(op.results[0])[0] for op in products}
    if len(heights) != 1:
        raise Refused(f"its accumulators have different heights {sorted(heights)}")
    (height,) = heights
    usual = 2 if height % (2 * ROWS) == 0 else 1
    consumers = dict(kernel.schedule).get("CONSUMERS", usual) or usual
    if height % (consumers * ROWS):
        raise Refused(f"{height} rows are no multiple of {ROWS} for each of {consumers} consumers")
    made = Plan(kernel, program, rings(kernel), consumers, height // consumers)
    for op in products:
        _product(made, op)
    _registers(made, products)
    for op in program.body.walk():
        if op.name == "tile_write":
            made.targets[op] = _written(made, op)
    made.buffers = _buffers(made, target)
    return made


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, Tile)
    return value.type.shape


def _product(made: Plan, op: Op) -> None:
    n = _shape(op.results[0])[1]
    if n % DEPTH or n > MOST_COLUMNS:
        raise Refused(f"no instruction has {n} columns")
    for place, found in enumerate(staged(op)):
        if found is None:
            _computed(op.args[place], place)
            continue
        operand = _operand(made.program, found, place)
        known = made.operands.setdefault(found.site, operand)
        if known != operand:
            raise Refused("one read is the factor of unlike products")
    if _shape(op.args[0])[1] % DEPTH:
        raise Refused(f"{_shape(op.args[0])[1]} is no multiple of {DEPTH} along k")


def _computed(value: Value, place: int) -> None:
    """A first factor may come from registers."""
    if place or element(value.type) not in (f16, bf16):
        raise Refused("a second factor of a product is computed")


def _operand(kernel: Kernel, found: Staged, place: int) -> Operand:
    (held,) = found.read.results
    assert isinstance(held.type, Tile)
    if held.type.elem not in (f16, bf16):
        raise Refused(f"a factor is {held.type.elem}")
    where = box(kernel, found.read, held.type.shape)
    rows, columns = held.type.shape[::-1] if where.turned else held.type.shape
    part = tensor(held.type.elem, 2, "shared", (rows, columns))
    if columns % panel(part) or rows % 8 or rows > MOST_ROWS:
        raise Refused(f"a part of {rows} x {columns} has no whole panels of {panel(part)} columns")
    # The tile's axis that the columns are, as the product sees it, against its axis k.
    axis = (0 if where.turned else 1) ^ found.turned
    return Operand(where, part, axis == 1 - place)


def box(kernel: Kernel, op: Op, shape: tuple[int, ...]) -> Box:
    """How a bulk copy sees an access. Raises Refused."""
    t = op.args[0].type
    assert isinstance(t, Tensor)
    axes, steps = op.attr("axes"), op.attr("steps")
    if len(axes) != 2 or not 2 <= t.rank <= MOST_AXES:
        raise Refused(f"a view of {len(axes)} axes of {t.rank}")
    if not t.packed or t.rank - 1 not in axes or any(s != 1 for s in steps):
        raise Refused("the rows of a view are not neighbours in memory")
    turned = axes[0] == t.rank - 1
    extent = op.args[1 + t.rank + 2 : 1 + t.rank + 4]
    sizes: list[str | int] = [""] * t.rank
    for axis, size in zip(axes, extent, strict=True):
        base = op.args[1 + axis]
        if not is_const(base) or const_of(base) != 0:
            raise Refused("a view does not begin where its tensor does")
        sizes[axis] = _size(kernel, size)
    return Box(op.args[0], axes[::-1] if turned else axes, turned, tuple(sizes))


def _size(kernel: Kernel, value: Value) -> str | int:
    if is_const(value):
        return int(const_of(value))
    for param, held in zip(kernel.params, kernel.body.params, strict=True):
        if held is value and param.role == "dim":
            return param.name
    raise Refused("the end of a view is computed")


def _registers(made: Plan, products: list[Op]) -> None:
    """Products of one chain share their registers, and so do the copies of one."""
    first = [op for op in products if op.args[2].op is None or op.args[2].op.name != "mma"]
    sites = {op.attr("site"): _shape(op.results[0])[1] for op in first}
    held = sum(made.blocks * columns // 2 for columns in sites.values())
    if held > ACCUMULATED:
        raise Refused(f"its accumulators take {held} registers a thread, more than {ACCUMULATED}")


def _written(made: Plan, op: Op) -> Box | None:
    """The box of a write through a buffer; None for one that is done element by element."""
    value = op.args[-1]
    assert isinstance(value.type, Tile)
    shape = value.type.shape
    if shape == (made.rows * made.consumers,):
        return None
    if len(shape) != 2 or shape[0] != made.rows * made.consumers or shape[1] % DEPTH:
        raise Refused(f"it writes a tile of {shape}")
    if value.type.elem not in (f16, bf16) or shape[1] % (PANEL_BYTES // 2):
        return None
    try:
        where = box(made.program, op, shape)
    except Refused:
        return None
    return None if where.turned else where


def _buffers(made: Plan, target: Target) -> int:
    """Buffers of 64 x 64 for what each consumer writes: as many as there is room for."""
    if not made.targets:
        raise Refused("it writes no tile")
    ringed = sum(r.slots * (sum(map(bytes_of, made.parts(r))) + BARRIER_BYTES) for r in made.rings)
    left = target.shared_bytes - -(-ringed // 16) * 16
    size = ROWS * PANEL_BYTES * made.consumers
    counts = [
        made.blocks * _shape(op.args[-1])[1] * 2 // PANEL_BYTES
        for op, where in made.targets.items()
        if where is not None
    ]
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
