"""The contract between the runtime and a backend, and the list of backends.

A driver turns a lowered kernel into an executable for its device and launches it. It knows
nothing of calls, Python signatures or tuning; `runtime.launch` is its only caller.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from iron.errors import error
from iron.ir.core import Kernel
from iron.targets.target import Target


@runtime_checkable
class Executable(Protocol):
    """A loaded kernel."""

    def bind(
        self,
        arrays: Mapping[str, Any],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        """A call that runs the kernel over `grid` groups, as fast as the backend can.

        `arrays` maps tensor parameters to the device's own array form (numpy on the host), with
        any signed strides the parameter's type allows. Each call reads their memory afresh; the
        caller keeps it alive. It returns when the work is enqueued in the order of earlier
        launches; a host driver returns when it is done. No group is launched when an extent is 0.
        """
        ...


@runtime_checkable
class Driver(Protocol):
    """A backend on one device; hashable, since executables are kept by driver.

    `name` is the backend's name, `device` the kind of memory its arrays live in (`cpu`, `cuda`).
    One with `stages = True` also takes host arrays, which it copies to its device and back.
    One with `software = True` plays a device on the host's processor.
    """

    name: str
    device: str

    def target(self) -> Target:
        """What kernels are compiled for; raises E0603 with the remedy when there is no device."""
        ...

    def load(self, kernel: Kernel) -> Executable:
        """Compiles a lowered kernel, or finds it in the cache."""
        ...

    def synchronise(self) -> None:
        """Returns when everything launched has finished; faults of the device surface here."""
        ...

    def upload(self, array: np.ndarray[Any, Any]) -> Any:
        """A contiguous copy in the device's own array form, aligned; an argument of kernel calls.

        Its memory is the copy's alone, so a kernel may write it.
        """
        ...

    def download(self, array: Any) -> np.ndarray[Any, Any]:
        """A copy on the host of an array of the device, after everything launched has finished."""
        ...

    def elapsed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        """Runs the calls in order, after all earlier launches; each one's seconds on the device.

        A call is a bound launch, or anything that enqueues work where launches go. The clock is
        the device's own (events around each call); on the host it is the monotonic clock. It
        returns when the last call has finished.
        """
        ...


BACKENDS: dict[str, str] = {
    "interp": "iron.runtime.drivers.interp",
    "cpu": "iron.runtime.drivers.cpu",
    "cuda": "iron.runtime.drivers.cuda",
    "cuda-text": "iron.shims.cuda_text",
    "vulkan": "iron.runtime.drivers.vulkan",
    "hip": "iron.runtime.drivers.hip",
    "metal": "iron.runtime.drivers.metal",
    "hip-text-32": "iron.shims.hip_text:open_wave32",
    "hip-text-64": "iron.shims.hip_text:open_wave64",
    "msl-text": "iron.shims.metal_text",
}
"""Backend names and the modules that provide `open_driver() -> Driver`, or `module:function`."""

_OPEN: dict[str, Driver] = {}


def driver(name: str) -> Driver:
    """The driver called `name`, opened on first use. Errors: E0603."""
    found = _OPEN.get(name)
    if found is None:
        if name not in BACKENDS:
            known = ", ".join(BACKENDS)
            raise error("E0603", f"there is no backend `{name}`", help=f"backends are {known}")
        module, _, function = BACKENDS[name].partition(":")
        opener = getattr(importlib.import_module(module), function or "open_driver")
        found = _OPEN[name] = opener()
    return found
