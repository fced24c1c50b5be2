"""Passes: each file is one function `Kernel -> Kernel` that keeps the meaning of a kernel.

`fuse` alone changes results (it is the language's contraction), so it runs before everything that
may expose or hide a product, once and for every backend. The others keep each bit, in an order
where each finds what the ones before it left:

fuse        a * b + c in one rounding
unroll      short loops, whose counters become constants
simplify    indices and conditions by ranges; loops of one turn
forward     loads whose value is at hand
hoist       what a loop repeats in vain
select      short branches, after the ones that ranges decide are gone
elementary  bodies in place of functions: late, so that the others see one op for each
dead        what all of them left without a use
"""

from __future__ import annotations

from collections.abc import Callable

from iron.ir.core import Kernel
from iron.passes.dead import dead
from iron.passes.elementary import elementary
from iron.passes.forward import forward
from iron.passes.fuse import fuse
from iron.passes.hoist import hoist
from iron.passes.select import select
from iron.passes.simplify import simplify
from iron.passes.unroll import unroll
from iron.targets.target import Target

Pass = Callable[[Kernel], Kernel]

THREAD_PASSES: tuple[tuple[str, Pass], ...] = (
    ("fuse", fuse),
    ("unroll", unroll),
    ("simplify", simplify),
    ("forward", forward),
    ("hoist", hoist),
    ("select", select),
    ("elementary", elementary),
    ("dead", dead),
)
"""What a thread-level kernel goes through before any backend, in order."""


def passes_for(target: Target) -> tuple[tuple[str, Pass], ...]:
    """`THREAD_PASSES`, in which `elementary` leaves what `target` approximates by itself."""

    def kept(kernel: Kernel) -> Kernel:
        return elementary(kernel, target.approximated)

    return tuple((name, kept if run is elementary else run) for name, run in THREAD_PASSES)
