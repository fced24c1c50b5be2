"""What verification cannot know: threads that part before a collective, indices never inside."""

from __future__ import annotations

from iron.analysis.interval import Range
from iron.analysis.ranges import Ranges, ranges
from iron.analysis.tiles import check_tiles
from iron.analysis.uniform import check_uniform
from iron.errors import KernelError, error
from iron.ir.core import Kernel, Op, tiled
from iron.ir.types import Tensor, count


def check(kernel: Kernel) -> None:
    """Raises E0312 for a collective that some threads miss, E0404 for an index always outside.

    Bounds are decided for arrays whose size the kernel fixes (shared arrays and tables), and for
    negative indices of any tensor. An access that a run may skip counts as well. A tile kernel
    may raise what `check_tiles` says.
    """
    check_uniform(kernel)
    if tiled(kernel):
        check_tiles(kernel)
    facts = ranges(kernel)
    for op in kernel.body.walk():
        if op.name in ("load", "store", "atomic") and (axis := _outside(facts, op)) is not None:
            raise _fault(kernel, op, axis, facts.at(op, 1 + axis))


def _outside(facts: Ranges, op: Op) -> int | None:
    """The axis on which no value of the index lies inside."""
    t = op.args[0].type
    assert isinstance(t, Tensor)
    value = op.results[0] if op.name == "load" else op.args[-1]
    for axis in range(t.rank):
        index = facts.at(op, 1 + axis)
        if index is None:
            continue
        width = max(1, count(value.type)) if axis == t.rank - 1 else 1
        if index.high < 0 or (t.shape and index.low + width > t.shape[axis]):
            return axis
    return None


def _fault(kernel: Kernel, op: Op, axis: int, index: Range | None) -> KernelError:
    t = op.args[0].type
    assert isinstance(t, Tensor)
    assert index is not None
    name = op.args[0].name or "the array"
    size = f"its {t.shape[axis]} elements" if t.shape else "the tensor"
    shown = str(index.low) if index.constant is not None else f"{index.low} to {index.high}"
    return error(
        "E0404",
        f"`{name}`: index {axis} is {shown}, which is outside {size}",
        op.loc,
        kernel.name,
        help="indices run from 0; a negative index does not count from the end",
    )
