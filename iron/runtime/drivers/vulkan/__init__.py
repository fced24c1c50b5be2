"""The Vulkan driver: SPIR-V modules as compute pipelines, on whatever device the loader offers."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iron.backends.forms import forms
from iron.backends.spirv import Encoded, encode
from iron.dtypes import DType
from iron.ir.core import Kernel
from iron.runtime.arrays import Buffer
from iron.runtime.cache import Cache
from iron.runtime.drivers.choice import Choice
from iron.runtime.drivers.vulkan import measure
from iron.runtime.drivers.vulkan.api import open_loader
from iron.runtime.drivers.vulkan.array import download, empty, upload, write
from iron.runtime.drivers.vulkan.device import CPU, Device, Found, Instance, choose, offer
from iron.runtime.drivers.vulkan.launch import Arena, VulkanExecutable
from iron.runtime.drivers.vulkan.matrices import listed, usable
from iron.runtime.drivers.vulkan.memory import Heap
from iron.runtime.drivers.vulkan.pipeline import Pipeline
from iron.runtime.drivers.vulkan.queue import Queue
from iron.runtime.drivers.vulkan.store import PipelineStore
from iron.runtime.drivers.vulkan.validation import Listener
from iron.targets.target import Target

__all__ = ["VulkanDriver", "open_driver"]


class VulkanDriver:
    """Compiles for and launches on one Vulkan device, opened on first use.

    Host arrays are staged; `upload` makes arrays that stay on the device. `listener` turns the
    validation layer on. `direct=False` copies through host buffers even where the host sees the
    device's memory, `push=False` binds through descriptor sets even where descriptors can be
    pushed, and `narrow` takes features away from the target. `cache` keeps compiled pipelines.
    """

    name = "vulkan"
    device = "vulkan"
    stages = True

    def __init__(
        self,
        listener: Listener | None = None,
        *,
        direct: bool | None = None,
        push: bool = True,
        narrow: Callable[[Target], Target] | None = None,
        cache: Cache | None = None,
    ) -> None:
        self._asked = (listener, direct, push, narrow, cache)
        self._opened: _Opened | None = None

    @property
    def opened(self) -> _Opened:
        """The device in use. Raises E0603 with what is missing."""
        if self._opened is None:
            self._opened = _Opened(*self._asked)
        return self._opened

    def target(self) -> Target:
        """The device as a target. Raises E0603 when there is none that will do."""
        return self.opened.target

    @property
    def software(self) -> bool:
        """True when the device is the host's processor."""
        return self.opened.found.kind == CPU

    def facts(self) -> dict[str, Any]:
        """The device, its memory in bytes, and its driver."""
        found = self.opened.found
        return {
            "device": found.name,
            "driver": f"{found.driver}, Vulkan {self.opened.target.triple}",
            "memory": self.opened.heap.bytes,
        }

    def load(self, kernel: Kernel) -> VulkanExecutable:
        """The kernel as a pipeline. Raises E0602 for a feature that the device lacks."""
        return self.opened.load(kernel)

    def synchronise(self) -> None:
        """Returns when everything launched has finished."""
        if self._opened is not None:
            self._opened.queue.wait()

    def upload(self, array: np.ndarray[Any, Any]) -> Buffer:
        """A contiguous copy on the device, aligned to 256 bytes."""
        return upload(self.opened.heap, array)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """New memory of the device, uninitialised."""
        return empty(self.opened.heap, shape, dtype)

    def write(self, array: Buffer, values: np.ndarray[Any, Any]) -> None:
        """Sets the elements of a contiguous array, after everything launched has finished."""
        write(array, values)

    def download(self, array: Buffer) -> np.ndarray[Any, Any]:
        """A copy on the host, after everything launched has finished."""
        return download(array)

    def elapsed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        """The seconds each call took on the device, by timestamps before and after it."""
        return self.opened.queue.elapsed(calls)

    def close(self) -> None:
        """Ends the use of the device; the next call opens it again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class _Opened:
    """A device with its queue and memory, and the target that was measured on it."""

    def __init__(
        self,
        listener: Listener | None,
        direct: bool | None,
        push: bool,
        narrow: Callable[[Target], Target] | None,
        cache: Cache | None,
    ) -> None:
        _keep_widths_apart()
        self.instance = Instance(open_loader(), listener)
        try:
            self.found: Found = choose(self.instance.devices())
            offered = offer(self.found)
            atoms = usable(listed(self.instance, self.found), offered)
            offered = replace(offered, matrices=atoms)
            self.device = Device(self.instance, self.found, push=push)
        except BaseException:
            self.instance.close()
            raise
        self.queue = Queue(self.device)
        unified = self.found.unified if direct is None else direct
        self.heap = Heap(self.device, self.queue, unified)
        self.arena = Arena(self.heap)
        self.store = PipelineStore(self.device, cache)
        _OPEN.add(self)
        try:
            self.target = self._measured(offered)
        except BaseException:
            self.close()
            raise
        if narrow is not None:
            self.target = narrow(self.target)

    def _measured(self, offered: Target) -> Target:
        """The target with what the device was seen to do. E0603 when its lanes are not as said."""

        def trial(target: Target) -> measure.Run:
            self.target = target
            return self._run

        folds = replace(offered, features=offered.features | {"folds_groups"})
        return measure.measured(folds, trial)

    def _run(self, kernel: Kernel, arrays: dict[str, Any], groups: int) -> None:
        self.load(kernel).bind(arrays, {}, {}, (groups,))()

    def load(self, kernel: Kernel) -> VulkanExecutable:
        """A lowered kernel; what the device lacks for it is found when its first form is made."""
        target = self.target
        choice = Choice(forms(kernel, lambda body, wide: encode(body, target, wide)))
        choice.form(0)

        def pipeline(code: Encoded) -> Pipeline:
            return Pipeline(self.device, code, self.store)

        return VulkanExecutable(kernel, choice, pipeline, self.heap, self.arena)

    def close(self) -> None:
        """Destroys everything, the instance last."""
        if self in _OPEN:
            _OPEN.discard(self)
            self.queue.wait()
            self.device.close()
            self.instance.close()


_OPEN: weakref.WeakSet[_Opened] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Without it some layers abort the process when it ends."""
    for opened in list(_OPEN):
        opened.close()


def _keep_widths_apart() -> None:
    """Mesa's shader cache does not see the lane width that LP_NATIVE_VECTOR_WIDTH asks for."""
    if sys.platform == "linux" and "LP_NATIVE_VECTOR_WIDTH" in os.environ:
        os.environ.setdefault("MESA_SHADER_CACHE_DISABLE", "true")


def open_driver() -> VulkanDriver:
    """The driver of this machine's first Vulkan device, with the user's cache of compiled code."""
    return VulkanDriver(cache=Cache())
