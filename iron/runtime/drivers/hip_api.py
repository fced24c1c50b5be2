"""AMD's driver interface, as far as Iron uses it: every result checked, addresses as ints.

The only file that calls `hip.hip` of hip-python. Tests hand in a module of the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from iron.errors import KernelError, error
from iron.runtime.drivers.stream_api import Names, StreamApi
from iron.targets.amd import MOST_THREADS_OF_A_LAUNCH

INSTALL = "pip install 'iron-kernels[hip]'"
NO_RUNTIME = "install AMD's ROCm runtime, 6.0 or later (the library libamdhip64)"
NO_GPU = "the kernel driver amdgpu must be loaded, and the user in the groups render and video"
BINDINGS = 10
"""The hip-python whose functions return all that HIP writes; 7 takes places for it."""
OLDEST = 60_000_000
"""HIP 6.0, the first runtime whose device properties hip-python 10 reads."""

OUTSIDE = ("IllegalAddress",)
NAMES = Names(
    vendor="HIP",
    error="hipError",
    full="OutOfMemory",
    outside=OUTSIDE,
    lasting=(*OUTSIDE, "LaunchFailure", "Assert", "ECCNotCorrectable", "IllegalState"),
    allocate="hipMalloc",
    free="hipFree",
    send="hipMemcpyHtoD",
    fetch="hipMemcpyDtoH",
    synchronise="hipDeviceSynchronize",
    create="hipEventCreate",
    record="hipEventRecord",
    elapsed="hipEventElapsedTime",
    destroy="hipEventDestroy",
)


def bindings() -> Any:
    """`hip.hip` of hip-python. E0603 with the command that installs what is missing."""
    try:
        found = import_module("hip")
    except ImportError as absent:
        raise error("E0603", f"no module named {absent.name}", help=INSTALL) from None
    binding = getattr(found, "hip", None)
    if not hasattr(binding, "hipModuleLaunchKernel"):
        raise error("E0603", "the module `hip` is not that of hip-python", help=INSTALL)
    version = str(getattr(found, "__version__", ""))
    if version.partition(".")[0].isdigit() and int(version.partition(".")[0]) < BINDINGS:
        message = f"hip-python {version} is older than {BINDINGS}"
        raise error("E0603", message, help=f"{INSTALL} --upgrade")
    return binding


@dataclass(frozen=True, slots=True)
class Facts:
    """What a device says of itself; `architecture` is LLVM's name, `runtime` HIP's version."""

    name: str
    architecture: str
    memory: int
    processors: int
    runtime: str


class Api(StreamApi):
    """One device; HIP has one context for each device and process, which PyTorch shares."""

    names = NAMES

    def __init__(self, binding: Any, ordinal: int = 0) -> None:
        super().__init__(binding, ordinal, binding.hipError_t.hipSuccess)
        self._images: list[bytes] = []
        self._open()

    # --- opening ----------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            (result,) = self.binding.hipInit(0)
        except RuntimeError as absent:  # hip-python opens the library at the first call
            raise error("E0603", f"HIP's library is missing: {absent}", help=NO_RUNTIME) from None
        if result != self.success:
            raise error("E0603", f"no AMD GPU: {NAMES.of(result)}", help=NO_GPU)
        self._version = int(self.call("hipRuntimeGetVersion"))
        if self._version < OLDEST:
            raise error("E0603", f"the runtime is HIP {self._spelled()}", help=NO_RUNTIME)
        count = int(self.call("hipGetDeviceCount"))
        if self.ordinal >= count:
            found = f"there are {count} AMD GPUs, and no GPU {self.ordinal}"
            raise error("E0603", found, help=NO_GPU)
        self.enter()

    def _spelled(self) -> str:
        return f"{self._version // 10_000_000}.{self._version // 100_000 % 100}"

    def facts(self) -> Facts:
        """The device's name, architecture, bytes of memory and compute units."""
        found = self.call("hipGetDeviceProperties", self.ordinal)
        return Facts(
            _text(found.name),
            _text(found.gcnArchName).partition(":")[0],
            int(found.totalGlobalMem),
            int(found.multiProcessorCount),
            self._spelled(),
        )

    def enter(self) -> None:
        """Makes the device the one of this thread."""
        self.call("hipSetDevice", self.ordinal)

    def fault(self, result: Any, what: str) -> KernelError:
        """What a failed call means for the user."""
        if NAMES.of(result) == "NoBinaryForGpu":
            return error("E0901", f"{what}: the code object is of another GPU")
        return super().fault(result, what)

    # --- code -------------------------------------------------------------------------------------

    def most_groups(self, threads: int) -> int:
        """The groups of `threads` that one launch may have: its threads are a number of 32 bits."""
        return MOST_THREADS_OF_A_LAUNCH // threads

    def function(self, code: bytes, symbol: str, shared: int) -> Any:
        """The kernel of a code object, in memory. Group memory is declared in it, so no `shared`.

        The code object stays alive: the runtime may read it as late as the first launch.
        """
        assert not shared
        self.enter()
        self._images.append(code)
        module = self.call("hipModuleLoadData", code)
        return self.call("hipModuleGetFunction", module, symbol.encode())

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
        launch, success = self.binding.hipModuleLaunchKernel, self.success
        x, y = grid

        def run() -> None:
            (result,) = launch(function, x, y, 1, threads, 1, 1, shared, stream(), parameters, None)
            if result != success:
                again(result)

        def again(result: Any) -> None:
            """A thread in which another device is current gets ours."""
            if NAMES.of(result) not in ("InvalidContext", "InvalidHandle", "InvalidDevice"):
                raise self.fault(result, "launch")
            self.enter()
            args = (x, y, 1, threads, 1, 1, shared, stream(), parameters, None)
            self.call("hipModuleLaunchKernel", function, *args)

        return run


def _text(name: Any) -> str:
    return name.split(b"\0")[0].decode() if isinstance(name, bytes) else str(name)
