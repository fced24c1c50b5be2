"""Where each tile value lives: in group memory, in the registers of its threads, or nowhere.

* `staged`: an array of group memory that every thread reads: operands of products, and what is
  turned.
* `fragment`: each thread keeps its own elements: accumulators, reductions, what loops carry, and
  computed values with more than one reader.
* `rebuilt`: computed again where it is read: constants, counters, and values with one reader.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from iron.ir.core import Block, Kernel, Op, Value, carried
from iron.ir.table import Trait
from iron.ir.types import Tensor, Tile, element
from iron.tiles.grid import Grid, Kinds, natural, products

STAGED, FRAGMENT, REBUILT = "staged", "fragment", "rebuilt"
SHAPING = ("tile_expand", "tile_broadcast")


@dataclass(frozen=True, slots=True)
class Placed:
    """The decision for one value, why, and what it costs (`none`, `registers`, `lanes`, `shared`).

    `turned` says that a staged value lies with its two axes exchanged. `role` says what all its
    readers take it for: `a` or `b` of products, `turned` or not; or `held`, an `a` that products
    take from the registers where it is.
    """

    where: str
    reason: str
    cost: str = "none"
    turned: bool = False
    role: str = ""


@dataclass(slots=True)
class Plan:
    """The decision for every tile value, and who shares the axes of those that are kept.

    Where walks are `looped` a fragment takes memory, and a walk keeps what it reads twice.
    """

    looped: bool = False
    placed: dict[Value, Placed] = field(default_factory=dict[Value, Placed])
    kinds: dict[Value, Kinds] = field(default_factory=dict[Value, Kinds])
    uses: Counter[Value] = field(default_factory=Counter[Value])
    block: dict[Value, Block] = field(default_factory=dict[Value, Block])


def place(kernel: Kernel, grid: Grid | None = None) -> Plan:
    """The plan for `kernel`, from its operations alone, but for operands that `grid` holds."""
    plan = Plan(grid is not None and grid.looped)
    readers: dict[Value, list[tuple[Op, int, Block]]] = {}
    _collect(kernel.body, plan, readers)
    for value in list(plan.block):
        if isinstance(value.type, Tile):
            plan.placed[value] = _decide(value, plan, readers)
    _share(kernel, plan)
    if grid is not None:
        _hold(kernel, plan, grid)
    return plan


def _hold(kernel: Kernel, plan: Plan, grid: Grid) -> None:
    """Left operands that are computed where products take them: a lane's two neighbouring sums of
    16 bits are a word of its own row, and each simdgroup holds whole rows."""
    form = grid.matrix
    if form is None or not form.loads or grid.across != form.across:
        return
    for op in products(kernel):
        a = op.args[0]
        made, word = plan.placed[a], form.width * element(a.type).bytes == 4
        turned = a.op is not None and a.op.name == "tile_transpose"
        if word and made.where != STAGED and not turned:
            reason = "an operand of `mma` that lies as its products take it"
            plan.placed[a] = Placed(made.where, reason, role="held")


def _collect(block: Block, plan: Plan, readers: dict[Value, list[tuple[Op, int, Block]]]) -> None:
    for value in block.params:
        plan.block[value] = block
    for op in block.ops:
        for value in op.results:
            plan.block[value] = block
        for i, value in enumerate(op.args):
            plan.uses[value] += 1
            readers.setdefault(value, []).append((op, i, block))
        for region in op.regions:
            _collect(region, plan, readers)


def _decide(value: Value, plan: Plan, readers: dict[Value, list[tuple[Op, int, Block]]]) -> Placed:
    op = value.op
    if op is None:
        return Placed(FRAGMENT, "carried by a loop")
    if op.name in ("for", "if"):
        return Placed(FRAGMENT, f"what `{op.name}` leaves")
    if op.name in ("tile_full", "tile_iota", *SHAPING):
        return Placed(REBUILT, "costs nothing to compute again")
    reading = readers.get(value, [])
    if op.name == "tile_transpose":
        source = op.args[0].op
        cost = "none" if source is not None and source.name == "tile_read" else "shared"
        return Placed(REBUILT, "the same elements in group memory, read in another order", cost)
    if op.name == "tile_read":
        return _read(value, op, reading, plan, readers)
    if not op.row.has(Trait.ELEMENTWISE) and op.name != "bitcast":
        return Placed(FRAGMENT, f"the result of `{op.surface}`")
    if plan.looped and len(reading) > 1 and _in_one_walk(value, plan.block[value], readers):
        return Placed(REBUILT, "its readers are computed in one walk")
    return _computed(value, reading, plan, _roles(value, readers))


def _read(
    value: Value,
    op: Op,
    reading: list[tuple[Op, int, Block]],
    plan: Plan,
    readers: dict[Value, list[tuple[Op, int, Block]]],
) -> Placed:
    roles = _roles(value, readers)
    role = roles[0] if len(set(roles)) == 1 else ""
    if "a" in roles or "b" in roles:
        return Placed(STAGED, "an operand of `mma`", "shared", role=role)
    if "turned a" in roles or "turned b" in roles:
        return Placed(STAGED, "an operand of `mma`, turned", "shared", turned=True, role=role)
    if any(user.name == "tile_transpose" for user, _, _ in reading):
        return Placed(STAGED, "is turned", "shared")
    constant = isinstance(op.args[0].type, Tensor) and op.args[0].type.space in ("in", "table")
    if constant and len(reading) == 1 and reading[0][2] is plan.block[value]:
        return Placed(REBUILT, "loaded where its one reader needs it")
    return Placed(FRAGMENT, "read more than once, or before the memory changes")


def _roles(value: Value, readers: dict[Value, list[tuple[Op, int, Block]]]) -> list[str]:
    """What each reader takes the value for: `a` or `b` of a product, `turned a`, .. or `other`."""
    out: list[str] = []
    for user, position, _ in readers.get(value, []):
        if user.name == "mma" and position < 2:
            out.append("ab"[position])
        elif user.name == "tile_transpose":
            out += [f"turned {role}" for role in _roles(user.results[0], readers)]
        else:
            out.append("other")
    return out


def _computed(
    value: Value, reading: list[tuple[Op, int, Block]], plan: Plan, roles: list[str]
) -> Placed:
    if any(role.removeprefix("turned ") in ("a", "b") for role in roles):
        where = REBUILT if len(reading) == 1 and reading[0][2] is plan.block[value] else FRAGMENT
        return Placed(where, "written to group memory as an operand of `mma`", "shared")
    if not reading:
        return Placed(REBUILT, "has no reader")
    if cheap(value):
        return Placed(REBUILT, "a few operations on counters and constants")
    if len(reading) != 1:
        return Placed(FRAGMENT, f"has {len(reading)} readers")
    user, _, block = reading[0]
    if block is not plan.block[value]:
        return Placed(FRAGMENT, "read inside a loop or branch")
    if user.name in SHAPING:
        return Placed(FRAGMENT, "repeated along another axis")
    return Placed(REBUILT, f"has one reader, `{user.surface}`")


def _in_one_walk(
    value: Value, block: Block, readers: dict[Value, list[tuple[Op, int, Block]]]
) -> bool:
    """True where all that is computed from `value` ends, chunk by chunk, in one write."""
    waiting, known, ends = [value], {value}, set[Op]()
    while waiting:
        for user, _, where in readers.get(waiting.pop(), []):
            if where is not block:
                return False
            if user.name == "tile_write":
                ends.add(user)
            elif not user.row.has(Trait.ELEMENTWISE) and user.name != "bitcast":
                return False
            elif user.results[0] not in known:
                known.add(user.results[0])
                waiting.append(user.results[0])
    return len(ends) == 1


def cheap(value: Value, depth: int = 6) -> bool:
    """True for a short expression of counters, constants and scalars."""
    op = value.op
    if not isinstance(value.type, Tile):
        return True
    if op is None or depth == 0:
        return False
    if op.name in ("tile_full", "tile_iota"):
        return True
    if op.name in SHAPING:
        return cheap(op.args[0], depth)
    plain = op.row.has(Trait.ELEMENTWISE) and not op.row.has(Trait.EXPANDED)
    return plain and all(cheap(a, depth - 1) for a in op.args)


# --- who shares the axis of a vector --------------------------------------------------------------


class _Classes:
    """Sets of vectors that are computed together, and so lie alike."""

    def __init__(self) -> None:
        self.parent: dict[Value, Value] = {}
        self.wish: dict[Value, tuple[int, Kinds]] = {}

    def root(self, value: Value) -> Value:
        while (up := self.parent.get(value, value)) is not value:
            value = up
        return value

    def join(self, a: Value, b: Value) -> None:
        if _vector(a) and _vector(b) and (x := self.root(a)) is not (y := self.root(b)):
            self.parent[x] = y
            if x in self.wish:
                self.want(y, *self.wish[x])

    def want(self, value: Value, weight: int, kinds: Kinds) -> None:
        if _vector(value):
            root = self.root(value)
            if root not in self.wish or weight > self.wish[root][0]:
                self.wish[root] = weight, kinds


def _vector(value: Value) -> bool:
    return isinstance(value.type, Tile) and len(value.type.shape) == 1


def _share(kernel: Kernel, plan: Plan) -> None:
    """Decides the kinds of every tile value: vectors follow the matrices they meet."""
    classes = _Classes()
    for op in kernel.body.walk():
        _relate(op, classes)
    for value in plan.placed:
        assert isinstance(value.type, Tile)
        kinds = natural(len(value.type.shape))
        if _vector(value):
            kinds = classes.wish.get(classes.root(value), (0, kinds))[1]
        plan.kinds[value] = kinds
    for op in kernel.body.walk():
        if op.name == "tile_reduce" and op.results[0] in plan.kinds and len(_shape(op)) > 2:
            whole, axis = natural(len(_shape(op))), op.attr("axis")
            plan.kinds[op.results[0]] = (*whole[:axis], *whole[axis + 1 :])


def _shape(op: Op) -> tuple[int, ...]:
    held = op.args[0].type
    assert isinstance(held, Tile)
    return held.shape


def _relate(op: Op, classes: _Classes) -> None:
    if op.row.has(Trait.ELEMENTWISE) or op.name == "bitcast":
        for a in op.args:
            classes.join(a, op.results[0])
    elif op.name in ("for", "if"):
        _relate_region(op, classes)
    elif op.name == "tile_expand" and len(_shape(op)) == 1:
        classes.want(op.args[0], 1, ("down",) if op.attr("axis") == 1 else ("across",))
    elif op.name == "tile_reduce" and len(_shape(op)) == 2:
        classes.want(op.results[0], 2, ("down",) if op.attr("axis") == 1 else ("across",))


def _relate_region(op: Op, classes: _Classes) -> None:
    if op.name == "if":
        ends = [side.yielded for side in op.regions]
    else:
        ends = [op.args[3:], op.regions[0].params[1:], carried(op)]
    for inner in ends:
        for value, result in zip(inner, op.results, strict=True):
            classes.join(value, result)
