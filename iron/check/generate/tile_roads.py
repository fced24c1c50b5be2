"""The roads of tile programs: passes on tiles, tiles on threads at several widths, and compiled."""

from __future__ import annotations

from dataclasses import replace

from iron.check.generate.agree import Road, interpret
from iron.check.generate.program import Arguments, Program
from iron.ir.core import Kernel
from iron.ir.text import parse_kernel, print_kernel
from iron.passes import THREAD_PASSES
from iron.runtime.drivers.cpu import CpuDriver
from iron.targets.target import Target
from iron.tiles.lower import threads


def kept(kernel: Kernel) -> Kernel:
    """After every pass that keeps each bit."""
    for name, run in THREAD_PASSES:
        kernel = kernel if name == "fuse" else run(kernel)
    return kernel


def printed(program: Program, given: Arguments) -> None:
    """The kernel that its text describes."""
    interpret(parse_kernel(print_kernel(program.kernel)), program, given)


def on_tiles(program: Program, given: Arguments) -> None:
    """Optimised, and still on tiles."""
    interpret(kept(program.kernel), program, given)


def on_threads(simd: int, target: Target | None = None) -> Road:
    """Lowered to threads of a simd width and optimised."""

    def road(program: Program, given: Arguments) -> None:
        lowered = threads(replace(program.kernel, simd=simd), target)
        interpret(kept(lowered), program, given)

    return road


def cpu(program: Program, given: Arguments) -> None:
    """Compiled for this machine."""
    driver = CpuDriver()
    code = driver.load(kept(threads(program.kernel, driver.target())))
    code.bind(given.arrays, given.scalars, given.dims, program.setting.grid)()


TILE_ROADS: dict[str, Road] = {
    "text": printed,
    "tiles": on_tiles,
    "threads of 8": on_threads(8),
    "threads of 32": on_threads(32),
    "cpu": cpu,
}
