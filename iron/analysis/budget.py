"""What a group holds against what a target has: refused with the sum shown, never spilt."""

from __future__ import annotations

from math import prod

from iron.errors import error
from iron.ir.core import Kernel, Op
from iron.ir.types import Tensor
from iron.targets.target import Target


def shared_arrays(kernel: Kernel) -> list[tuple[Op, int]]:
    """Every array of group memory and its bytes."""
    found: list[tuple[Op, int]] = []
    for op in kernel.body.walk():
        if op.name in ("shared", "slots", "ring"):
            held = [r.type for r in op.results if isinstance(r.type, Tensor)]
            found.append((op, sum(prod(t.shape) * t.elem.bytes for t in held)))
    return found


def shared_bytes(kernel: Kernel) -> int:
    """Bytes of group memory that a launch holds for each group."""
    return sum(size for _, size in shared_arrays(kernel))


def check_budget(kernel: Kernel, target: Target) -> None:
    """Raises E0501 when the group memory of `kernel` does not fit `target`, with each array."""
    arrays = shared_arrays(kernel)
    total = sum(size for _, size in arrays)
    if total <= target.shared_bytes:
        return
    notes = [
        f"{op.results[0].name or 'an array'}: {op.results[0].type}, {size} bytes"
        for op, size in arrays
    ]
    raise error(
        "E0501",
        f"a group holds {total} bytes of group memory; {target.name} has {target.shared_bytes}",
        max(arrays, key=lambda held: held[1])[0].loc,
        kernel.name,
        tuple(notes),
        "use smaller tiles, or share one array between phases that do not overlap",
    )
