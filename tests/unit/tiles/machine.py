"""A group of an sm_90a kernel in numpy, in which everything asynchronous ends as late as allowed.

Each warpgroup is an agent that runs its 128 threads together; agents and copies take turns at
random. A copy lands whenever the dice say so, a product reads its slots only when it is awaited, a
bulk store reads its buffer only when the program waits for that. What swizzles and descriptors do
is not played: a part is its matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import numpy as np

from iron.ir import scalar
from iron.ir.core import Block, Kernel, Op, Value, carried
from iron.ir.floats8 import decoded
from iron.ir.host import evaluate
from iron.ir.types import Tensor
from iron.targets.atoms.nvidia import STMATRIX_4, wgmma

LANES = 128
Array = np.ndarray[Any, Any]
Step = Generator[Callable[[], bool], None, None]


class Deadlock(Exception):
    """Nobody can go on."""


@dataclass
class Barrier:
    """An mbarrier: a phase ends when `arrivals` have come and all promised bytes."""

    arrivals: int
    missing: int = 0
    bytes: int = 0
    completed: int = 0

    def __post_init__(self) -> None:
        self.missing = self.arrivals

    def arrive(self, bytes: int = 0) -> None:
        assert self.missing > 0, "more arrivals than a phase has"
        self.missing -= 1
        self.land(-bytes)

    def land(self, bytes: int) -> None:
        self.bytes -= bytes
        if self.missing == 0 and self.bytes == 0:
            self.completed, self.missing = self.completed + 1, self.arrivals

    def passed(self, phase: int) -> bool:
        return self.completed % 2 != phase


def play(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    dims: Mapping[str, int],
    scalars: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> int:
    """Runs every group; the number of groups. Raises Deadlock."""
    (groups,), failed = evaluate(kernel, scalars or {}, dims)
    assert not failed
    with scalar.quiet():
        for number in range(groups):
            dice = Random(seed + number)
            Group(kernel, {**arrays, **dims, **(scalars or {})}, number, dice).run()
    return groups


class Group:
    """One group: memory that its agents share, and what is under way."""

    def __init__(self, kernel: Kernel, given: Mapping[str, Any], number: int, dice: Random) -> None:
        self.kernel, self.given, self.number, self.dice = kernel, given, number, dice
        self.memory: dict[Op, tuple[Any, ...]] = {}
        self.copies: list[Callable[[], None]] = []
        self.met = 0
        self.came: Counter[int] = Counter()
        self.agents = [Agent(self, w) for w in range(kernel.threads // LANES)]

    def run(self) -> None:
        running = [(a, a.body(), [lambda: True]) for a in self.agents]
        while running:
            ready = [r for r in running if r[2][0]()]
            if self.copies and (not ready or self.dice.random() < 0.3):
                self.copies.pop(self.dice.randrange(len(self.copies)))()
                continue
            if not ready:
                raise Deadlock(f"group {self.number}: {len(running)} roles wait")
            chosen = self.dice.choice(ready)
            try:
                chosen[2][0] = next(chosen[1])
            except StopIteration:
                running.remove(chosen)
        assert not self.copies, "a copy lands after the group has ended"

    def of(self, op: Op, make: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """What an op of group memory made, once for all agents."""
        return self.memory.setdefault(op, make()) if op not in self.memory else self.memory[op]


@cache
def places(columns: int) -> tuple[Array, Array]:
    """Row and column of each register of each thread of a sum of 64 x `columns`."""
    layout = wgmma(columns, "bf16").acc
    found = np.array(
        [[layout.at(r, t % 32, t // 32) for t in range(LANES)] for r in range(layout.registers)]
    )
    return found[..., 0], found[..., 1]


STORED = np.array(
    [[STMATRIX_4.data.at(r, lane % 32) for lane in range(LANES)] for r in range(8)]
).transpose(2, 0, 1)
"""Row and column of each element of the words that a simdgroup stores."""


@dataclass
class Agent:
    """A warpgroup."""

    group: Group
    number: int
    values: dict[Value, Any] = field(default_factory=dict)
    active: Array = field(default_factory=lambda: np.ones(LANES, bool))
    products: list[Callable[[], None]] = field(default_factory=list)
    stores: list[Callable[[], None]] = field(default_factory=list)

    def body(self) -> Step:
        kernel = self.group.kernel
        for param, value in zip(kernel.params, kernel.body.params, strict=True):
            given = self.group.given[param.name]
            held = isinstance(value.type, Tensor)
            self.values[value] = given if held else value.type.np.type(given)
        yield from self.block(kernel.body)
        assert not self.products, "a role ends before its products are awaited"
        assert not self.stores, "a role ends before its stores have read group memory"

    # --- values -----------------------------------------------------------------------------------

    def lead(self, value: Value) -> Any:
        """A value that all running threads agree on."""
        held = np.broadcast_to(self.values[value], (LANES,))[self.active]
        assert (held == held[0]).all(), f"threads do not agree on {value}"
        return held[0]

    def block(self, block: Block) -> Step:
        for op in block.ops:
            if op.name == "yield":
                continue
            rule = getattr(self, "do_" + op.name, None)
            if op.name in (
                "for",
                "if",
                "ring_claim",
                "ring_wait",
                "ring_free",
                "barrier",
                "part_barrier",
            ):
                assert rule is not None
                yield from rule(op)
            elif rule is not None:
                rule(op)
            else:
                means = op.row.ref or op.row.truth  # an approximation as what it approximates
                assert means is not None, op
                made = means(*(self.values[a] for a in op.args), *op.attrs)
                self.values[op.results[0]] = np.asarray(made, op.results[0].type.np)[()]

    def take(self, given: tuple[Value, ...], taken: tuple[Value, ...]) -> None:
        moved = [self.values[v] for v in given]
        self.values.update(zip(taken, moved, strict=True))

    def do_for(self, op: Op) -> Step:
        (body,) = op.regions
        low, high, step = (int(self.lead(a)) for a in op.args[:3])
        self.take(op.args[3:], body.params[1:])
        for turn in range(low, high, step):
            self.values[body.params[0]] = body.params[0].type.np.type(turn)
            yield from self.block(body)
            self.take(carried(op), body.params[1:])
        self.take(body.params[1:], op.results)

    def do_if(self, op: Op) -> Step:
        condition, outer = np.broadcast_to(self.values[op.args[0]], (LANES,)), self.active
        found: list[list[Any]] = []
        for side, holds in zip(op.regions, (condition, ~condition), strict=True):
            self.active = outer & holds
            if self.active.any():
                yield from self.block(side)
            blank = [np.zeros(LANES, r.type.np) for r in op.results]
            found.append([self.values[v] for v in side.yielded] if self.active.any() else blank)
        self.active = outer
        for result, a, b in zip(op.results, *found, strict=True):
            self.values[result] = np.where(condition, a, b).astype(result.type.np)

    # --- ids and memory ---------------------------------------------------------------------------

    def do_const(self, op: Op) -> None:
        self.values[op.results[0]] = op.attrs[0]

    def do_thread(self, op: Op) -> None:
        self.values[op.results[0]] = np.arange(LANES, dtype=np.int32) + LANES * self.number

    def do_group(self, op: Op) -> None:
        self.values[op.results[0]] = op.attrs[1].np.type(self.group.number)

    def do_barrier(self, op: Op) -> Step:
        group = self.group
        group.met += 1
        everyone = group.met + (-group.met % len(group.agents))
        yield lambda: group.met >= everyone

    def do_registers(self, op: Op) -> None:
        t = op.attrs[0]
        blank = np.nan if t.elem.is_float else 0x7FC17FC1
        self.values[op.results[0]] = np.full((*t.shape, LANES), blank, t.elem.np)

    def do_load(self, op: Op) -> None:
        held = self.values[op.args[0]]
        if op.args[0].type.space == "registers":
            self.values[op.results[0]] = held[self.lead(op.args[1])].copy()
            return
        index = [np.broadcast_to(self.values[a], (LANES,)) for a in op.args[1:]]
        made = np.zeros(LANES, held.dtype)
        made[self.active] = held[tuple(i[self.active] for i in index)]
        self.values[op.results[0]] = made

    def do_store(self, op: Op) -> None:
        held, value = self.values[op.args[0]], self.values[op.args[-1]]
        if op.args[0].type.space == "registers":
            held[self.lead(op.args[1])] = value
            return
        index = [np.broadcast_to(self.values[a], (LANES,)) for a in op.args[1:-1]]
        value = np.broadcast_to(value, (LANES,))
        held[tuple(i[self.active] for i in index)] = value[self.active]

    def do_slots(self, op: Op) -> None:
        t = op.attrs[0]
        (made,) = self.group.of(op, lambda: (np.full(t.shape, np.nan, t.elem.np),))
        self.values[op.results[0]] = made

    def do_ring(self, op: Op) -> None:
        parts, slots, readers = op.attrs

        def make() -> tuple[Any, ...]:
            bars = [Barrier(1) for _ in range(slots)] + [Barrier(readers) for _ in range(slots)]
            return (bars, *(np.full((slots, *t.shape), np.nan, t.elem.np) for t in parts))

        self.values.update(zip(op.results, self.group.of(op, make), strict=True))

    # --- rings ------------------------------------------------------------------------------------

    def turn(self, op: Op) -> tuple[list[Barrier], int, int, int]:
        bars = self.values[op.args[0]]
        phase = int(self.lead(op.args[2])) if len(op.args) > 2 else 0
        return bars, len(bars) // 2, int(self.lead(op.args[1])), phase

    def do_ring_claim(self, op: Op) -> Step:
        assert self.active.sum() == 1
        bars, slots, slot, phase = self.turn(op)
        yield lambda: bars[slots + slot].passed(phase ^ 1)
        parts = op.args[0].op.attrs[0]
        bars[slot].arrive(sum(t.shape[0] * t.shape[1] * t.elem.bytes for t in parts))

    def do_ring_wait(self, op: Op) -> Step:
        bars, _, slot, phase = self.turn(op)
        yield lambda: bars[slot].passed(phase)

    def do_ring_free(self, op: Op) -> Step:
        assert self.active.all()
        bars, slots, slot, _ = self.turn(op)
        bars[slots + slot].arrive()
        yield lambda: True

    def window(self, op: Op, first: int, tensor: Value, columns: int) -> Any:
        """The tensor, what of it a box has, what of the box that is, and the box' shape."""
        array, t = self.values[tensor], tensor.type
        place = [int(self.lead(a)) for a in op.args[first:]]
        axes, sides, extents, ended = op.attrs
        sizes = [
            array.shape[a] if e == "" else self.group.given[e] if isinstance(e, str) else e
            for a, e in enumerate(extents)
        ]
        if ended:
            assert place[axes[0]] >= 0, "a copy begins before its view"
            sizes[axes[0]] = min(sizes[axes[0]], place.pop())
        counts = [1] * t.rank
        for axis, side in zip(axes, (*sides, columns), strict=True):
            counts[axis] = side
        inside = [
            [i for i in range(n) if 0 <= p + i < s]
            for n, p, s in zip(counts, place, sizes, strict=True)
        ]
        there = np.ix_(*([p + i for i in here] for p, here in zip(place, inside, strict=True)))
        return array, there, np.ix_(*inside), counts

    def do_ring_copy(self, op: Op) -> None:
        assert self.active.sum() == 1
        held, bars = self.values[op.args[0]], self.values[op.args[1]]
        slot = int(self.lead(op.args[2]))
        part = held[slot]
        array, there, here, counts = self.window(op, 4, op.args[3], part.shape[1])

        def land() -> None:
            box = np.zeros(counts, part.dtype)
            box[here] = array[there]
            part[...] = box.reshape(part.shape)
            bars[slot].land(part.nbytes)

        self.group.copies.append(land)

    def do_wgmma(self, op: Op) -> None:
        assert self.active.all()
        acc, a, b = (self.values[op.args[i]] for i in (0, 1, 4))
        slots, row = [int(self.lead(op.args[i])) for i in (2, 5)], int(self.lead(op.args[3]))
        keep, (a_k, b_k, depth, floats) = bool(self.lead(op.args[6])), op.attrs

        def multiply() -> None:
            x = (a[slots[0]] if a_k else a[slots[0]].T)[:, :depth]
            y = (b[slots[1]].T if b_k else b[slots[1]])[:depth, : len(acc) * 2]
            if floats:
                x, y = decoded(x, floats), decoded(y, floats)
            wide = np.int32 if acc.dtype == np.int32 else np.float32
            made = x[row : row + 64].astype(wide) @ y.astype(wide)
            rows, columns = places(made.shape[1])
            acc[...] = made[rows, columns] + (acc if keep else 0)

        self.products.append(multiply)

    def do_wgmma_a(self, op: Op) -> None:
        assert self.active.all()
        acc, words, b = (self.values[a] for a in op.args[:3])
        slot, keep = int(self.lead(op.args[3])), bool(self.lead(op.args[4]))
        dtype, b_k = op.attrs

        def multiply() -> None:
            y = (b[slot].T if b_k else b[slot])[: len(words) * 4, : len(acc) * 2]
            x = np.zeros((64, len(y)), np.float32)
            rows, columns = places(len(y))
            for half in range(2):
                held = (words >> np.uint32(16 * half)).astype(np.uint16).view(dtype.np)
                x[rows[half::2], columns[half::2]] = held.astype(np.float32)
            made = x @ y.astype(np.float32)
            rows, columns = places(made.shape[1])
            acc[...] = made[rows, columns] + (acc if keep else 0)

        self.products.append(multiply)

    def do_exchange(self, op: Op) -> None:
        assert self.active.all()
        held = np.broadcast_to(self.values[op.args[0]], (LANES,))
        self.values[op.results[0]] = held[np.arange(LANES) ^ op.attrs[0]]

    def do_wgmma_wait(self, op: Op) -> None:
        while len(self.products) > op.attrs[0]:
            self.products.pop(0)()

    # --- what leaves ------------------------------------------------------------------------------

    def do_pair(self, op: Op) -> None:
        low, high = (
            np.broadcast_to(self.values[a], (LANES,)).astype(op.attrs[0].np).view(np.uint16)
            for a in op.args
        )
        self.values[op.results[0]] = low.astype(np.uint32) | high.astype(np.uint32) << 16

    def do_greater(self, op: Op) -> None:
        self.values[op.results[0]] = np.maximum(*(self.values[a] for a in op.args))

    def do_lesser(self, op: Op) -> None:
        self.values[op.results[0]] = np.minimum(*(self.values[a] for a in op.args))

    def do_stmatrix(self, op: Op) -> None:
        held, slot = self.values[op.args[0]], int(self.lead(op.args[1]))
        row = np.broadcast_to(self.values[op.args[2]], (LANES,))
        column = np.broadcast_to(self.values[op.args[3]], (LANES,))
        for r, word in enumerate(op.args[4:]):
            bits = np.broadcast_to(self.values[word], (LANES,))
            for half in range(2):
                m, n = STORED[:, 2 * r + half]
                value = (bits >> np.uint32(16 * half)).astype(np.uint16).view(held.dtype)
                m, n = (n, m) if op.attr("turned") else (m, n)
                held[slot, row + m, column + n] = value

    def do_part_store(self, op: Op) -> None:
        held, slot = self.values[op.args[0]], int(self.lead(op.args[1]))
        row, column, *values = (np.broadcast_to(self.values[a], (LANES,)) for a in op.args[2:])
        for i, value in enumerate(values):
            held[slot, row[self.active], column[self.active] + i] = value[self.active]

    def do_fence_async(self, op: Op) -> None:
        pass

    def do_part_barrier(self, op: Op) -> Step:
        assert self.active.all()
        number, came = self.come(op)
        least = came + (-came % (op.attrs[0] // LANES))
        yield lambda: self.group.came[number] >= least

    def do_part_arrive(self, op: Op) -> None:
        assert self.active.all()
        self.come(op)

    def come(self, op: Op) -> tuple[int, int]:
        """A named barrier, and how many warpgroups have come to it, this one included."""
        number = int(self.lead(op.args[0]))
        self.group.came[number] += 1
        return number, self.group.came[number]

    def do_register_limit(self, op: Op) -> None:
        pass

    def do_bulk_store(self, op: Op) -> None:
        assert self.active.sum() == 1
        part = self.values[op.args[0]][int(self.lead(op.args[1]))]
        array, there, here, counts = self.window(op, 3, op.args[2], part.shape[1])

        def read() -> None:
            array[there] = part.reshape(counts)[here]

        self.stores.append(read)

    def do_bulk_wait(self, op: Op) -> None:
        while len(self.stores) > op.attrs[0]:
            self.stores.pop(0)()
