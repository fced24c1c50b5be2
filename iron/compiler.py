"""The composition: from a traced kernel to what a backend gets."""

from __future__ import annotations

from time import perf_counter

from iron.analysis.check import check
from iron.errors import error
from iron.ir.core import Kernel, tiled
from iron.ir.verify import verify
from iron.passes import THREAD_PASSES, passes_for
from iron.targets.target import Target

INTERPRETER = "interpreter"  # the target that runs tiles as they are


def lower(
    kernel: Kernel, target: Target | None = None, seconds: dict[str, float] | None = None
) -> Kernel:
    """`kernel` after every pass of `passes.THREAD_PASSES`, in order.

    A `target` keeps the functions that it approximates itself; without one all become bodies.
    `seconds` is filled with the time that the checks and each pass took. Errors, found before any
    pass: E0312 where threads part before a collective, E0404 for an index that is always outside,
    what `analysis.tiles` says of tile kernels, and E0602 for one on a target without tiles.
    """
    if target is not None and target.name != INTERPRETER and tiled(kernel):
        raise error(
            "E0602",
            f"tile kernels do not run on {target.name}",
            kernel=kernel.name,
            help="run it on the interpreter: `with iron.use('interp'):`",
        )
    spent = {} if seconds is None else seconds
    started = perf_counter()
    check(kernel)
    spent["check"] = perf_counter() - started
    for name, run in passes_for(target) if target is not None else THREAD_PASSES:
        started = perf_counter()
        kernel = run(kernel)
        spent[name] = perf_counter() - started
    started = perf_counter()
    verify(kernel)
    spent["verify"] = perf_counter() - started
    return kernel
