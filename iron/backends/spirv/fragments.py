"""Opaque matrices as SPIR-V, and the group arrays that they come from and go to.

A module with them has the Vulkan memory model: accesses that other threads see say so (`seen` of
their place), and barriers make them visible. Where an array of narrow or wide elements is only
moved by 16 bytes and by matrices, it is an array of vectors of four words, so that the device knows
how its rows are aligned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from iron.analysis.ranges import Ranges, ranges
from iron.backends.spirv import matrix, memory
from iron.backends.spirv.encode import RUN
from iron.backends.spirv.matrix import Layout, Use
from iron.backends.spirv.words import Code
from iron.dtypes import i32
from iron.ir.core import Kernel, Op, Value
from iron.ir.types import Matrix, Tensor, Vector

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder, Rule

OPAQUE = frozenset({"matrix_full", "matrix_load", "matrix_store", "matrix_mma"})
USES = {"a": Use.A, "b": Use.B, "acc": Use.ACCUMULATOR}


def has_matrices(kernel: Kernel) -> bool:
    """Whether a kernel holds opaque matrices."""
    return any(op.name in OPAQUE for op in kernel.body.walk())


def run_arrays(kernel: Kernel) -> frozenset[Value]:
    """The group arrays of a kernel with matrices that are moved by runs of 16 bytes alone."""
    if not has_matrices(kernel):
        return frozenset()
    facts = ranges(kernel)
    arrays = {op.results[0] for op in kernel.body.walk() if op.name == "shared"}
    users = {a: list(_users(kernel, a)) for a in arrays}
    return frozenset(
        a
        for a in arrays
        if any(op.name in OPAQUE for op in users[a]) and all(_by_runs(op, facts) for op in users[a])
    )


def _users(kernel: Kernel, array: Value) -> Iterator[Op]:
    return (op for op in kernel.body.walk() if array in op.args)


def _by_runs(op: Op, facts: Ranges) -> bool:
    """Whether an access begins at a run and takes whole ones."""
    t = op.args[0].type
    assert isinstance(t, Tensor)
    run = RUN // t.elem.bytes
    if t.shape[-1] % run or op.name not in ("load", "store", "matrix_load", "matrix_store"):
        return False
    if op.name in ("load", "store"):
        moved = op.results[0].type if op.name == "load" else op.args[-1].type
        if not isinstance(moved, Vector) or moved.count % run:
            return False
    index = facts.at(op, t.rank)
    return index is not None and index.multiple_of(run)


# --- rules ----------------------------------------------------------------------------------------


def _type(e: Encoder, held: Matrix) -> int:
    return matrix.matrix(e.m, held.elem, held.rows, held.columns, USES[held.use])


def full(e: Encoder, op: Op) -> None:
    """A matrix of copies of a number."""
    m, held = e.m, op.attrs[0]
    value = e.id(op.args[0])
    if held.elem is i32:
        value = m.put(Code.Bitcast, matrix.component(m, i32), value)
    e.set(op, matrix.filled(m, _type(e, held), value))


def load(e: Encoder, op: Op) -> None:
    """A matrix from group memory."""
    held, turned = op.attrs
    pointer, stride = _place(e, op, op.args[1:])
    layout = Layout.COLUMNS if turned else Layout.ROWS
    e.set(op, matrix.load(e.m, _type(e, held), pointer, layout, stride, matrix.SHARED))


def store(e: Encoder, op: Op) -> None:
    """A matrix to group memory."""
    pointer, stride = _place(e, op, op.args[1:-1])
    matrix.store(e.m, pointer, e.id(op.args[-1]), Layout.ROWS, stride, matrix.SHARED)


def _place(e: Encoder, op: Op, indices: tuple[Value, ...]) -> tuple[int, int]:
    """A pointer to the first element, and the distance of rows in elements of the array."""
    array = op.args[0]
    t, place = array.type, e.places[array]
    assert isinstance(t, Tensor)
    at = memory.address(e, array, indices)
    if place.ratio > 1:
        at = memory.word_of(e, place, at)
    return memory.pointer(e, place, at), e.m.number(t.shape[-1] // place.ratio)


def mma(e: Encoder, op: Op) -> None:
    """acc + a b."""
    a, b, acc = (e.id(v) for v in op.args)
    held = op.args[0].type
    assert isinstance(held, Matrix)
    e.set(op, matrix.muladd(e.m, a, b, acc, signed=held.elem.kind == "i"))


RULES: dict[str, Rule] = {
    "matrix_full": full,
    "matrix_load": load,
    "matrix_store": store,
    "matrix_mma": mma,
}
