"""The interpreter as a backend: the meaning of the language, with every check on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from iron.ir import interp
from iron.ir.core import Kernel
from iron.runtime.drivers.host import HostDriver
from iron.targets.target import Target


@dataclass(frozen=True, slots=True)
class Interpreted:
    """A kernel that is run by the interpreter."""

    kernel: Kernel

    def bind(
        self,
        arrays: Mapping[str, Any],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        """A call that runs every group; it raises the first fault with the user's lines."""
        partial = frozenset(p.name for p in self.kernel.params if p.partial)

        def run() -> None:
            if 0 not in grid:
                interp.run(self.kernel, arrays, scalars, dims, grid, partial=partial)

        return run


@dataclass(slots=True, eq=False)
class InterpreterDriver(HostDriver):
    """The interpreter at one simd width."""

    simd: int = 32
    name: str = "interp"
    device: str = "cpu"

    def target(self) -> Target:
        """A machine without limits that matter."""
        features = frozenset({"simd_mma"})
        return Target("interpreter", "cpu", self.simd, 1024, 1 << 20, features)

    def load(self, kernel: Kernel) -> Interpreted:
        """Nothing to compile."""
        return Interpreted(kernel)


def open_driver() -> InterpreterDriver:
    """The interpreter at the width every backend's tests share."""
    return InterpreterDriver()
