"""The CUDA driver: kernels as cubins of NVRTC, launched on the caller's stream."""

from __future__ import annotations

from typing import Any

from iron.backends import nvrtc
from iron.backends.cuda_code import Code
from iron.backends.cuda_forms import forms
from iron.ir.core import Kernel
from iron.runtime.cache import Cache
from iron.runtime.drivers.cuda_api import Api, bindings
from iron.runtime.drivers.cuda_cubins import CubinStore
from iron.runtime.drivers.cuda_maps import Maps
from iron.runtime.drivers.stream_driver import StreamDriver
from iron.runtime.drivers.stream_launch import Loaded, StreamExecutable
from iron.targets.nvidia import of_capability
from iron.targets.target import Target


class CudaDriver(StreamDriver[Api]):
    """Compiles for and launches on one NVIDIA GPU."""

    name = "cuda"
    device = "cuda"

    def __init__(
        self, api: Api | None = None, cache: Cache | None = None, target: Target | None = None
    ) -> None:
        super().__init__(api)
        self._target = target
        self._store = CubinStore(cache)
        self._maps: Maps | None = None

    def open(self) -> Api:
        """NVIDIA's driver interface."""
        return Api(bindings())

    def target(self) -> Target:
        """The GPU's target. Raises E0603 when there is no GPU, driver or NVRTC."""
        if self._target is None:
            self._target = of_capability(*self.api.facts().capability)
            self._store.ready()
        return self._target

    def facts(self) -> dict[str, Any]:
        """The GPU, its memory in bytes, its multiprocessors, and the versions in use."""
        found = self.api.facts()
        return {
            "gpu": found.name,
            "memory": found.memory,
            "processors": found.processors,
            "driver": f"CUDA {found.driver}",
            "nvrtc": nvrtc.version(),
        }

    def load(self, kernel: Kernel) -> StreamExecutable:
        """The kernel in its forms, each a cubin from the cache or of NVRTC."""
        target, api = self.target(), self.api

        def loaded(code: Code) -> Loaded:
            cubin, facts = self._store.cubin(code, target)
            return Loaded(api.function(cubin, code.symbol, code.dynamic), facts)

        if self._maps is None:
            self._maps = Maps(api)
        return StreamExecutable(api, kernel, loaded, forms(kernel), self._maps.map)


def open_driver() -> CudaDriver:
    """The driver of the first NVIDIA GPU, with the user's cache of compiled code."""
    return CudaDriver(cache=Cache())
