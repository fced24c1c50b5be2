"""The HIP driver: kernels as code objects of clang, launched on the caller's stream."""

from __future__ import annotations

from typing import Any

from iron.backends.cuda_code import Code
from iron.backends.hip_code import forms
from iron.ir.core import Kernel
from iron.runtime.cache import Cache
from iron.runtime.drivers.hip_api import Api, bindings
from iron.runtime.drivers.hip_objects import ObjectStore
from iron.runtime.drivers.stream_driver import StreamDriver
from iron.runtime.drivers.stream_launch import Loaded, StreamExecutable
from iron.targets.amd import of_architecture
from iron.targets.target import Target


class HipDriver(StreamDriver[Api]):
    """Compiles for and launches on one AMD GPU."""

    name = "hip"
    device = "hip"

    def __init__(
        self,
        api: Api | None = None,
        cache: Cache | None = None,
        target: Target | None = None,
        store: ObjectStore | None = None,
    ) -> None:
        super().__init__(api)
        self._target = target
        self._store = store or ObjectStore(cache)

    def open(self) -> Api:
        """AMD's driver interface."""
        return Api(bindings())

    def target(self) -> Target:
        """The GPU's target. Raises E0603 when there is no GPU, runtime or clang."""
        if self._target is None:
            self._target = of_architecture(self.api.facts().architecture)
            self._store.ready()
        return self._target

    def facts(self) -> dict[str, Any]:
        """The GPU, its memory in bytes, its compute units, and the version in use."""
        found = self.api.facts()
        return {
            "gpu": found.name,
            "memory": found.memory,
            "processors": found.processors,
            "runtime": f"HIP {found.runtime}",
        }

    def load(self, kernel: Kernel) -> StreamExecutable:
        """The kernel in its forms, each a code object from the cache or of clang."""
        target, api = self.target(), self.api

        def loaded(code: Code) -> Loaded:
            made, facts = self._store.code_object(code, target)
            return Loaded(api.function(made, code.symbol, code.dynamic), facts)

        return StreamExecutable(api, kernel, loaded, forms(kernel))


def open_driver() -> HipDriver:
    """The driver of the first AMD GPU, with the user's cache of compiled code."""
    return HipDriver(cache=Cache())
