"""Agreement of roads: what a program leaves in memory, compared bit for bit.

All NaNs count as one. The reference road interprets the kernel exactly as it was built; every
other road starts from the same kernel and may rewrite or compile it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from iron.analysis.uniform import check_uniform
from iron.check.generate.program import Arguments, Program, arguments
from iron.elementary import STRAIGHT
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.ir.interp import run
from iron.ir.rebuild import rebuild
from iron.ir.table import Trait
from iron.ir.text import parse_kernel, print_kernel
from iron.ir.verify import verify
from iron.passes import THREAD_PASSES
from iron.passes.scalarise import scalarise
from iron.runtime.device import report
from iron.runtime.driver import driver
from iron.runtime.drivers.cpu import CpuDriver

Array = np.ndarray[Any, Any]
Road = Callable[[Program, Arguments], None]


@dataclass(frozen=True, slots=True)
class Difference:
    """A road that went wrong: `kind` is `values` or the name of an exception."""

    road: str
    kind: str
    detail: str


def interpret(kernel: Kernel, program: Program, given: Arguments) -> None:
    """Verifies and runs `kernel` in the program's setting, writing the arguments in place."""
    verify(kernel)
    run(kernel, given.arrays, given.scalars, given.dims, program.setting.grid)


def plain(program: Program) -> Kernel:
    """The kernel as it was built; elementary functions become their bodies, nothing is folded.

    The bodies are those without branches, which mean the same as the branching ones.
    """
    if any(op.row.has(Trait.EXPANDED) for op in program.kernel.body.walk()):
        return rebuild(program.kernel, STRAIGHT, fold=False)
    return program.kernel


def optimised(program: Program) -> Kernel:
    """The kernel after every pass that keeps each bit."""
    kernel = rebuild(program.kernel)
    for name, run_pass in THREAD_PASSES:
        kernel = kernel if name == "fuse" else run_pass(kernel)
    return kernel


def reference(program: Program, given: Arguments) -> None:
    """The plain kernel, interpreted."""
    verify(program.kernel)
    interpret(plain(program), program, given)


def folded(program: Program, given: Arguments) -> None:
    """Emitted anew with folding and value numbering, without what is unused."""
    interpret(optimised(program), program, given)


def printed(program: Program, given: Arguments) -> None:
    """The kernel that its text describes."""
    text = print_kernel(program.kernel)
    again = Program(parse_kernel(text), program.setting)
    if print_kernel(again.kernel) != text:
        raise AssertionError("the text of the parsed kernel differs")
    interpret(plain(again), program, given)


def scalars(program: Program, given: Arguments) -> None:
    """The kernel with its vectors taken apart."""
    interpret(scalarise(optimised(program)), program, given)


def cpu(program: Program, given: Arguments) -> None:
    """Compiled for this machine."""
    code = CpuDriver().load(lowered(program))
    code.bind(given.arrays, given.scalars, given.dims, program.setting.grid)()


def vulkan(program: Program, given: Arguments) -> None:
    """As a SPIR-V module on this machine's Vulkan device."""
    code = driver("vulkan").load(lowered(program))
    code.bind(given.arrays, given.scalars, given.dims, program.setting.grid)()


TEXTS = ("cuda-text", "hip-text-32", "hip-text-64", "msl-text")
"""Backends that run generated text."""


def on_text(name: str) -> Road:
    """Rendered, compiled as C++ and run on fibres."""

    def road(program: Program, given: Arguments) -> None:
        code = driver(name).load(lowered(program))
        code.bind(given.arrays, given.scalars, given.dims, program.setting.grid)()

    return road


ROADS: dict[str, Road] = {"fold": folded, "text": printed, "scalar": scalars, "cpu": cpu}
DEVICE_ROADS: dict[str, Road] = {"vulkan": vulkan, **{name: on_text(name) for name in TEXTS}}
"""Roads that need a device or a compiler which a machine may lack."""


def every_road() -> dict[str, Road]:
    """The roads that this machine can go."""
    return ROADS | {name: road for name, road in DEVICE_ROADS.items() if report(name).ready}


BATCH = 20  # programs that a text backend compiles at once
_LOWERED: WeakKeyDictionary[Kernel, Kernel] = WeakKeyDictionary()


def lowered(program: Program) -> Kernel:
    """What backends compile: the kernel as built for even seeds, optimised for odd ones."""
    if program.kernel not in _LOWERED:
        kernel = optimised(program) if program.setting.seed % 2 else plain(program)
        check_uniform(kernel)
        _LOWERED[program.kernel] = kernel
    return _LOWERED[program.kernel]


def prepare(programs: Iterable[Program], roads: Iterable[str]) -> None:
    """Compiles the programs for the text backends among `roads`, many at once.

    A program that cannot be compiled is left to its own turn, whose error names it.
    """
    texts = [driver(name) for name in roads if name in TEXTS]
    kernels = [lowered(p) for p in programs] if texts else []
    for opened in texts:
        ahead = getattr(opened, "prepare", None)
        if ahead is not None:
            with suppress(KernelError):
                ahead(kernels)


def agree(program: Program, roads: Mapping[str, Road] | None = None) -> list[Difference]:
    """Where the roads differ from the reference; empty when all agree.

    An error of the reference road itself is raised: the program is not legal.
    """
    want = arguments(program)
    reference(program, want)
    out: list[Difference] = []
    for name, road in (ROADS if roads is None else roads).items():
        have = arguments(program)
        try:
            road(program, have)
        except Exception as problem:
            out.append(Difference(name, type(problem).__name__, str(problem)))
            continue
        detail = unlike(want.arrays, have.arrays)
        if detail:
            out.append(Difference(name, "values", detail))
    return out


def unlike(want: Mapping[str, Array], have: Mapping[str, Array]) -> str:
    """The first element whose bits differ, as text; empty when there is none."""
    for name, a in want.items():
        b = have[name]
        bad = ~(same_bits(a, b))
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return f"{name}{list(at)}: {a[at]!r} by the reference, {b[at]!r} here"
    return ""


def same_bits(a: Array, b: Array) -> Array:
    """Elementwise equality of bits, where all NaNs are one."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    equal = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    return equal | ((a != a) & (b != b))
