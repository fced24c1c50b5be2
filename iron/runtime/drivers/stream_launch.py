"""Kernels on a GPU that has addresses and streams, through CUDA or HIP: forms, arguments, launches.

Arrays of the device are taken as they are. Host arrays, which come only where the backend was
chosen by name, are staged: copied over between fences, and back when the launch has finished.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.backends.cuda_code import Code, Field
from iron.backends.forms import Form
from iron.backends.tensor_maps import TensorMap
from iron.errors import error
from iron.ir.core import Kernel
from iron.ir.types import Tensor
from iron.runtime.arrays import Buffer
from iron.runtime.drivers import stream
from iron.runtime.drivers.choice import Choice, Place
from iron.runtime.drivers.staging import image
from iron.runtime.drivers.stream_api import StreamApi
from iron.runtime.drivers.stream_memory import Memory


@dataclass(frozen=True, slots=True)
class Loaded:
    """Machine code in the device's memory, and the registers and bytes it takes."""

    function: Any
    facts: Mapping[str, int]


MakeMap = Callable[[TensorMap, Place, Mapping[str, int]], Any]
"""The tensor map of an argument, from where it lies and the dims of the launch."""


class StreamExecutable:
    """A kernel in its forms; each is compiled when a launch first needs it."""

    def __init__(
        self,
        api: StreamApi,
        kernel: Kernel,
        load: Callable[[Code], Loaded],
        forms: Iterator[Form[Code]],
        maps: MakeMap | None = None,
    ) -> None:
        self._maps = maps
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
        current = stream.of(held, self.api.ordinal)
        return self._launch(places, scalars, dims, grid, current)

    def resources(self) -> dict[str, int]:
        """Registers a thread, bytes spilled a thread, bytes of group memory, of the latest form."""
        last = self.last or self._ready(self._forms.form(0))
        return dict(last.facts)

    def _ready(self, form: Form[Code]) -> Loaded:
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
        current: Callable[[], int],
    ) -> Callable[[], None]:
        form, grid = self._forms.of(places, scalars, dims, grid)
        total, most = math.prod(grid), self.api.most_groups(form.code.threads)
        if total > most:
            raise error(
                "E0301",
                f"{total} groups are more than a launch can have ({most})",
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
                case "length":
                    packed.put(number, max(1, places[field.name].shape[field.axis]))
                case "extent":
                    packed.put(number, grid[field.axis])
                case "map":
                    assert field.map is not None
                    assert self._maps is not None
                    packed.point(number, self._maps(field.map, places[field.name], dims))
                case "dim":
                    packed.put(number, int(dims[field.name]))
                case _:
                    packed.scalar(number, scalars[field.name], field)
        run = self.api.launcher(
            loaded.function, (total, 1), code.threads, code.dynamic, packed.address, current
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
        launch = self._launch(places, scalars, dims, grid, stream.default)

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
        self._held: list[Any] = []

    def put(self, number: int, value: int) -> None:
        """An integer of any width."""
        self._slots[number] = value & 0xFFFFFFFFFFFFFFFF

    def scalar(self, number: int, value: Any, field: Field) -> None:
        """A value of the field's dtype, in the low bytes."""
        raw = field.dtype.np.type(value).tobytes()
        self._slots[number] = int.from_bytes(raw.ljust(8, b"\0"), "little")

    def point(self, number: int, held: Any) -> None:
        """A value too long for a slot, which says itself where it lies."""
        self._at[number] = int(held.getPtr())
        self._held.append(held)

    def keep(self, run: Any) -> None:
        """Lives as long as `run`."""
        run.arguments = self


def _strides(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(s // array.itemsize for s in array.strides)


def _nothing() -> None:
    """A launch of no group."""
