"""Other libraries' arrays, seen without a copy through the DLPack protocol.

The capsule is read with ctypes, so no array library is imported, and element types that numpy
has no DLPack support for (bfloat16) come through as well.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from iron.dtypes import DTYPES, DType

CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, METAL, VULKAN = 1, 2, 3, 10, 11, 8, 7
DEVICES = {
    CPU: "cpu",
    CUDA: "cuda",
    CUDA_HOST: "cpu",
    ROCM: "hip",
    ROCM_HOST: "cpu",
    METAL: "metal",
    VULKAN: "vulkan",
}
_DEFAULT_STREAM = {CUDA: 1, ROCM: 0}
_CODES = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "bool"}


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Foreign:
    """Memory owned by another library. Strides count elements; `owner` keeps it alive."""

    pointer: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    device_id: int
    owner: Any


def read(array: Any) -> Foreign:
    """What `array.__dlpack__()` describes. ValueError for an element type Iron does not have."""
    capsule = _capsule(array)
    pointer = _capsule_pointer(capsule)
    tensor = ctypes.cast(pointer, ctypes.POINTER(_Tensor)).contents
    dtype = _dtype(tensor)
    shape = tuple(tensor.shape[d] for d in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[d] for d in range(tensor.ndim))
    else:
        strides = row_major(shape)
    device = DEVICES.get(tensor.device.type, f"dlpack device {tensor.device.type}")
    if tensor.device.id and device != "cpu":
        device = f"{device}:{tensor.device.id}"
    start = (tensor.data or 0) + tensor.byte_offset
    return Foreign(start, dtype, shape, strides, device, tensor.device.id, (array, capsule))


def _capsule(array: Any) -> Any:
    """The capsule; launches go to the current stream of PyTorch and CuPy, so those need not wait.

    Other libraries make their work precede the default stream: 1 on CUDA, 0 on ROCm.
    """
    device = getattr(array, "__dlpack_device__", None)
    default = _DEFAULT_STREAM.get(int(device()[0])) if device is not None else None
    if default is None:
        return array.__dlpack__()
    ordered = type(array).__module__.partition(".")[0] in ("torch", "cupy")
    return array.__dlpack__(stream=-1 if ordered else default)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of a contiguous array."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _capsule_pointer(capsule: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, b"dltensor") or 0)


def _dtype(tensor: _Tensor) -> DType:
    code = _CODES.get(tensor.code, "?")
    name = "bool" if code == "bool" else f"{code}{tensor.bits}"
    if tensor.lanes != 1 or name not in DTYPES:
        raise ValueError(f"element type code {tensor.code}, {tensor.bits} bits")
    return DTYPES[name]
