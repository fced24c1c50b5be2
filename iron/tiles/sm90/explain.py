"""What each pass of the sm_90a road decided, for a person: where, why, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iron.errors import error
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.layout import convert
from iron.ir.ops.ring import WARPGROUP, bytes_of
from iron.ir.text import print_kernel
from iron.ir.types import Tile, element
from iron.targets.atoms import nvidia
from iron.targets.target import Target
from iron.tiles import peel, protocol, roles, skew, sm90
from iron.tiles.ring import staged
from iron.tiles.sm90.fragments import Fragments
from iron.tiles.sm90.plan import COLUMNS, Plan
from iron.tiles.table import table

Cells = tuple[str, ...]
MEANINGS = {
    "ring_claim": "waits until its readers have freed the slot",
    "ring_copy": "starts to fill a part of the slot",
    "ring_wait": "waits until the slot is filled",
    "ring_free": "tells that this consumer reads the slot no more",
    "wgmma": "starts a product of two parts",
    "wgmma_a": "starts a product of registers and a part",
    "wgmma_wait": "waits until at most {} of its products run",
    "bulk_store": "starts to write a buffer to its tensor",
    "fence_async": "shows buffers to the stores that follow",
    "part_barrier": "waits for the other threads of this number",
    "barrier": "waits for every thread",
}
"""What an op of the protocol does, with its first attribute."""


def stage(kernel: Kernel, target: Target, name: str) -> str:
    """What the pass `name` of `STAGES` made of the tile kernel `kernel`. E0803 where the road does
    not take it."""
    if refused := sm90.refusal(kernel, target):
        raise error("E0803", f"--pass {name}: not on {target.name}'s road of rings: {refused}")
    return STAGES[name](kernel, target)


# --- place ----------------------------------------------------------------------------------------


def _place(kernel: Kernel, target: Target) -> str:
    group = sm90.group(kernel, target)
    group.kernel()
    plan, role = group.plan, group.consumer
    assert role is not None
    cells = [_placed(plan, role, v, op) for v, op in _tiles(plan.program.body)]
    cells += [_written(plan, op) for op in plan.program.body.walk() if op in plan.targets]
    head = (
        f"{plan.threads} threads: one warpgroup fills rings, {plan.consumers} multiply {plan.rows} "
        f"rows each; sums take {plan.held} registers a thread\n\n"
    )
    return head + table(("line", "value", "type", "where", "cost", "why"), cells)


def _tiles(block: Block) -> Iterator[tuple[Value, Op]]:
    for op in block.ops:
        for region in op.regions:
            yield from ((p, op) for p in region.params if isinstance(p.type, Tile))
            yield from _tiles(region)
        yield from ((r, op) for r in op.results if isinstance(r.type, Tile))


def _placed(plan: Plan, role: Fragments, value: Value, op: Op) -> Cells:
    where, cost, why = _decided(plan, role, value, op)
    return (_line(op), f"{op.name} {value.name}".strip(), repr(value.type), where, cost, why)


def _decided(plan: Plan, role: Fragments, value: Value, op: Op) -> Cells:
    site = op.attr("site") if op.name == "tile_read" else None
    if site in plan.operands:
        number, operand = plan.rings.index(plan.ring_of(site)), plan.operands[site]
        rows, columns = operand.part.shape
        along = "k" if operand.k_major else "the other side, turned by the instruction"
        where = f"ring {number}, {rows} x {columns}"
        return where, "copy", f"a factor of `mma`; columns run along {along}"
    factor = _factor(plan, value)
    if factor is not None:
        return "registers", factor, "a computed factor of `mma`, in the layout of the sums"
    if value in role.sums:
        count = _registers(plan, value)
        why = "the result of `mma`" if op.name == "mma" else "carried, or read more than once"
        return f"registers, {count} a thread", "none", why
    if value in role.rows:
        return "two scalars for each 64 rows", "none", "a vector along the rows"
    return "where it is read", "none", "computed again, element by element"


def _registers(plan: Plan, value: Value) -> int:
    assert isinstance(value.type, Tile)
    return plan.rows * value.type.shape[-1] // WARPGROUP


def _factor(plan: Plan, value: Value) -> str | None:
    """The cost of a left factor that is computed, by the algebra of layouts; None for others."""
    for op in plan.program.body.walk():
        if op.name == "mma" and op.args[0] is value and staged(op)[0] is None:
            (_, k), elem = _shape(value), element(value.type)
            atom = nvidia.wgmma(k, elem.name, a_in_registers=True)
            assert atom.a is not None
            return convert(atom.acc, atom.a.repeat(1, k // atom.k)).cost
    return None


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, Tile)
    return value.type.shape


def _written(plan: Plan, op: Op) -> Cells:
    found, value = plan.targets[op], op.args[-1]
    head = (_line(op), "tile_write", repr(value.type))
    if found is None:
        return (*head, "the tensor", "elements", "no tensor map, or the lesser kind of writes")
    where = f"buffer of {found.rows} x {COLUMNS}"
    return (*head, where, "copy", f"{found.pieces} bulk stores of a consumer")


# --- ring -----------------------------------------------------------------------------------------


def _ring(kernel: Kernel, target: Target) -> str:
    plan, cells = sm90.group(kernel, target).plan, list[Cells]()
    for number, ring in enumerate(plan.rings):
        parts = plan.parts(ring)
        shown = ", ".join(f"{p.elem} {p.shape[0]} x {p.shape[1]}" for p in parts)
        size = sum(map(bytes_of, parts))
        why = (
            "read outside of the loop of its product: filled once for a tile"
            if ring.once
            else "meet in a product, as many slots as stages of their loop"
        )
        sites = " ".join(map(str, ring.sites))
        cells.append((str(number), sites, str(ring.slots), shown, f"{size * ring.slots}", why))
    text = table(("ring", "reads", "slots", "parts of a slot", "bytes", "why"), cells)
    through = [found for found in plan.targets.values() if found is not None]
    each = through[0].rows * COLUMNS * through[0].dtype.bytes if through else 0
    buffers = plan.consumers * plan.buffers * each
    total = sum(int(c[4]) for c in cells) + buffers
    left = target.shared_bytes - total
    return f"{text}\nbuffers of writes: {buffers} bytes; in all {total}, {left} are left\n"


# --- skew, peel, roles ----------------------------------------------------------------------------


def _skewed(kernel: Kernel, target: Target) -> Kernel:
    return skew.skew(kernel) if dict(kernel.schedule).get("OVERLAP") else kernel


def _skew(kernel: Kernel, target: Target) -> str:
    source = sm90.source(kernel)
    asked, lines = dict(source.schedule).get("OVERLAP"), list[str]()
    for op in _loops(source.body):
        waits = skew.waits(op)
        if waits is None:
            lines.append(f"line {_line(op)}: as it was; no product that needs another of its turn")
        elif not asked:
            lines.append(f"line {_line(op)}: as it was; OVERLAP does not ask for it")
        else:
            held = ", ".join(repr(v.type) for v in waits)
            lines.append(f"line {_line(op)}: the last product runs beside the next turn's first")
            lines.append(f"  cost: {held} wait a turn, and the first and last turn are apart")
    return "\n".join([*lines, "", print_kernel(_skewed(source, target))])


def _peel(kernel: Kernel, target: Target) -> str:
    program = _skewed(sm90.source(kernel), target)
    lines = list[str]()
    for op in _loops(program.body):
        gone, stay = peel.counted(op)
        why = f"{gone} masks drop nothing in its first turns" if gone else "no mask begins late"
        kept = f", {stay} stay in every turn" if stay else ""
        cost = "; cost: its body twice" if gone else ""
        lines.append(f"line {_line(op)}: {'two loops' if gone else 'as it was'}; {why}{kept}{cost}")
    return "\n".join([*lines, "", print_kernel(peel.peel(program))])


def _loops(block: Block) -> Iterator[Op]:
    return (op for op in block.walk() if op.name == "for")


def _roles(kernel: Kernel, target: Target) -> str:
    plan = sm90.group(kernel, target).plan
    limits = sm90.limits(plan)
    shown = [str(n) if n else "as the assembler gives" for n in limits]
    producer = ("producer", "1 of 128", shown[0], "fills rings, from the program as it was written")
    what = f"{plan.rows} rows of every accumulator, from the program after `peel`"
    consumers = ("consumer", f"{plan.consumers} x 128", shown[1], what)
    text = table(("role", "threads", "registers", "what"), [producer, consumers])
    made = roles.producer(plan.kernel, plan.rings)
    return f"{text}\nthe producer's program\n\n{print_kernel(made)}"


# --- await ----------------------------------------------------------------------------------------


def _await(kernel: Kernel, target: Target) -> str:
    made = sm90.group(kernel, target).kernel()
    protocol.check(made)
    cells = list(_asynchronous(made.body, 0))
    text = table(("line", "op", "what"), cells)
    starts = sum(c[2].startswith("starts") for c in cells)
    waits = sum(c[2].startswith("waits") for c in cells)
    tail = f"{starts} places start what runs on by itself, {waits} wait; no fault is found"
    return f"{text}\n{tail}\n"


def _asynchronous(block: Block, depth: int) -> Iterator[Cells]:
    for op in block.ops:
        if op.name in MEANINGS or op.name == "bulk_wait":
            yield (_line(op), "  " * depth + op.name, _meaning(op))
        for i, region in enumerate(op.regions):
            inner = list(_asynchronous(region, depth + 1))
            if inner:
                yield (_line(op), "  " * depth + ("else" if i else op.name), "")
                yield from inner


def _meaning(op: Op) -> str:
    if op.name == "bulk_wait":
        return "waits until buffers are read" if op.attr("read") else "waits until all is written"
    return MEANINGS[op.name].format(*op.attrs[:1])


def _line(op: Op) -> str:
    return str(op.loc.line) if op.loc is not None else ""


STAGES: dict[str, Callable[[Kernel, Target], str]] = {
    "place": _place,
    "ring": _ring,
    "skew": _skew,
    "peel": _peel,
    "roles": _roles,
    "await": _await,
}
"""The passes of this road in their order, as `iron inspect --pass` names them."""
