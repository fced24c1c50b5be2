"""Memory of the interpreter: tensors, group arrays and tables, with checks at every access.

Indices are checked against the extents of each axis. Elements of `out` and `shared` memory must
be written before they are read. Accesses enter the log of `races` wherever a kernel writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.dtypes import bool_
from iron.ir.core import Block, Op, Value
from iron.ir.interp.machine import Array, Machine, Mask, place
from iron.ir.interp.races import LANE_BITS, LANE_MASK, Access, Clash, Log
from iron.ir.table import Trait
from iron.ir.types import Tensor, count

BARRIER_HELP = "put a barrier() between the two accesses, or give each thread its own elements"
GROUPS_HELP = "groups are never ordered: let one group own the element, or split the kernel"


@dataclass(slots=True)
class Buffer:
    """One tensor: `data` is flat where memory order allows, else shaped `shape`.

    `per_group` is the number of elements a group owns of `shared` memory, else 0. `written` marks
    initialised elements; None means all are. `log` is None where nothing can race.
    """

    name: str
    space: str
    shape: tuple[int, ...]
    data: np.ndarray[Any, Any]
    per_group: int = 0
    written: np.ndarray[Any, Any] | None = None
    log: Log | None = None

    def read(self, at: Array) -> Array:
        """The elements at flat positions."""
        if self.data.ndim == 1:
            return self.data.take(at)
        return self.data[np.unravel_index(at, self.shape)]

    def write(self, at: Array, values: Array) -> None:
        """Stores at flat positions."""
        if self.data.ndim == 1:
            self.data[at] = values
        else:
            self.data[np.unravel_index(at, self.shape)] = values

    def element(self, at: int) -> str:
        """The indices of a flat position, as text."""
        inside = at % self.per_group if self.per_group else at
        return "[" + ", ".join(str(int(i)) for i in np.unravel_index(inside, self.shape)) + "]"


def parameter(m: Machine, name: str, value: Value, arrays: Mapping[str, Any]) -> Buffer:
    """The buffer of a tensor parameter, whose array is used in place, whatever its strides."""
    assert isinstance(value.type, Tensor)
    array = arrays[name]
    data = array.reshape(-1) if array.flags.c_contiguous else array
    buffer = Buffer(name, value.type.space, array.shape, data)
    touched = _writers(m.kernel.body, value)
    if m.checks and value.type.space == "out":
        buffer.written = np.zeros(array.size, bool)
    if m.checks and touched:
        atomics = any(op.name == "atomic" for op in touched)
        buffer.log = Log(array.size, m.parties, across=True, atomics=atomics)
    return buffer


def group_array(m: Machine, value: Value) -> Buffer:
    """Uninitialised memory of each group for the array that `value` names."""
    t = value.type
    assert isinstance(t, Tensor)
    size = math.prod(t.shape)
    total = size * m.groups
    buffer = Buffer(value.name or "shared", t.space, t.shape, np.zeros(total, t.elem.np), size)
    if m.checks:
        atomics = any(op.name == "atomic" for op in _writers(m.kernel.body, value))
        buffer.written = np.zeros(total, bool)
        buffer.log = Log(total, m.parties, across=False, atomics=atomics)
    return buffer


def _writers(body: Block, value: Value) -> list[Op]:
    return [
        op for op in body.walk() if op.row.has(Trait.WRITES) and op.args and op.args[0] is value
    ]


def unwritten(m: Machine, partial: frozenset[str]) -> None:
    """Raises E0402 for an `out` tensor with elements that no thread wrote."""
    for value, buffer in m.buffers.items():
        if buffer.space != "out" or buffer.written is None or buffer.name in partial:
            continue
        missing = np.flatnonzero(~buffer.written)
        if missing.size:
            stores = _writers(m.kernel.body, value)
            raise m.fault(
                "E0402",
                f"`{buffer.name}`: {missing.size} of {buffer.written.size} elements are never "
                f"written, the first is {buffer.element(int(missing[0]))}",
                stores[-1] if stores else None,
                help="write every element, or declare the output partial",
            )


# --- addresses ------------------------------------------------------------------------------------


def addresses(
    m: Machine,
    op: Op,
    indices: Sequence[Value],
    length: int,
    mask: Mask,
    of: int = 0,
    moved: tuple[int, int] = (0, 0),
) -> Array:
    """Flat positions in operand `of`, () or one a lane; inactive lanes point at 0. Raises E0404.

    `moved` is an axis, and how much further along it.
    """
    buffer = m.buffers[op.args[of]]
    at: Array = np.int64(0)
    for axis, (index, size) in enumerate(zip(indices, buffer.shape, strict=True)):
        i = np.asarray(m.env[index]).astype(np.int64)
        if axis == moved[0] % len(indices):
            i = i + moved[1]
        room = size - (max(length, 1) - 1 if axis == len(indices) - 1 else 0)
        if i.min() < 0 or i.max() >= room:
            _in_bounds(m, op, (i < 0) | (i >= room), mask, axis, index, length, buffer)
        at = at * size + i
    if buffer.per_group:
        at = at + m.in_chunk * buffer.per_group
    return at if mask is None or np.ndim(at) == 0 else np.where(mask, at, 0)


def _in_bounds(
    m: Machine,
    op: Op,
    bad: Array,
    mask: Mask,
    axis: int,
    index: Value,
    length: int,
    buffer: Buffer,
) -> None:
    active = bad if mask is None else bad & mask
    if not active.any():
        return
    lane = int(np.argmax(m.over_lanes(active, bool_)))
    value = int(m.over_lanes(m.env[index], index.type)[lane])
    span = f"{value}..{value + length - 1}" if length > 1 else str(value)
    size = buffer.shape[axis]
    raise m.fault(
        "E0404",
        f"index {span} is outside axis {axis} of `{buffer.name}`, which has {size} elements",
        op,
        [f"in {who(m, lane)}"],
    )


def who(m: Machine, lane: int) -> str:
    """The lane of the chunk, as text."""
    group = _group(m, m.first_group + lane // m.kernel.threads)
    return group if m.tiled else f"thread {lane % m.kernel.threads} of {group}"


def _group(m: Machine, number: int) -> str:
    axes: list[int] = []
    for extent in m.grid:
        axes.append(number % extent)
        number //= extent
    return f"group {axes[0]}" if len(axes) == 1 else f"group {tuple(axes)}"


def elements(at: Array, length: int) -> Array:
    """The positions of `length` neighbours, on a further axis; of one element, `at` itself."""
    return at[..., None] + np.arange(length) if length else at


# --- checks ---------------------------------------------------------------------------------------


def _initialised(m: Machine, op: Op, buffer: Buffer, at: Array, mask: Mask, length: int) -> None:
    if buffer.written is None:
        return
    bad = ~buffer.written.take(at)
    if length:
        bad = bad.any(-1)
    bad = m.over_lanes(bad if mask is None else bad & mask, bool_)
    if bad.any():
        lane = int(np.argmax(bad))
        touched = np.broadcast_to(at, (m.lanes, length) if length else (m.lanes,))[lane]
        hole = int(np.atleast_1d(touched)[np.argmin(np.atleast_1d(buffer.written[touched]))])
        raise m.fault(
            "E0402",
            f"`{buffer.name}{buffer.element(hole)}` is read before any thread wrote it",
            op,
            [f"in {who(m, lane)}"],
        )


def _enter(m: Machine, op: Op, kind: str, at: Array, mask: Mask, length: int) -> None:
    """Enters the access of threads in the log; raises E0410."""
    if m.buffers[op.args[0]].log is None:
        return
    at = np.broadcast_to(at, (m.lanes, length) if length else (m.lanes,))
    lanes, since = m.number, m.since
    if mask is not None:
        at, lanes, since = at[mask], lanes[mask], since[mask]
    if length:
        at, lanes, since = at.reshape(-1), lanes.repeat(length), since.repeat(length)
    enter(m, m.buffers[op.args[0]], op, kind, at, lanes, since)


def access(m: Machine, op: Op, kind: str, at: Array, mask: Mask) -> None:
    """Checks and logs accesses of each lane to the positions `at`, some for each.

    Raises E0402 for a read of what nobody wrote, and E0410.
    """
    buffer, length = m.buffers[op.args[0]], at.shape[1]
    if kind == "reads":
        _initialised(m, op, buffer, at, mask, length)
    _enter(m, op, kind, at, mask, length)


def enter(
    m: Machine, buffer: Buffer, op: Op, kind: str, at: Array, lanes: Array, since: Array
) -> None:
    """Enters accesses to the positions `at` by the numbered `lanes`; raises E0410."""
    if buffer.log is None:
        return
    m.serial += 1
    m.events[m.serial] = op
    new = Access(kind, op, at, lanes, since, lanes | (m.serial << LANE_BITS))
    clash = buffer.log.take(new)
    if clash is not None:
        _race(m, buffer, new, clash)


def touched(m: Machine, op: Op, buffer: Buffer, kind: str, at: Array, lanes: Array) -> None:
    """Checks that the lanes of the chunk read the flat positions `at`, one each, when they may:
    E0402, E0410."""
    if buffer.written is not None and not buffer.written[at].all():
        first = int(np.argmin(buffer.written[at]))
        raise m.fault(
            "E0402",
            f"`{buffer.name}{buffer.element(int(at[first]))}` is read before any thread wrote it",
            op,
            [f"in {who(m, int(lanes[first]))}"],
        )
    enter(m, buffer, op, kind, at, m.number[lanes], m.since[lanes])


def _race(m: Machine, buffer: Buffer, new: Access, clash: Clash) -> None:
    mine, theirs = int(new.lanes[clash.position]), clash.code & LANE_MASK
    other = m.events[clash.code >> LANE_BITS]
    same = mine // m.parties == theirs // m.parties
    me, they = (_party(m, x) for x in (mine, theirs))
    what = f"`{buffer.name}{buffer.element(int(new.at[clash.position]))}`"
    raise m.fault(
        "E0410",
        f"race on {what}: {me} {new.kind} it, {they} {clash.kind} it, and nothing orders the two",
        new.op,
        [f"{they} {clash.kind} it on line {place(other.loc)}"],
        BARRIER_HELP if same else GROUPS_HELP,
    )


def _party(m: Machine, number: int) -> str:
    group = _group(m, number // m.parties)
    party = number % m.parties
    if m.tiled:
        return f"{'a thread' if party else 'a tile op'} of {group}"
    return f"thread {party} of {group}"


# --- ops ------------------------------------------------------------------------------------------


def _load(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    buffer, length = m.buffers[op.args[0]], op.attr("count")
    at = elements(addresses(m, op, op.args[1:], length, mask), length)
    if buffer.log is not None or buffer.written is not None:
        _initialised(m, op, buffer, at, mask, length)
        _enter(m, op, "reads", at, mask, length)
    return (buffer.read(at),)


def _store(m: Machine, op: Op, mask: Mask) -> tuple[()]:
    buffer, value = m.buffers[op.args[0]], op.args[-1]
    length = count(value.type)
    at = elements(addresses(m, op, op.args[1:-1], length, mask), length)
    _enter(m, op, "writes", at, mask, length)
    at = np.broadcast_to(at, (m.lanes, length) if length else (m.lanes,))
    values = m.spread(value)
    if mask is not None:
        at, values = at[mask], values[mask]
    buffer.write(at, values)
    if buffer.written is not None:
        buffer.written[at] = True
    return ()


def _atomic(m: Machine, op: Op, mask: Mask) -> tuple[Array]:
    """Threads take their turns in order of thread number."""
    buffer, value = m.buffers[op.args[0]], op.args[-1]
    at = np.broadcast_to(addresses(m, op, op.args[1:-1], 0, mask), (m.lanes,))
    _initialised(m, op, buffer, at, mask, 0)
    _enter(m, op, "updates", at, mask, 0)
    active = np.arange(m.lanes) if mask is None else np.flatnonzero(mask)
    combine = _COMBINE[op.attr("kind")]
    old = np.zeros(m.lanes, buffer.data.dtype)
    values = m.spread(value)
    for lane in active:
        old[lane] = buffer.read(at[lane])
        buffer.write(at[lane], combine(old[lane], values[lane]))
    return (old,)


def _shared(m: Machine, op: Op, mask: Mask) -> tuple[None]:
    (result,) = op.results
    m.buffers[result] = group_array(m, result)
    return (None,)


def _table(m: Machine, op: Op, mask: Mask) -> tuple[None]:
    t, (result,) = op.attr("type"), op.results
    data = np.frombuffer(op.attr("data"), t.elem.np)
    m.buffers[result] = Buffer(result.name or "table", t.space, t.shape, data)
    return (None,)


_COMBINE = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _prefetch(m: Machine, op: Op, mask: Mask) -> tuple[()]:
    return ()


HANDLERS = {
    "prefetch": _prefetch,
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "shared": _shared,
    "table": _table,
}
