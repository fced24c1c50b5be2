"""Arguments as the runtime sees them: numpy arrays and whatever speaks DLPack, never copied."""

from __future__ import annotations

import ctypes
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iron.dtypes import DType, of_numpy
from iron.errors import error
from iron.runtime import dlpack
from iron.runtime.aligned import empty


@dataclass(frozen=True, slots=True)
class Array:
    """One tensor argument. Strides count elements and may be negative or zero.

    `host` is a numpy view of the same memory when the device is the CPU, else None. `source` is
    what the caller passed, kept alive with the view.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    pointer: int
    writable: bool
    host: Any
    source: Any
    owner: Any = None

    @property
    def span(self) -> tuple[int, int]:
        """The half-open byte range the elements lie in; empty for an array without elements."""
        if 0 in self.shape:
            return (self.pointer, self.pointer)
        low = high = 0
        for extent, stride in zip(self.shape, self.strides, strict=True):
            reach = (extent - 1) * stride
            low, high = low + min(0, reach), high + max(0, reach)
        size = self.dtype.bytes
        return (self.pointer + low * size, self.pointer + (high + 1) * size)


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """An array that a driver made in its device's memory; kernels take it like any other.

    `memory` keeps the bytes alive, `make` gives another array of the same device.
    """

    seen: Array
    memory: Any
    make: Callable[[tuple[int, ...], DType], Buffer]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.seen.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.seen.dtype

    def __getitem__(self, key: Any) -> Buffer:
        """A view of the same memory by integers and slices, one for each of the leading axes."""
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > len(self.shape):
            raise IndexError(f"{len(keys)} indices for {len(self.shape)} axes")
        first, shape, strides = 0, list[int](), list[int]()
        for axis, (extent, stride) in enumerate(zip(self.shape, self.seen.strides, strict=True)):
            asked = keys[axis] if axis < len(keys) else slice(None)
            if not isinstance(asked, slice):
                first += range(extent)[asked] * stride
                continue
            at = range(extent)[asked]
            shape.append(len(at))
            strides.append(at.step * stride)
            first += at.start * stride if at else 0
        pointer = self.seen.pointer + first * self.dtype.bytes
        seen = replace(self.seen, shape=tuple(shape), strides=tuple(strides), pointer=pointer)
        return replace(self, seen=seen)

    def reshape(self, *extents: int) -> Buffer:
        """The same elements in row-major order as `extents`, of which one may be -1.

        ValueError where they are not neighbours in memory or the extents do not fit.
        """
        count = math.prod(self.shape)
        known = math.prod(n for n in extents if n != -1)
        shape = tuple(count // max(1, known) if n == -1 else n for n in extents)
        if math.prod(shape) != count or self.seen.strides != dlpack.row_major(self.shape):
            raise ValueError(f"{self.shape} in steps of {self.seen.strides} as {extents}")
        return replace(self, seen=replace(self.seen, shape=shape, strides=dlpack.row_major(shape)))

    def spread(self, count: int) -> Buffer:
        """A batch of `count` that are all this array, in the same memory."""
        shape, strides = (count, *self.shape), (0, *self.seen.strides)
        return replace(self, seen=replace(self.seen, shape=shape, strides=strides))


def describe(value: Any, name: str, kernel: str) -> Array:
    """`value` as an `Array`. E0701 names the parameter and what was passed."""
    if isinstance(value, np.ndarray):
        return _of_numpy(value, name, kernel)
    if isinstance(value, Buffer):
        return replace(value.seen, source=value, owner=value.memory)
    if hasattr(value, "__dlpack__"):
        return _of_dlpack(value, name, kernel)
    raise _wrong(name, kernel, f"a {type(value).__name__}", "pass a numpy array or a tensor")


def _of_numpy(value: np.ndarray[Any, Any], name: str, kernel: str) -> Array:
    dtype = of_numpy(value.dtype)
    if dtype is None:
        hint = "convert it first; kernels have no such element type"
        raise _wrong(name, kernel, f"an array of {value.dtype}", hint)
    if not value.dtype.isnative:
        raise _wrong(name, kernel, "an array of foreign byte order", "use `.astype` to convert it")
    size = value.dtype.itemsize
    if any(stride % size for stride in value.strides) or not value.flags.aligned:
        hint = "copy it with `numpy.ascontiguousarray`"
        raise _wrong(name, kernel, "an array whose elements are not aligned", hint)
    strides = tuple(stride // size for stride in value.strides)
    pointer = value.__array_interface__["data"][0]
    writable = value.flags.writeable
    return Array(dtype, value.shape, strides, "cpu", pointer, writable, value, value)


def _of_dlpack(value: Any, name: str, kernel: str) -> Array:
    kind = f"{type(value).__module__.partition('.')[0]} {type(value).__name__}"
    try:
        seen = dlpack.read(value)
    except Exception as problem:
        raise _wrong(name, kernel, f"a {kind} that cannot be shared: {problem}", "") from problem
    host = _host_view(seen) if seen.device == "cpu" else None
    return Array(
        seen.dtype,
        seen.shape,
        seen.strides,
        seen.device,
        seen.pointer,
        not getattr(value, "is_read_only", False),
        host,
        value,
        seen.owner,
    )


def _host_view(seen: dlpack.Foreign) -> np.ndarray[Any, Any]:
    if 0 in seen.shape:
        return np.empty(seen.shape, seen.dtype.np)
    reach = sum((n - 1) * s for n, s in zip(seen.shape, seen.strides, strict=True))
    size = seen.dtype.bytes
    memory = (ctypes.c_char * ((reach + 1) * size)).from_address(seen.pointer)
    flat = np.frombuffer(memoryview(memory), seen.dtype.np)
    strides = tuple(s * size for s in seen.strides)
    return np.lib.stride_tricks.as_strided(flat, seen.shape, strides)


def allocate(shape: tuple[int, ...], dtype: DType, beside: Any, name: str, kernel: str) -> Array:
    """A new uninitialised array of the same library and device as `beside` (numpy for None)."""
    if isinstance(beside, Buffer):
        return describe(beside.make(shape, dtype), name, kernel)
    library = type(beside).__module__.partition(".")[0]
    if library == "cupy":
        cupy = importlib.import_module("cupy")
        with beside.device:
            return describe(cupy.empty(shape, dtype.np), name, kernel)
    if library in ("jax", "jaxlib"):
        jax = importlib.import_module("jax")
        made = jax.device_put(jax.numpy.empty(shape, dtype.np), beside.device)
        return describe(made.block_until_ready(), name, kernel)
    if library != "torch":
        return describe(empty(shape, dtype.np), name, kernel)
    torch = importlib.import_module("torch")
    kind = torch.bool if dtype.name == "bool" else getattr(torch, _TORCH.get(dtype.name, ""), None)
    if kind is None:
        hint = f"pass `{name}=` an array of your own"
        raise error("E0701", f"torch has no element type for {dtype}", kernel=kernel, help=hint)
    return describe(torch.empty(shape, dtype=kind, device=beside.device), name, kernel)


_TORCH = {
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
}


def overlap(a: Array, b: Array) -> bool:
    """True when the byte ranges of two arrays intersect (a sufficient sign, not a proof)."""
    (a_low, a_high), (b_low, b_high) = a.span, b.span
    return a_low < b_high and b_low < a_high


def coincide(a: Array, b: Array) -> bool:
    """True when both arrays are the same elements: pointer, shape and strides agree."""
    same = a.pointer == b.pointer and a.shape == b.shape and a.dtype is b.dtype
    return same and all(
        n == 1 or s == t for n, s, t in zip(a.shape, a.strides, b.strides, strict=True)
    )


def _wrong(name: str, kernel: str, got: str, hint: str) -> Exception:
    return error("E0701", f"`{name}` is {got}", kernel=kernel, help=hint)
