"""The machine: one chunk of groups run in lockstep, a numpy array with one entry for each lane.

A run-time scalar is a numpy scalar when every lane of the chunk agrees by construction, else an
array of shape (lanes,); a vector has its elements on a further last axis. A mask is None when
every lane is active, else an array of bool; a block runs only when some lane is active.

A group of a tile kernel is one lane, and a tile has its axes after that of the lanes. The log of
accesses knows two parties of such a group, whose accesses no program order relates: its tile ops,
and its threads, which share loads and stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from iron.errors import KernelError, Loc, error
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.types import Type, element, held

if TYPE_CHECKING:
    from iron.ir.interp.copy import Flying
    from iron.ir.interp.memory import Buffer

Array = Any  # a numpy scalar or array
Mask = np.ndarray[Any, Any] | None
Handler = Callable[["Machine", Op, Mask], Sequence[Array]]


def _none() -> np.ndarray[Any, Any]:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class Machine:
    """The state of one launch, and of the chunk of groups that runs.

    `serial` numbers the running ops of the launch; `events` maps a serial number to its op;
    `branches` are the branches and loops that some, but not all, lanes entered. For each lane:
    `lane` counts from 0 in the chunk, `in_chunk` is its group's place in the chunk, `thread` its
    number in the group, `number` that in the whole launch, `since` the serial number at its group's
    last barrier, and `closed` its number of closed groups of copies. `flying` are copies under way.
    """

    kernel: Kernel
    handlers: Mapping[str, Handler]
    grid: tuple[int, ...]
    checks: bool
    env: dict[Value, Array] = field(default_factory=dict[Value, Array])
    buffers: dict[Value, Buffer] = field(default_factory=dict[Value, "Buffer"])
    events: dict[int, Op] = field(default_factory=dict[int, Op])
    branches: list[Op] = field(default_factory=list[Op])
    tiled: bool = False
    serial: int = 0
    first_group: int = 0
    groups: int = 0
    lane: np.ndarray[Any, Any] = field(default_factory=_none)
    in_chunk: np.ndarray[Any, Any] = field(default_factory=_none)
    thread: np.ndarray[Any, Any] = field(default_factory=_none)
    number: np.ndarray[Any, Any] = field(default_factory=_none)
    since: np.ndarray[Any, Any] = field(default_factory=_none)
    closed: np.ndarray[Any, Any] = field(default_factory=_none)
    flying: list[Flying] = field(default_factory=lambda: list["Flying"]())

    @property
    def parties(self) -> int:
        """The parties of a group: its threads, or of a tile kernel the tile ops and the threads."""
        return 2 if self.tiled else self.kernel.threads

    @property
    def lanes(self) -> int:
        """Lanes of the chunk."""
        return self.groups * self.kernel.threads

    def open_chunk(self, first_group: int, groups: int) -> None:
        """Makes groups `first_group` and following the ones that run."""
        threads = self.kernel.threads
        self.first_group, self.groups = first_group, groups
        self.lane = np.arange(groups * threads, dtype=np.int64)
        self.in_chunk = self.lane // threads
        self.thread = self.lane % threads
        self.number = self.lane + first_group * threads
        if self.tiled:
            self.number = self.number * 2 + 1
        self.since = np.zeros(self.lanes, np.int64)
        self.closed = np.zeros(self.lanes, np.int64)
        self.flying = []

    def block(self, block: Block, mask: Mask) -> list[Array]:
        """Runs a block and returns what it yields."""
        env, handlers = self.env, self.handlers
        for op in block.ops:
            row = op.row
            handler = handlers.get(row.name)
            if handler is not None:
                results = handler(self, op, mask)
                env.update(zip(op.results, results, strict=True))
            elif row.ref is not None:
                env[op.results[0]] = row.ref(*[env[a] for a in op.args], *op.attrs)
            elif row.name == "yield":
                return [env[a] for a in op.args]
            else:
                raise self.fault("E0901", f"the interpreter does not know `{row.name}`", op)
        return []

    def spread(self, value: Value) -> np.ndarray[Any, Any]:
        """The operand with one entry for each lane."""
        return self.over_lanes(self.env[value], value.type)

    def over_lanes(self, x: Array, t: Type) -> np.ndarray[Any, Any]:
        """`x` of type `t` with one entry for each lane."""
        return np.broadcast_to(x, (self.lanes, *held(t)))

    def nothing(self, t: Type) -> Array:
        """A zero of type `t`, for results that no active lane has."""
        return np.zeros(held(t), element(t).np)[()]

    def fault(
        self, id: str, message: str, op: Op | None, notes: Sequence[str] = (), help: str = ""
    ) -> KernelError:
        """The error at the place of `op`, to be raised."""
        loc = op.loc if op is not None else None
        return error(id, message, loc, self.kernel.name, tuple(notes), help)


def place(loc: Loc | None) -> str:
    """`file:line`, with the call sites of inlined functions."""
    if loc is None:
        return "an unknown line"
    sites = (loc, *loc.chain())
    return ", called from ".join(f"{_name(s.file)}:{s.line}" for s in sites)


def _name(file: str) -> str:
    return file.rsplit("/", 1)[-1]
