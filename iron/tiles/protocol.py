"""The static verifier of rings and bulk stores: what a run on hardware may not show.

Asynchronous work usually ends long before anyone looks, so a missing wait passes tests. Each path
of a role is walked here, loops twice, with everything that was started taken to be still under way
until the program awaits it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from iron.errors import error
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.types import Tensor

FREE, WRITTEN, FENCED, READY, STORED, READ = range(6)
"""What a consumer's buffers are: open to writes; written; seen by bulk copies; by those of the one
thread that starts them; under way; read, as far as that thread knows."""


def check(kernel: Kernel) -> None:
    """Raises E0901 with the first fault of the protocol, which a pass has made."""
    found = faults(kernel)
    if found:
        raise error("E0901", f"the program is not well formed: {found[0]}", kernel=kernel.name)


def faults(kernel: Kernel) -> list[str]:
    """What is wrong with the rings and bulk stores of a lowered kernel, in the order of a run."""
    walk = _Walk()
    walk.block(kernel.body)
    walk.end()
    return list(dict.fromkeys(walk.found))


@dataclass(slots=True)
class _State:
    """What one role knows where it is. Values are compared by identity: a slot is a name."""

    opened: bool = False
    claimed: dict[Value, tuple[Value, set[Value]]] = field(
        default_factory=lambda: dict[Value, tuple[Value, set[Value]]]()
    )
    full: dict[Value, Value] = field(default_factory=lambda: dict[Value, Value]())
    flying: list[tuple[set[Value], set[Value]]] = field(
        default_factory=lambda: list[tuple[set[Value], set[Value]]]()
    )
    buffers: dict[Value, int] = field(default_factory=lambda: dict[Value, int]())
    leaving: bool = False

    def copy(self) -> _State:
        claimed = {k: (slot, set(parts)) for k, (slot, parts) in self.claimed.items()}
        return _State(
            self.opened,
            claimed,
            dict(self.full),
            list(self.flying),
            dict(self.buffers),
            self.leaving,
        )

    def join(self, other: _State) -> None:
        """What may be so after either of two ways."""
        self.claimed.update(other.claimed)
        self.full.update(other.full)
        self.flying += [f for f in other.flying if f not in self.flying]
        for held, what in other.buffers.items():
            self.buffers[held] = max(what, self.buffers.get(held, FREE), key=_WORST.index)
        self.leaving = self.leaving or other.leaving


_WORST = (FREE, READ, READY, FENCED, WRITTEN, STORED)
"""From buffers that most may be done with to those with least."""


class _Walk:
    """One walk over a kernel."""

    def __init__(self) -> None:
        self.state = _State()
        self.found: list[str] = []
        self.readers = 1

    def fault(self, message: str) -> None:
        self.found.append(message)

    def block(self, block: Block) -> None:
        for op in block.ops:
            rule = _RULES.get(op.name)
            if rule is not None:
                rule(self, op)
            elif op.name == "if":
                self.branch(op)
            elif op.name == "for":
                self.loop(op)

    def branch(self, op: Op) -> None:
        """A side without ops is that of threads whom one of their warpgroup acts for."""
        first, second = op.regions
        before = self.state.copy()
        self.block(first)
        if any(o.name in _RULES or o.regions for o in second.ops):
            after, self.state = self.state, before
            self.block(second)
            self.state.join(after)

    def loop(self, op: Op) -> None:
        """Twice: what the first turn leaves under way is there in the second."""
        before = dict(self.state.full)
        for _ in range(2):
            self.block(op.regions[0])
            for ring in self.state.full.keys() - before.keys():
                self.fault(f"a turn ends with a slot of {_name(ring)} that is not freed")
            for ring in before.keys() - self.state.full.keys():
                self.fault(f"a turn frees a slot of {_name(ring)} that all turns read")
            for ring in self.state.claimed:
                self.fault(f"a turn ends with a slot of {_name(ring)} that is not filled")
            self.state.full = dict(before)
            self.state.claimed.clear()

    def end(self) -> None:
        """The group ends."""
        if self.state.leaving:
            self.fault("the group ends while bulk stores read its memory")
        if self.state.flying:
            self.fault("the group ends before its products are awaited")

    # --- the producer -----------------------------------------------------------------------------

    def ring(self, op: Op) -> None:
        self.readers = op.attr("readers")
        self.state.opened = False

    def barrier(self, op: Op) -> None:
        self.state.opened = True

    def ring_claim(self, op: Op) -> None:
        ring, slot, _ = op.args
        if not self.state.opened:
            self.fault(f"no barrier stands between {_name(ring)} and its first use")
        if ring in self.state.claimed:
            self.fault(f"a slot of {_name(ring)} is claimed before the last one is filled")
        self.state.claimed[ring] = slot, set(_parts(ring))

    def ring_copy(self, op: Op) -> None:
        part, ring, slot = op.args[:3]
        claimed = self.state.claimed.get(ring)
        if claimed is None or claimed[0] is not slot:
            self.fault(f"{_name(part)} is filled without a claim of the slot")
            return
        if part not in claimed[1]:
            self.fault(f"{_name(part)} is filled twice, or in another ring's slot")
        claimed[1].discard(part)
        if not claimed[1]:
            del self.state.claimed[ring]

    # --- consumers --------------------------------------------------------------------------------

    def ring_wait(self, op: Op) -> None:
        ring, slot, _ = op.args
        if not self.state.opened:
            self.fault(f"no barrier stands between {_name(ring)} and its first use")
        if ring in self.state.full:
            self.fault(f"a slot of {_name(ring)} is awaited before the last one is freed")
        self.state.full[ring] = slot

    def ring_free(self, op: Op) -> None:
        ring, slot = op.args
        if self.state.full.get(ring) is not slot:
            self.fault(f"a slot of {_name(ring)} is freed that was not awaited")
        if any(ring in rings for rings, _ in self.state.flying):
            self.fault(f"a slot of {_name(ring)} is freed while a product reads it")
        self.state.full.pop(ring, None)

    def wgmma(self, op: Op) -> None:
        rings = self._reads(op.args[1], op.args[2]) | self._reads(op.args[4], op.args[5])
        self.state.flying.append((rings, {op.args[0]}))

    def _reads(self, part: Value, slot: Value) -> set[Value]:
        ring = _ring(part)
        if ring is None or self.state.full.get(ring) is not slot:
            self.fault(f"a product reads {_name(part)} before its slot is full")
            return set()
        return {ring}

    def wgmma_a(self, op: Op) -> None:
        self.state.flying.append((self._reads(op.args[2], op.args[3]), set(op.args[:2])))

    def wgmma_wait(self, op: Op) -> None:
        pending = op.attr("pending")
        self.state.flying = self.state.flying[-pending:] if pending else []

    def access(self, op: Op) -> None:
        """Of a thread: registers of a sum."""
        if any(op.args[0] in held for _, held in self.state.flying):
            self.fault(f"{_name(op.args[0])} is touched before its products are awaited")

    # --- what leaves ------------------------------------------------------------------------------

    def stmatrix(self, op: Op) -> None:
        if self.state.buffers.get(op.args[0], FREE) not in (FREE, WRITTEN):
            self.fault(f"{_name(op.args[0])} is written while a bulk store may read it")
        self.state.buffers[op.args[0]] = WRITTEN

    def fence_async(self, op: Op) -> None:
        self._move(WRITTEN, FENCED)

    def part_barrier(self, op: Op) -> None:
        self._move(FENCED, READY)
        self._move(READ, FREE)

    def bulk_store(self, op: Op) -> None:
        held = self.state.buffers.get(op.args[0], FREE)
        if held in (FREE, WRITTEN):
            self.fault(f"no fence stands between the writes and the store of {_name(op.args[0])}")
        elif held == FENCED:
            self.fault(f"no barrier stands between the writes and the store of {_name(op.args[0])}")
        self.state.buffers[op.args[0]] = STORED
        self.state.leaving = True

    def bulk_wait(self, op: Op) -> None:
        pending = op.attr("pending")
        for held, what in self.state.buffers.items():
            assert isinstance(held.type, Tensor)
            if what == STORED and pending < held.type.shape[0] // self.readers:
                self.state.buffers[held] = READ
        if pending == 0:
            self.state.leaving = False

    def _move(self, old: int, new: int) -> None:
        for held, what in self.state.buffers.items():
            if what == old:
                self.state.buffers[held] = new


def _name(value: Value) -> str:
    return f"`{value.name}`" if value.name else "an array"


def _parts(ring: Value) -> tuple[Value, ...]:
    assert ring.op is not None
    return ring.op.results[1:]


def _ring(part: Value) -> Value | None:
    return part.op.results[0] if part.op is not None and part.op.name == "ring" else None


_RULES: dict[str, Callable[[_Walk, Op], None]] = {
    "ring": _Walk.ring,
    "barrier": _Walk.barrier,
    "ring_claim": _Walk.ring_claim,
    "ring_copy": _Walk.ring_copy,
    "ring_wait": _Walk.ring_wait,
    "ring_free": _Walk.ring_free,
    "wgmma": _Walk.wgmma,
    "wgmma_a": _Walk.wgmma_a,
    "wgmma_wait": _Walk.wgmma_wait,
    "load": _Walk.access,
    "store": _Walk.access,
    "stmatrix": _Walk.stmatrix,
    "part_store": _Walk.stmatrix,
    "fence_async": _Walk.fence_async,
    "part_barrier": _Walk.part_barrier,
    "bulk_store": _Walk.bulk_store,
    "bulk_wait": _Walk.bulk_wait,
}
