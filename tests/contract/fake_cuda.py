"""A stand-in for `cuda.bindings.driver`: host memory, handles that are checked, calls recorded.

It knows the functions that Iron calls and no others; a wrong handle, a freed address or a copy
beyond an allocation raises in the test. A launch hands its arguments to `program`, which plays the
kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum
from types import SimpleNamespace
from typing import Any


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


OK = CUresult.CUDA_SUCCESS
ATTRIBUTES = {"COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132}


class TensorMap:
    """What a map was made from, and 128 bytes at an address."""

    def __init__(self, made: SimpleNamespace) -> None:
        self.made = made
        self.bytes = (ctypes.c_ubyte * 128)()

    def getPtr(self) -> int:
        return ctypes.addressof(self.bytes)


class FakeCuda:
    """One GPU of compute capability `major`.0."""

    def __init__(
        self, version: int = 13000, devices: int = 1, memory: int = 1 << 30, major: int = 9
    ) -> None:
        self.CUresult = CUresult
        self.attributes = {**ATTRIBUTES, "COMPUTE_CAPABILITY_MAJOR": major}
        names = [f"CU_DEVICE_ATTRIBUTE_{n}" for n in self.attributes]
        self.CUdevice_attribute = SimpleNamespace(**{n: n for n in names})
        self.CUfunction_attribute = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic"
        )
        self.CUlaunchAttributeID = SimpleNamespace(
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION="early"
        )
        self.CUstreamCaptureStatus = SimpleNamespace(CU_STREAM_CAPTURE_STATUS_NONE=0)
        self.version, self.devices, self.memory = version, devices, memory
        self.CUtensorMapDataType = SimpleNamespace(
            CU_TENSOR_MAP_DATA_TYPE_BFLOAT16="bf16", CU_TENSOR_MAP_DATA_TYPE_FLOAT16="f16"
        )
        self.CUtensorMapInterleave = SimpleNamespace(CU_TENSOR_MAP_INTERLEAVE_NONE=0)
        self.CUtensorMapSwizzle = SimpleNamespace(CU_TENSOR_MAP_SWIZZLE_128B="swizzle128")
        self.CUtensorMapL2promotion = SimpleNamespace(CU_TENSOR_MAP_L2_PROMOTION_L2_256B=3)
        self.CUtensorMapFloatOOBfill = SimpleNamespace(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE=0)
        self.cuuint32_t = self.cuuint64_t = int
        self.maps: list[TensorMap] = []
        self.calls: list[str] = []
        self.launches: list[SimpleNamespace] = []
        self.held: dict[int, Any] = {}
        self.handles: set[Any] = set()
        self.context: str | None = None
        self.next: CUresult = OK
        self.capture = 0
        self.clock = 0.0
        self.program: Callable[[SimpleNamespace], None] = lambda launch: None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cu"):
            raise AssertionError(f"the driver has no function {name}, as far as this fake knows")
        raise AttributeError(name)

    def _note(self, name: str, *, context: bool = True) -> None:
        self.calls.append(name)
        assert not context or self.context, f"{name} without a current context"

    def _inside(self, address: int, size: int) -> None:
        homes = [a for a, m in self.held.items() if a <= address and address + size <= a + len(m)]
        assert homes, f"{size} bytes at {address:#x} are not in one live allocation"

    # --- device and context ---

    def cuInit(self, flags: int) -> tuple[Any, ...]:
        self._note("cuInit", context=False)
        return (OK if self.devices else CUresult.CUDA_ERROR_NO_DEVICE,)

    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return OK, self.version

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return OK, self.devices

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        assert 0 <= ordinal < self.devices
        return OK, ("device", ordinal)

    def cuDeviceGetName(self, size: int, device: Any) -> tuple[Any, ...]:
        return OK, b"Fake GPU".ljust(size, b"\0")

    def cuDeviceTotalMem(self, device: Any) -> tuple[Any, ...]:
        return OK, self.memory

    def cuDeviceGetAttribute(self, which: str, device: Any) -> tuple[Any, ...]:
        return OK, self.attributes[which.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def cuDevicePrimaryCtxRetain(self, device: Any) -> tuple[Any, ...]:
        assert device[0] == "device"
        return OK, "primary"

    def cuCtxSetCurrent(self, context: str) -> tuple[Any, ...]:
        assert context == "primary"
        self.context = context
        return (OK,)

    def cuCtxSynchronize(self) -> tuple[Any, ...]:
        self._note("cuCtxSynchronize")
        assert not self.capture, "a wait inside a graph capture"
        found, self.next = self.next, OK
        return (found,)

    # --- code ---

    def cuModuleLoadData(self, image: bytes) -> tuple[Any, ...]:
        self._note("cuModuleLoadData")
        assert image[:4] == b"\x7fELF", "a cubin is an ELF file"
        made = ("module", image)
        self.handles.add(made)
        return OK, made

    def cuModuleGetFunction(self, module: Any, symbol: bytes) -> tuple[Any, ...]:
        assert module in self.handles
        assert symbol in module[1], f"the cubin has no {symbol!r}"
        made = ("function", symbol, len(self.handles))
        self.handles.add(made)
        return OK, made

    def cuFuncSetAttribute(self, function: Any, which: str, value: int) -> tuple[Any, ...]:
        assert function in self.handles
        self.calls.append(f"{which}={value}")
        return (OK,)

    def CUlaunchConfig(self) -> Any:
        return SimpleNamespace(attrs=[], numAttrs=0)

    def CUlaunchAttribute(self) -> Any:
        return SimpleNamespace(value=SimpleNamespace())

    def cuLaunchKernelEx(
        self, config: Any, function: Any, parameters: int, extra: int
    ) -> tuple[Any, ...]:
        self.calls.append("cuLaunchKernelEx")
        assert function in self.handles
        assert config.gridDimX > 0
        assert config.gridDimY > 0
        assert config.gridDimZ == 1
        assert 0 < config.blockDimX * config.blockDimY * config.blockDimZ <= 1024
        assert config.numAttrs == len(config.attrs)
        if self.context is None:
            return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
        if self.next:
            found, self.next = self.next, OK
            return (found,)
        launch = SimpleNamespace(
            symbol=function[1].decode(), grid=(config.gridDimX, config.gridDimY),
            threads=config.blockDimX, shared=config.sharedMemBytes, stream=config.hStream,
            early=[a.value.programmaticStreamSerializationAllowed for a in config.attrs],
            read=lambda number, kind: _argument(parameters, number, kind),
        )  # fmt: skip
        self.launches.append(launch)
        self.program(launch)
        return (OK,)

    # --- tensor maps ---

    def cuTensorMapEncodeTiled(self, *given: Any) -> tuple[Any, ...]:
        kind, rank, address, sizes, steps, box, strides, *rest = given
        self.calls.append("cuTensorMapEncodeTiled")
        assert address % 16 == 0, "a map begins at a multiple of 16 bytes"
        assert len(sizes) == len(box) == len(strides) == rank == len(steps) + 1
        assert all(s % 16 == 0 for s in steps)
        assert all(n > 0 for n in sizes)
        assert all(0 < n <= 256 for n in box)
        assert all(s == 1 for s in strides)
        assert rest[1] == "swizzle128"
        made = TensorMap(
            SimpleNamespace(kind=kind, address=address, sizes=sizes, steps=steps, box=box)
        )
        self.maps.append(made)
        return OK, made

    # --- memory ---

    def cuMemAlloc(self, size: int) -> tuple[Any, ...]:
        self._note("cuMemAlloc")
        assert not self.capture, "an allocation inside a graph capture"
        assert size > 0
        if size > self.memory:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, 0
        raw = (ctypes.c_ubyte * (size + 512))()
        address = -(-ctypes.addressof(raw) // 256) * 256
        self.held[address] = (ctypes.c_ubyte * size).from_buffer(
            raw, address - ctypes.addressof(raw)
        )
        return OK, address

    def cuMemFree(self, address: int) -> tuple[Any, ...]:
        self._note("cuMemFree")
        assert address in self.held, "freed twice, or never allocated"
        del self.held[address]
        return (OK,)

    def cuMemcpyHtoD(self, to: int, host: int, size: int) -> tuple[Any, ...]:
        self._note("cuMemcpyHtoD")
        self._inside(to, size)
        ctypes.memmove(to, host, size)
        return (OK,)

    def cuMemcpyDtoH(self, host: int, at: int, size: int) -> tuple[Any, ...]:
        self._note("cuMemcpyDtoH")
        self._inside(at, size)
        found, self.next = self.next, OK
        if not found:
            ctypes.memmove(host, at, size)
        return (found,)

    # --- streams and events ---

    def cuStreamIsCapturing(self, stream: int) -> tuple[Any, ...]:
        return OK, self.capture

    def cuEventCreate(self, flags: int) -> tuple[Any, ...]:
        self._note("cuEventCreate")
        made = SimpleNamespace(at=None)
        self.handles.add(id(made))
        return OK, made

    def cuEventRecord(self, event: Any, stream: int) -> tuple[Any, ...]:
        assert id(event) in self.handles
        self.clock += 0.5
        event.at = self.clock
        return (OK,)

    def cuEventElapsedTime(self, first: Any, last: Any) -> tuple[Any, ...]:
        assert first.at is not None
        assert last.at is not None
        return OK, last.at - first.at

    def cuEventDestroy(self, event: Any) -> tuple[Any, ...]:
        self.handles.remove(id(event))
        return (OK,)


def _argument(parameters: int, number: int, kind: Any) -> Any:
    """Argument `number` of a launch as the ctypes type `kind`."""
    slots = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
    return ctypes.cast(slots[number], ctypes.POINTER(kind)).contents.value
