"""A stand-in for `hip.hip` of hip-python 10: host memory, handles that are checked, calls recorded.

It knows the functions that Iron calls, with the names of their parameters, and no others; a wrong
handle, a freed address or a copy beyond an allocation raises in the test. A launch runs the text
that the code object was made of on fibres.
"""

from __future__ import annotations

import ctypes
import time
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

from iron.backends.clike.render import Text
from iron.backends.cuda_code import Code
from iron.dtypes import u64
from iron.runtime.cache import Cache
from iron.runtime.drivers.hip import HipDriver
from iron.runtime.drivers.hip_api import Api
from iron.runtime.drivers.hip_objects import ObjectStore
from iron.shims.hip_text import WORDS
from iron.targets.amd import of_architecture
from iron.targets.target import Target
from tests.contract.fibre_player import Player


class hipError_t(IntEnum):
    """Values of HIP's header; of two names for one value, the first."""

    hipSuccess = 0
    hipErrorOutOfMemory = 2
    hipErrorNoDevice = 100
    hipErrorInvalidDevice = 101
    hipErrorNoBinaryForGpu = 209
    hipErrorInvalidHandle = 400
    hipErrorNotFound = 500
    hipErrorIllegalAddress = 700
    hipErrorStreamCaptureUnsupported = 900


OK = hipError_t.hipSuccess
Result = tuple[Any, ...]


