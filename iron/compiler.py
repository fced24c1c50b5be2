"""The composition: from a traced kernel to what a backend gets."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from iron.analysis.check import check
from iron.ir.core import Kernel, tiled
from iron.ir.verify import verify
from iron.passes import THREAD_PASSES, Pass, passes_for
from iron.targets.target import Target
from iron.tiles import sm90
from iron.tiles.algebra import sink_scale
from iron.tiles.lower import threads

INTERPRETER = "interpreter"  # the target that runs tiles as they are


def lower(
    kernel: Kernel, target: Target | None = None, seconds: dict[str, float] | None = None
) -> Kernel:
    """`kernel` after every pass of `passes.THREAD_PASSES`, in order, and `tiles` among them.

    A `target` keeps the functions that it approximates itself; without one all become bodies.
    `seconds` is filled with the time that the checks and each pass took. Errors, found before any
    pass: E0312 where threads part before a collective, E0404 for an index that is always outside,
    E0602 for products of simdgroups on a target that has none in the form threads write them, and
    what `analysis.tiles` says of tile kernels. Without a target, and for the interpreter, tiles
    stay as they are.
    """
    spent = {} if seconds is None else seconds
    started = perf_counter()
    check(kernel)
    if target is not None and any(op.name == "simd_mma" for op in kernel.body.walk()):
        target.need("simd_mma", f"`simd_mma` in {kernel.name}")
    source = kernel
    spent["check"] = perf_counter() - started
    for name, run in passes_of(kernel, target):
        started = perf_counter()
        kernel = run(kernel)
        spent[name] = perf_counter() - started
    started = perf_counter()
    verify(kernel)
    spent["verify"] = perf_counter() - started
    return replace(kernel, preferred=preferred(source, target))


def preferred(kernel: Kernel, target: Target | None) -> Kernel | None:
    """What the target's own road makes of a tile kernel that `check` takes; None without one."""
    if target is None or not target.has("sm_90") or not tiled(kernel):
        return None
    (_, fuse), *rest = passes_for(target)
    found = sm90.lower(fuse(sink_scale(kernel)), target)
    if found is None:
        return None
    for _, run in rest:
        found = run(found)
    verify(found)
    return found


def passes_of(kernel: Kernel, target: Target | None = None) -> tuple[tuple[str, Pass], ...]:
    """What `lower` runs, in order: tiles become threads after `fuse`, which is part of their
    meaning, and before what asks for threads. On a target with `fast_products`, positive factors
    sink first."""
    passes = passes_for(target) if target is not None else THREAD_PASSES
    if target is None or target.name == INTERPRETER or not tiled(kernel):
        return passes
    first = [name for name, _ in passes].index("fuse") + 1
    tiles = ("tiles", lambda k: threads(k, target))
    before = (("sink_scale", sink_scale),) if target.has("fast_products") else ()
    return (*before, *passes[:first], tiles, *passes[first:])
