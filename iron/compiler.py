"""The composition: from a traced kernel to what a backend gets."""

from __future__ import annotations

from iron.analysis.check import check
from iron.ir.core import Kernel
from iron.ir.verify import verify
from iron.passes import THREAD_PASSES


def lower(kernel: Kernel) -> Kernel:
    """`kernel` after every pass of `passes.THREAD_PASSES`, in order.

    Errors, found before any pass: E0312 where threads part before a collective, E0404 for an index
    that is always outside.
    """
    check(kernel)
    for _, run in THREAD_PASSES:
        kernel = run(kernel)
    verify(kernel)
    return kernel
