"""sm_90a: tile programs as rings of bulk copies, products of warpgroups, and roles.

A group is a producer's warpgroup and one to three consumers. Launches are flat: the launch of a
tile kernel's groups becomes one axis, walked in the kernel's order, by at most `PERSISTENT` groups
when the schedule says so. Programs that do not fit (`refusal` says why) take the generic road.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iron.dtypes import i32
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Value
from iron.ir.ops.ring import WARPGROUP
from iron.ir.rebuild import replace_blocks
from iron.ir.types import tensor
from iron.targets.target import Target
from iron.tiles import protocol, roles
from iron.tiles.emitter import named
from iron.tiles.order import mirrored, numbers, round_of
from iron.tiles.peel import peel
from iron.tiles.ring import Ring
from iron.tiles.skew import skew
from iron.tiles.sm90.boxes import Refused
from iron.tiles.sm90.fragments import Fragments
from iron.tiles.sm90.plan import COLUMNS, Plan, fits, plan
from iron.tiles.sm90.produce import Producer
from iron.tiles.sm90.role import Held, Role
from iron.tiles.turn import turn

LIMITS = {2: (24, 240), 3: (32, 160)}
"""Registers of a thread of the producer and of consumers, by the number of these; one consumer has
all that a thread can have."""
FEW = 48
"""Registers of sums that any share of the file has room for."""


def lower(kernel: Kernel, target: Target) -> Kernel | None:
    """The threads of the tile kernel `kernel` on `target`; None where this road refuses it."""
    try:
        made = group(kernel, target).kernel()
    except Refused:
        return None
    protocol.check(made)
    return made


def refusal(kernel: Kernel, target: Target) -> str:
    """Why `lower` gives None, as the end of a sentence; '' where it does not."""
    try:
        group(kernel, target).kernel()
    except Refused as why:
        return str(why)
    return ""


def group(kernel: Kernel, target: Target) -> Group:
    """The skeleton of the group. Raises Refused.

    The producer follows the program as it was written, consumers one without idle masks, in which
    products overlap where the schedule asks for it. Both may be those of transposed tiles.
    """
    kernel = source(kernel)
    program = skew(kernel) if dict(kernel.schedule).get("OVERLAP") else kernel
    return Group(plan(kernel, peel(program), target))


def source(kernel: Kernel) -> Kernel:
    """`kernel`, or the program of its transposed tiles where rows are few or it asks for them."""
    if not dict(kernel.schedule).get("TRANSPOSED") and fits(kernel):
        return kernel
    turned = turn(kernel)
    return turned if turned is not None and fits(turned) else kernel


def limits(made: Plan) -> tuple[int, int]:
    """Registers of a thread of the producer and of consumers; 0 where nothing limits them."""
    return LIMITS.get(made.consumers, (0, 0)) if made.held > FEW else (0, 0)


class Group:
    """The skeleton: what the group shares, the walk over group numbers, and who does what."""

    def __init__(self, made: Plan) -> None:
        self.plan = made
        self.source = made.kernel
        self.consumer: Fragments | None = None
        self.b = Builder()

    def kernel(self) -> Kernel:
        """The whole kernel."""
        params = [Value(p.type, None, p.name) for p in self.source.params]
        values = dict(zip(self.source.body.params, params, strict=True))
        with self.b.block(params) as body:
            self._body(values)
        made = replace(self.source, rank=1, threads=self.plan.threads, schedule=())
        return replace_blocks(made, host=self._host(), body=body)

    # --- the launch -------------------------------------------------------------------------------

    def _host(self) -> Block:
        """The launch is as long as all groups, or as the persistent ones."""
        host, b = self.source.host, Builder()
        fresh = [Value(p.type, None, p.name) for p in host.params]
        with b.block(fresh) as block:
            yielded = _copied(b, host, fresh)
            extents, conditions = yielded[: self.source.rank], yielded[self.source.rank :]
            b.emit_all("yield", (self._launched(b, extents, _product(b, extents)), *conditions))
        return block

    def _launched(self, b: Builder, extents: Sequence[Value], total: Value) -> Value:
        most = int(self.plan.setting("PERSISTENT", 0))
        return (
            round_of(b, extents, total, self.plan.setting("order", None), most) if most else total
        )

    # --- the body ---------------------------------------------------------------------------------

    def _body(self, values: dict[Value, Value]) -> None:
        b, source = self.b, self.source
        thread = b.emit("thread", attrs=(i32,))
        held = self._held(thread)
        b.emit_all("barrier")
        given = [values[source.value(p.name)] for p in source.host_params]
        extents = _copied(b, source.host, given)[: source.rank]
        for axis, extent in enumerate(extents):
            named(extent, f"tiles{axis}")
        part = b.emit("floordiv", thread, b.const(WARPGROUP, i32))
        named(part, "warpgroup")
        leader = b.emit("eq", part, b.const(0, i32))
        with b.block() as first:
            self._producer(held, values, extents)
            b.emit_all("yield")
        with b.block() as second:
            number = b.emit("sub", part, b.const(1, i32))
            named(number, "consumer")
            self._consumer(held, values, extents, number)
            b.emit_all("yield")
        b.emit_all("if", (leader,), (), (first, second))

    def _held(self, thread: Value) -> Held:
        barriers: dict[Ring, Value] = {}
        parts: dict[int, Value] = {}
        for ring in self.plan.rings:
            attrs = (self.plan.parts(ring), ring.slots, self.plan.consumers)
            barriers[ring], *arrays = self.b.emit_all("ring", (), attrs)
            named(barriers[ring], "ring")
            for site, array in zip(ring.sites, arrays, strict=True):
                parts[site] = array
                named(array, f"{self.plan.operands[site].box.buffer.name}_slots")
        through = [found for found in self.plan.targets.values() if found is not None]
        if not through:
            return Held(thread, barriers, parts, None)
        shape = (self.plan.consumers * self.plan.buffers, through[0].rows, COLUMNS)
        kind = tensor(through[0].dtype, 3, "shared", shape)
        buffers = self.b.emit("slots", attrs=(kind,))
        named(buffers, "buffers")
        return Held(thread, barriers, parts, buffers)

    def _producer(self, held: Held, values: dict[Value, Value], extents: Sequence[Value]) -> None:
        self._limit(0)
        b = self.b
        lone = b.emit("eq", held.thread, b.const(0, i32))
        program = roles.producer(self.source, self.plan.rings)
        role = Producer(b, self.plan, held, self._named(values, program))
        role.only(lone, lambda: self._walk(role, program.body, extents))

    def _consumer(
        self, held: Held, values: dict[Value, Value], extents: Sequence[Value], number: Value
    ) -> None:
        self._limit(1)
        role = self.consumer = Fragments(self.b, self.plan, held, self._named(values), number)
        role.start()
        self._walk(role, self.plan.program.body, extents)
        role.finish()

    def _named(self, values: dict[Value, Value], *others: Kernel) -> dict[Value, Value]:
        """The parameters by those of the source, of the consumers' program, and of others."""
        out = dict(values)
        for kernel in (self.plan.program, *others):
            out.update(zip(kernel.body.params, values.values(), strict=True))
        return out

    def _limit(self, which: int) -> None:
        if count := limits(self.plan)[which]:
            self.b.emit_all("register_limit", (), (count, which == 1))

    def _walk(self, role: Role, program: Block, extents: Sequence[Value]) -> None:
        """The program for each group number that falls to this group."""
        b = self.b
        role.begin()
        total = _product(b, extents)
        named(total, "tiles")
        launched = self._launched(b, extents, total)
        mine = b.emit("group", attrs=(0, self.source.index))
        if launched is total:
            self._once(role, program, mine, extents)
            return
        counter = Value(mine.type, None, "tile")

        def turn() -> list[Value]:
            order = self.plan.setting("order", None)
            even = order is not None and order[2]  # tiles get lighter: see to it that groups do not
            flat = mirrored(b, counter, launched, total) if even else counter
            self._once(role, program, flat, extents)
            return []

        role.carry(list(self.plan.rings), [mine, total, launched], counter, [], [], turn)

    def _once(self, role: Role, program: Block, flat: Value, extents: Sequence[Value]) -> None:
        order = self.plan.setting("order", None)
        role.groups = numbers(self.b, flat, extents, order)
        role.block(program)


def _product(b: Builder, values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = b.emit("mul", total, value)
    return total


def _copied(b: Builder, block: Block, given: Sequence[Value]) -> list[Value]:
    """What `block` yields when it is emitted again for these parameters."""
    values = dict(zip(block.params, given, strict=True))
    for op in block.ops[:-1]:
        args = [values[a] for a in op.args]
        made = b.emit_all(op.name, args, op.attrs, (), op.surface)
        values.update(zip(op.results, made, strict=True))
    return [values[v] for v in block.yielded]
