"""Which parameters a kernel reads and writes, and which output may be the memory of an input."""

from __future__ import annotations

from iron.analysis.accesses import places
from iron.analysis.places import Places, before
from iron.ir.core import Kernel, Param
from iron.ir.table import Trait
from iron.ir.types import Tensor


def reads(kernel: Kernel) -> frozenset[str]:
    """The tensor parameters that are loaded from."""
    return _touched(kernel, Trait.READS)


def writes(kernel: Kernel) -> frozenset[str]:
    """The tensor parameters that are stored to."""
    return _touched(kernel, Trait.WRITES)


def _touched(kernel: Kernel, effect: int) -> frozenset[str]:
    buffers = {
        op.args[op.name == "async_copy" and effect == Trait.READS]
        for op in kernel.body.walk()
        if op.row.has(effect) and op.args
    }
    pairs = zip(kernel.params, kernel.body.params, strict=True)
    return frozenset(p.name for p, v in pairs if v in buffers)


def in_place(kernel: Kernel) -> frozenset[tuple[str, str]]:
    """The pairs (output, input) that may be the same memory, with equal shape and strides.

    A pair is proven when every element is read only by the thread that writes it, and before it
    does so. What cannot be proven is left out.
    """
    found = places(kernel)
    outs, ins = (_tensors(kernel, space) for space in ("out", "in"))
    return frozenset(
        (out.name, given.name)
        for out in outs
        for given in ins
        if _alike(out, given) and _proven(found, out.name, given.name)
    )


def _tensors(kernel: Kernel, space: str) -> list[Param]:
    return [p for p in kernel.params if isinstance(p.type, Tensor) and p.type.space == space]


def _alike(a: Param, b: Param) -> bool:
    x, y = a.type, b.type
    return isinstance(x, Tensor) and isinstance(y, Tensor) and (x.elem, x.rank) == (y.elem, y.rank)


def _proven(found: Places, out: str, given: str) -> bool:
    written, read = found.accesses[out], found.accesses[given]
    if not written or read is None or any(a.op.name != "store" for a in written):
        return False
    return all(
        found.owns(s)
        and all(
            found.apart(r, s) or (found.shared_only_with_itself(r, s) and before(r, s))
            for r in read
        )
        for s in written
    )
