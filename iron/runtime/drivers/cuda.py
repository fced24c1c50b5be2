"""The CUDA driver: kernels as cubins of NVRTC, launched on the caller's stream.

Arrays of the device are taken as they are. Host arrays, which come only where the backend was
chosen by name, are staged: copied over between fences, and back when the launch has finished.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from iron.backends import nvrtc
from iron.backends.cuda_code import Code, Field
from iron.backends.cuda_forms import Form, forms
from iron.dtypes import DType, of_numpy
from iron.errors import error
from iron.ir.core import Kernel
from iron.ir.types import Tensor
from iron.runtime.arrays import Array, Buffer
from iron.runtime.cache import Cache
from iron.runtime.dlpack import row_major
from iron.runtime.drivers import cuda_stream
from iron.runtime.drivers.choice import Choice, Place
from iron.runtime.drivers.cuda_api import Api, bindings
from iron.runtime.drivers.cuda_cubins import CubinStore
from iron.runtime.drivers.staging import image
from iron.targets.nvidia import MOST_GROUPS, of_capability
from iron.targets.target import Target


@dataclass(frozen=True, slots=True)
class Loaded:
    """Machine code in the device's memory, and the registers and bytes it takes."""

    function: Any
    facts: Mapping[str, int]


class CudaExecutable:
    """A kernel in its forms; each is compiled when a launch first needs it."""

    def __init__(
        self, api: Api, kernel: Kernel, load: Callable[[Code], Loaded], forms: Iterator[Form]
    ) -> None:
        self.api = api
        self.name = kernel.name
        self.written = frozenset(
            p.name for p in kernel.params if isinstance(p.type, Tensor) and p.type.space != "in"
        )
        self._load = load
        self._forms = Choice(forms)
        self._loaded: dict[int, Loaded] = {}
        self.last: Loaded | None = None

    def bind(
        self,
        arrays: Mapping[str, Any],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        """A launch that allocates nothing and waits for nothing, so that a graph may record it.

        With host arrays it copies both ways and returns when the work is done.
        """
        if math.prod(grid) <= 0:
            return _nothing
        hosts = {n: a for n, a in arrays.items() if isinstance(a, np.ndarray)}
        if hosts:
            return self._staged(hosts, scalars, dims, grid)
        held = {n: a.seen if isinstance(a, Buffer) else a for n, a in arrays.items()}
        places = {n: Place(a.pointer, a.dtype.bytes, a.shape, a.strides) for n, a in held.items()}
        stream = cuda_stream.of(held, self.api.ordinal)
        return self._launch(places, scalars, dims, grid, stream)

    def resources(self) -> dict[str, int]:
        """Registers a thread, bytes spilled a thread, bytes of group memory, of the latest form."""
        last = self.last or self._ready(self._forms.form(0))
        return dict(last.facts)

    def _ready(self, form: Form) -> Loaded:
        if id(form) not in self._loaded:
            self._loaded[id(form)] = self._load(form.code)
        self.last = self._loaded[id(form)]
        return self.last

    def _launch(
        self,
        places: Mapping[str, Place],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
        stream: Callable[[], int],
    ) -> Callable[[], None]:
        form, grid = self._forms.of(places, scalars, dims, grid)
        total = math.prod(grid)
        if total > MOST_GROUPS:
            raise error(
                "E0301",
                f"{total} groups are more than a launch can have ({MOST_GROUPS})",
                kernel=self.name,
            )
        code, loaded = form.code, self._ready(form)
        packed = Packed(len(code.fields))
        for number, field in enumerate(code.fields):
            match field.kind:
                case "pointer":
                    packed.put(number, places[field.name].pointer)
                case "stride":
                    packed.put(number, places[field.name].strides[field.axis])
                case "extent":
                    packed.put(number, grid[field.axis])
                case "dim":
                    packed.put(number, int(dims[field.name]))
                case _:
                    packed.scalar(number, scalars[field.name], field)
        run = self.api.launcher(
            loaded.function, (total, 1), code.threads, code.dynamic, packed.address, stream
        )
        packed.keep(run)
        return run

    def _staged(
        self,
        arrays: Mapping[str, Any],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        layout = image(arrays, self.written)
        memory = Memory(self.api, layout.size)
        places = {
            n: Place(memory.address + at, arrays[n].itemsize, arrays[n].shape, _strides(arrays[n]))
            for n, at in layout.places.items()
        }
        launch = self._launch(places, scalars, dims, grid, cuda_stream.default)

        def run() -> None:
            before = layout.fill()
            memory.write(before)
            launch()
            layout.take(before, memory.read(), self.name)

        return run


class Packed:
    """Arguments of a launch as the driver reads them: an 8-byte slot each, and their addresses."""

    def __init__(self, size: int) -> None:
        self._slots = (ctypes.c_uint64 * max(1, size))()
        first = ctypes.addressof(self._slots)
        self._at = (ctypes.c_void_p * max(1, size))(*(first + 8 * i for i in range(size)))
        self.address = ctypes.addressof(self._at)

    def put(self, number: int, value: int) -> None:
        """An integer of any width."""
        self._slots[number] = value & 0xFFFFFFFFFFFFFFFF

    def scalar(self, number: int, value: Any, field: Field) -> None:
        """A value of the field's dtype, in the low bytes."""
        raw = field.dtype.np.type(value).tobytes()
        self._slots[number] = int.from_bytes(raw.ljust(8, b"\0"), "little")

    def keep(self, run: Any) -> None:
        """Lives as long as `run`."""
        run.arguments = self


def _strides(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(s // array.itemsize for s in array.strides)


def _nothing() -> None:
    """A launch of no group."""


class Memory:
    """Bytes of the device, given back with the last reference."""

    def __init__(self, api: Api, size: int) -> None:
        self._api, self.size = api, size
        self.address = api.allocate(size)
        self._end = weakref.finalize(self, _free, api, self.address)
        self._end.atexit = False

    def write(self, source: np.ndarray[Any, Any]) -> None:
        """Copies a contiguous host array to the start."""
        self._api.send(self.address, source.__array_interface__["data"][0], source.nbytes)

    def read(self) -> np.ndarray[Any, Any]:
        """All bytes, after what was launched before."""
        held = np.empty(self.size, np.uint8)
        self._api.fetch(held.__array_interface__["data"][0], self.address, self.size)
        return held


def _free(api: Api, address: int) -> None:
    api.free(address)


class CudaDriver:
    """Compiles for and launches on one NVIDIA GPU."""

    name = "cuda"
    device = "cuda"
    stages = True

    def __init__(
        self, api: Api | None = None, cache: Cache | None = None, target: Target | None = None
    ) -> None:
        self._api = api
        self._target = target
        self._store = CubinStore(cache)

    @property
    def api(self) -> Api:
        """The driver interface, opened on first use. E0603 says what is missing."""
        if self._api is None:
            self._api = Api(bindings())
        return self._api

    @property
    def lost(self) -> bool:
        """True after a fault that ends the use of the device in this process."""
        return self._api is not None and self._api.lost

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

    def load(self, kernel: Kernel) -> CudaExecutable:
        """The kernel in its forms, each a cubin from the cache or of NVRTC."""
        target, api = self.target(), self.api

        def loaded(code: Code) -> Loaded:
            cubin, facts = self._store.cubin(code, target)
            return Loaded(api.function(cubin, code.symbol, code.dynamic), facts)

        return CudaExecutable(api, kernel, loaded, forms(kernel))

    def synchronise(self) -> None:
        """Waits for the device; a fault of an earlier launch is raised here."""
        self.api.synchronise()

    def upload(self, array: np.ndarray[Any, Any]) -> Buffer:
        """A contiguous copy in the device's memory, aligned to 256 bytes."""
        held = np.ascontiguousarray(array)
        dtype = of_numpy(held.dtype)
        if dtype is None:
            raise error("E0701", f"an array of {array.dtype}: kernels have no such element type")
        made = self.empty(array.shape, dtype)
        made.memory.write(held)
        return made

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """New memory of the device, uninitialised."""
        memory = Memory(self.api, math.prod(shape) * dtype.bytes)
        strides = row_major(shape)
        seen = Array(dtype, shape, strides, self.device, memory.address, True, None, None)
        return Buffer(seen, memory, self.empty)

    def download(self, array: Buffer) -> np.ndarray[Any, Any]:
        """A host copy, after everything launched has finished."""
        self.synchronise()
        seen, whole = array.seen, array.memory.read()
        first = seen.pointer - array.memory.address
        elements = whole[first % seen.dtype.bytes :]
        elements = elements[: len(elements) // seen.dtype.bytes * seen.dtype.bytes]
        at = elements.view(seen.dtype.np)[first // seen.dtype.bytes :]
        steps = tuple(s * seen.dtype.bytes for s in seen.strides)
        return np.array(np.lib.stride_tricks.as_strided(at, seen.shape, steps))

    def elapsed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        """Runs the calls in order on the caller's stream; the seconds between their ends."""
        api, stream = self.api, cuda_stream.of({}, self.api.ordinal)
        api.enter()
        marks = [api.event() for _ in range(len(calls) + 1)]
        try:
            api.record(marks[0], stream())
            for call, mark in zip(calls, marks[1:], strict=True):
                call()
                api.record(mark, stream())
            api.synchronise()
            return [api.between(a, b) for a, b in pairwise(marks)]
        finally:
            for mark in marks:
                api.drop(mark)


def open_driver() -> CudaDriver:
    """The driver of the first NVIDIA GPU, with the user's cache of compiled code."""
    return CudaDriver(cache=Cache())
