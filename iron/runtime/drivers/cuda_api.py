"""NVIDIA's driver interface, as far as Iron uses it: every result checked, addresses as ints.

The only file that calls `cuda.bindings.driver`. Tests hand in a module of the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from iron.errors import error
from iron.runtime.drivers.stream_api import Names, StreamApi
from iron.targets.nvidia import EARLY_THREADS, MOST_GROUPS

INSTALL = "pip install 'iron-kernels[cuda]'"
NO_DRIVER = "install NVIDIA's driver, 580 or later"
OLDEST = 13000
"""The driver interface that cuda-bindings 13.0 and code of NVRTC 13.0 need."""

FEW_THREADS = 384
"""Threads a multiprocessor of a launch that may begin while the one before it ends.

A larger one would find some multiprocessors free and others not, and share its groups unevenly: a
matvec of 33 MB took 18 us in place of 13 behind another.
"""

OUTSIDE = ("ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC")
NAMES = Names(
    vendor="CUDA",
    error="CUDA_ERROR_",
    full="OUT_OF_MEMORY",
    outside=OUTSIDE,
    lasting=(*OUTSIDE, "ILLEGAL_INSTRUCTION", "LAUNCH_FAILED", "HARDWARE_STACK_ERROR", "ASSERT"),
    allocate="cuMemAlloc",
    free="cuMemFree",
    send="cuMemcpyHtoD",
    fetch="cuMemcpyDtoH",
    synchronise="cuCtxSynchronize",
    create="cuEventCreate",
    record="cuEventRecord",
    elapsed="cuEventElapsedTime",
    destroy="cuEventDestroy",
)


def bindings() -> ModuleType:
    """`cuda.bindings.driver`. E0603 with the command that installs what is missing."""
    try:
        return import_module("cuda.bindings.driver")
    except ImportError as absent:
        raise error("E0603", f"no module named {absent.name}", help=INSTALL) from None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a device says of itself; `driver` is the version of the driver's interface."""

    name: str
    capability: tuple[int, int]
    memory: int
    processors: int
    driver: str


class Api(StreamApi):
    """One device through its primary context, which PyTorch, CuPy and JAX share."""

    names = NAMES

    def __init__(self, binding: Any, ordinal: int = 0) -> None:
        super().__init__(binding, ordinal, binding.CUresult.CUDA_SUCCESS)
        self._context = self._open()
        early = self._attribute("COMPUTE_CAPABILITY_MAJOR") >= 9
        many = FEW_THREADS * self._attribute("MULTIPROCESSOR_COUNT")
        self.early_threads = early * min(many, EARLY_THREADS)

    # --- opening ----------------------------------------------------------------------------------

    def _open(self) -> Any:
        try:
            result = self.binding.cuInit(0)[0]
        except RuntimeError as absent:
            raise error("E0603", f"NVIDIA's driver is missing: {absent}", help=NO_DRIVER) from None
        if result != self.success:
            raise error("E0603", f"no NVIDIA GPU: {NAMES.of(result)}", help=NO_DRIVER)
        self._version = int(self.call("cuDriverGetVersion"))
        if self._version < OLDEST:
            raise error(
                "E0603", f"NVIDIA's driver runs CUDA {self._spelled()}", help=f"{NO_DRIVER}"
            )
        count = int(self.call("cuDeviceGetCount"))
        if self.ordinal >= count:
            raise error(
                "E0603", f"there are {count} NVIDIA GPUs, and no GPU {self.ordinal}", help=NO_DRIVER
            )
        self._device = self.call("cuDeviceGet", self.ordinal)
        context = self.call("cuDevicePrimaryCtxRetain", self._device)
        self.call("cuCtxSetCurrent", context)
        return context

    def _spelled(self) -> str:
        return f"{self._version // 1000}.{self._version % 1000 // 10}"

    def facts(self) -> Facts:
        """The device's name, compute capability, bytes of memory and multiprocessors."""
        name = self.call("cuDeviceGetName", 128, self._device)
        return Facts(
            bytes(name).split(b"\0")[0].decode(),
            (
                self._attribute("COMPUTE_CAPABILITY_MAJOR"),
                self._attribute("COMPUTE_CAPABILITY_MINOR"),
            ),
            int(self.call("cuDeviceTotalMem", self._device)),
            self._attribute("MULTIPROCESSOR_COUNT"),
            self._spelled(),
        )

    def _attribute(self, name: str) -> int:
        which = getattr(self.binding.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", which, self._device))

    def enter(self) -> None:
        """Makes the device's context current in this thread."""
        self.call("cuCtxSetCurrent", self._context)

    def most_groups(self, threads: int) -> int:
        """The groups that one launch may have, whatever their `threads`."""
        return MOST_GROUPS

    # --- code -------------------------------------------------------------------------------------

    def function(self, code: bytes, symbol: str, shared: int) -> Any:
        """The kernel of a module, in memory; it may ask for `shared` bytes at a launch."""
        self.enter()
        module = self.call("cuModuleLoadData", code)
        function = self.call("cuModuleGetFunction", module, symbol.encode())
        if shared:
            which = (
                self.binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            )
            self.call("cuFuncSetAttribute", function, which, shared)
        return function

    def launcher(
        self,
        function: Any,
        grid: tuple[int, int],
        threads: int,
        shared: int,
        parameters: int,
        stream: Callable[[], int],
    ) -> Callable[[], None]:
        """A launch on the stream that `stream()` names; `parameters` is the packed arguments."""
        launch, success = self.binding.cuLaunchKernelEx, self.success
        known: dict[int, Any] = {}

        def config() -> Any:
            """How it is launched on the stream of now; a stream's is never changed."""
            on = stream()
            found = known.get(on)
            if found is None:
                found = known[on] = self._config(grid, threads, shared, on)
            return found

        def run() -> None:
            (result,) = launch(config(), function, parameters, 0)
            if result != success:
                again(result)

        def again(result: Any) -> None:
            """A thread in which another context is current, or none, gets ours."""
            if NAMES.of(result) not in ("INVALID_CONTEXT", "INVALID_HANDLE"):
                raise self.fault(result, "launch")
            self.enter()
            self.call("cuLaunchKernelEx", config(), function, parameters, 0)

        return run

    def _config(self, grid: tuple[int, int], threads: int, shared: int, stream: int) -> Any:
        made = self.binding.CUlaunchConfig()
        made.gridDimX, made.gridDimY, made.gridDimZ = *grid, 1
        made.blockDimX, made.blockDimY, made.blockDimZ = threads, 1, 1
        made.sharedMemBytes, made.hStream = shared, stream
        if grid[0] * grid[1] * threads <= self.early_threads:
            made.attrs, made.numAttrs = [self._early()], 1
        return made

    def _early(self) -> Any:
        """A launch may begin before the one ahead of it has ended: our kernels wait themselves."""
        made = self.binding.CUlaunchAttribute()
        ids = self.binding.CUlaunchAttributeID
        made.id = ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        made.value.programmaticStreamSerializationAllowed = 1
        return made

    # --- time -------------------------------------------------------------------------------------

    def event(self) -> Any:
        """A new event that keeps time."""
        return self.call(NAMES.create, 0)

    def capturing(self, stream: int) -> bool:
        """True while the stream records a graph."""
        self.enter()
        status = self.call("cuStreamIsCapturing", stream)
        return status != self.binding.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
