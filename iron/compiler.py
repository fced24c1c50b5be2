"""The composition: from a traced kernel to what a backend gets, as one ordered list of passes."""

from __future__ import annotations

from collections.abc import Callable

from iron.analysis.uniform import check_uniform
from iron.ir.core import Kernel
from iron.ir.verify import verify
from iron.passes.dead import dead
from iron.passes.elementary import elementary
from iron.passes.fuse import fuse

Pass = Callable[[Kernel], Kernel]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("elementary", elementary),  # first: the bodies' own products and sums must not be fused later
    ("fuse", fuse),  # part of the meaning, so every backend and the interpreter see it
    ("dead", dead),  # last: what the others left without a use
)
"""Every pass in order; each entry says why it stands where it does."""


def lower(kernel: Kernel) -> Kernel:
    """`kernel` after every pass. Errors: E0312 where threads part before a collective."""
    check_uniform(kernel)
    for _, run in PASSES:
        kernel = run(kernel)
    verify(kernel)
    return kernel