class Pointer:
    """What hip-python returns for a pointer: an object that is an address by `int`."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __int__(self) -> int:
        return self.address


def pointer(x: Any) -> int:
    """An argument that hip-python takes as a pointer."""
    if x is None:
        return 0
    if isinstance(x, Pointer | int):
        return int(x)
    raise TypeError(f"unsupported input type: '{type(x)}'")


class FakeHip:
    """One GPU; `texts` gives what each code object was made of."""

    def __init__(
        self,
        architecture: str = "gfx942:sramecc+:xnack-",
        version: int = 70_200_000,
        devices: int = 1,
        memory: int = 1 << 30,
    ) -> None:
        self.hipError_t = hipError_t
        self.architecture, self.version = architecture, version
        self.devices, self.memory = devices, memory
        self.texts: dict[bytes, Text] = {}
        self.calls: list[str] = []
        self.launches: list[SimpleNamespace] = []
        self.held: dict[int, Any] = {}
        self.handles: list[Any] = []
        self.device: int | None = None
        self.pending = OK
        self.capturing = False
        self.missing = ""
        target = of_architecture(architecture.partition(":")[0])
        self.player = Player(WORDS[target.simd], target.simd)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("hip"):
            raise AssertionError(f"hip-python has no {name}, as far as this fake knows")
        raise AttributeError(name)

    def _note(self, name: str, *, waits: bool = False) -> None:
        self.calls.append(name)
        assert not (waits and self.capturing), f"{name} inside a graph capture"

    def _inside(self, address: int, size: int) -> None:
        homes = [a for a, m in self.held.items() if a <= address and address + size <= a + len(m)]
        assert homes, f"{size} bytes at {address:#x} are not in one live allocation"

    def _said(self) -> hipError_t:
        found, self.pending = self.pending, OK
        return found

    # --- device ---

    def hipInit(self, flags: int) -> Result:
        self._note("hipInit")
        if self.missing:
            raise RuntimeError(self.missing)
        return (OK if self.devices else hipError_t.hipErrorNoDevice,)

    def hipRuntimeGetVersion(self) -> Result:
        return OK, self.version

    def hipGetDeviceCount(self) -> Result:
        return OK, self.devices

    def hipSetDevice(self, deviceId: int) -> Result:
        assert 0 <= deviceId < self.devices
        self.device = deviceId
        return (OK,)

    def hipGetDeviceProperties(self, deviceId: int) -> Result:
        assert 0 <= deviceId < self.devices
        told = {"name": "Fake GPU", "gcnArchName": self.architecture}
        return OK, SimpleNamespace(**told, totalGlobalMem=self.memory, multiProcessorCount=304)

    def hipDeviceSynchronize(self) -> Result:
        self._note("hipDeviceSynchronize", waits=True)
        return (self._said(),)

    # --- code ---

    def hipModuleLoadData(self, image: bytes) -> Result:
        self._note("hipModuleLoadData", waits=True)
        assert isinstance(image, bytes)
        if image not in self.texts:
            return hipError_t.hipErrorNoBinaryForGpu, None
        self.handles.append(("module", self.texts[image]))
        return OK, self.handles[-1]

    def hipModuleGetFunction(self, module: Any, kname: bytes) -> Result:
        assert module in self.handles, "a module that was never loaded"
        if module[1].symbol.encode() != kname:
            return hipError_t.hipErrorNotFound, None
        self.handles.append(("function", module[1]))
        return OK, self.handles[-1]

    def hipModuleLaunchKernel(
        self, f: Any, gridDimX: int, gridDimY: int, gridDimZ: int, blockDimX: int, blockDimY: int,
        blockDimZ: int, sharedMemBytes: int, stream: Any, kernelParams: Any, extra: Any,
    ) -> Result:  # fmt: skip
        self._note("hipModuleLaunchKernel")
        assert f in self.handles, "a function that was never found"
        assert f[0] == "function"
        assert gridDimY == gridDimZ == blockDimY == blockDimZ == 1
        assert 0 < blockDimX <= 1024
        assert 0 < gridDimX * blockDimX < 1 << 32
        assert extra is None
        if self.device is None:
            return (hipError_t.hipErrorInvalidDevice,)
        if self.pending:
            return (self._said(),)
        text, slots = f[1], (ctypes.c_void_p * 64).from_address(pointer(kernelParams))
        words = [
            int.from_bytes(
                ctypes.string_at(slots[n], (u64 if a.pointer else a.dtype).bytes), "little"
            )
            for n, a in enumerate(text.arguments)
        ]
        launch = SimpleNamespace(
            symbol=text.symbol, groups=gridDimX, threads=blockDimX, stream=pointer(stream),
            shared=sharedMemBytes, words=words,
        )  # fmt: skip
        self.launches.append(launch)
        if not self.capturing and not self._runs(text, words, gridDimX, blockDimX):
            self.pending = hipError_t.hipErrorIllegalAddress
        return (OK,)

    def _runs(self, text: Text, words: list[int], groups: int, threads: int) -> bool:
        """Runs a launch whose tensors all begin in live memory; whether it stayed inside."""
        for a, at in zip(text.arguments, words, strict=True):
            if a.pointer and not any(m <= at <= m + len(held) for m, held in self.held.items()):
                return False
        return self.player.play(text, words, groups, threads) is None

    # --- memory ---

    def hipMalloc(self, size: int) -> Result:
        self._note("hipMalloc", waits=True)
        if size > self.memory:
            return hipError_t.hipErrorOutOfMemory, None
        raw = (ctypes.c_ubyte * (size + 512))()
        address = -(-ctypes.addressof(raw) // 256) * 256
        self.held[address] = (ctypes.c_ubyte * size).from_buffer(
            raw, address - ctypes.addressof(raw)
        )
        return OK, Pointer(address)

    def hipFree(self, ptr: Any) -> Result:
        self._note("hipFree", waits=True)
        assert pointer(ptr) in self.held, "freed twice, or never allocated"
        del self.held[pointer(ptr)]
        return (OK,)

    def hipMemcpyHtoD(self, dst: Any, src: Any, sizeBytes: int) -> Result:
        self._note("hipMemcpyHtoD", waits=True)
        self._inside(pointer(dst), sizeBytes)
        ctypes.memmove(pointer(dst), pointer(src), sizeBytes)
        return (OK,)

    def hipMemcpyDtoH(self, dst: Any, src: Any, sizeBytes: int) -> Result:
        self._note("hipMemcpyDtoH", waits=True)
        self._inside(pointer(src), sizeBytes)
        found = self._said()
        if not found:
            ctypes.memmove(pointer(dst), pointer(src), sizeBytes)
        return (found,)

    # --- events ---

    def hipEventCreate(self) -> Result:
        self.handles.append(["event", 0.0])
        return OK, self.handles[-1]

    def hipEventRecord(self, event: Any, stream: Any) -> Result:
        assert any(event is h for h in self.handles)
        event[1] = time.perf_counter()
        return (OK,)

    def hipEventElapsedTime(self, start: Any, stop: Any) -> Result:
        return OK, 1e3 * (stop[1] - start[1])

    def hipEventDestroy(self, event: Any) -> Result:
        self.handles = [h for h in self.handles if h is not event]
        return (OK,)


class Labels(ObjectStore):
    """A label in place of machine code, which costs a fifth of a second a kernel to make."""

    def __init__(self, fake: FakeHip) -> None:
        super().__init__(None)
        self.fake = fake

    def code_object(self, code: Code, target: Target) -> tuple[bytes, dict[str, int]]:
        made = f"\x7fELF {target.name} {code.text.source}".encode()
        self.fake.texts[made] = code.text
        return made, {}


class Compiled(ObjectStore):
    """Machine code of clang, and a note for the fake of what it was made of."""

    def __init__(self, fake: FakeHip, cache: Cache | None = None) -> None:
        super().__init__(cache)
        self.fake = fake

    def code_object(self, code: Code, target: Target) -> tuple[bytes, dict[str, int]]:
        made, facts = super().code_object(code, target)
        self.fake.texts[made] = code.text
        return made, facts


def fake_driver(architecture: str = "gfx1100") -> HipDriver:
    """The driver of HIP on a fake GPU, whose code objects are labels."""
    fake = FakeHip(architecture)
    return HipDriver(Api(fake), store=Labels(fake))
