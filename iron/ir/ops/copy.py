"""Copies that threads start and do not wait for: from a tensor to group memory.

They are ops of threads, made by `iron.tiles` for targets that have them. A thread's copies are
closed into groups, and it waits for all but the last few groups.
"""

from collections.abc import Sequence
from typing import Any

from iron.dtypes import DType
from iron.ir.core import Block, Value
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import Tensor, Type

BYTES = 16
"""Bytes that one copy moves."""


ONCE = (1, 0, 0, 0)
"""A copy that is not repeated."""


def _tensor(value: Value, space: str) -> Tensor:
    t = value.type
    if not isinstance(t, Tensor) or t.space != space:
        raise OpTypeError(f"copies from a read-only tensor to group memory, got {t}")
    return t


def _copy(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    to, source = _tensor(args[0], "shared"), _tensor(args[1], "in")
    times, _, axis, _ = attrs[1]
    if times < 1 or not 0 <= axis < source.rank or (times > 1 and to.rank < 2):
        raise OpTypeError(f"no {times} copies along axis {axis} of a tensor of rank {source.rank}")
    if to.elem is not source.elem or attrs[0] * to.elem.bytes != BYTES:
        raise OpTypeError(f"copies {BYTES} bytes, not {attrs[0]} of {source.elem} as {to.elem}")
    if len(args) != 2 + to.rank + source.rank:
        raise OpTypeError(f"{to.rank} and {source.rank} axes but {len(args) - 2} indices")
    for index in args[2:]:
        if not isinstance(index.type, DType) or not index.type.is_integer:
            raise OpTypeError(f"an index is an integer scalar, got {index.type}")
    return ()


def _nothing(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    return ()


def places(args: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
    """The indices of an `async_copy` in group memory, and those in the tensor."""
    to = args[0].type
    assert isinstance(to, Tensor)
    return args[2 : 2 + to.rank], args[2 + to.rank :]


async_copy = defop(
    "async_copy",
    "to source place*",
    attrs="count runs",
    defaults=(ONCE,),
    infer=_copy,
    traits=Trait.READS | Trait.WRITES,
    doc="Starts to copy `count` neighbours along the last axis, 16 bytes, from `source` (its "
    "indices last) to group memory (its indices first). They are there once this thread has waited "
    "for the copy's group, and no sooner may anyone touch either end. `runs` (times, rows, axis, "
    "along) copies so many times, each `rows` further along the axis before the last of group "
    "memory and `along` further along `axis` of the source.",
)
async_commit = defop(
    "async_commit",
    infer=_nothing,
    traits=Trait.WRITES | Trait.COLLECTIVE,
    doc="Closes a group of the copies that this thread started since the last; it may be empty.",
)
async_wait = defop(
    "async_wait",
    attrs="pending",
    infer=_nothing,
    traits=Trait.WRITES | Trait.COLLECTIVE,
    doc="Waits until at most the last `pending` of this thread's groups of copies are under way. "
    "Other threads see what was copied after a `barrier` that follows.",
)
