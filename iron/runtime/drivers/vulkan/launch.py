"""A kernel bound to its arguments: ranges, argument blocks, and the commands of its dispatches.

Device arrays are bound where they lie. Host arrays are staged: each call fills one image of them
with fences between, launches, waits, and takes back what the kernel wrote. Staged calls share one
arena, since each is over before the next begins.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.backends.forms import Form
from iron.backends.spirv import Encoded
from iron.backends.spirv.arguments import Field
from iron.backends.spirv.encode import TABLES
from iron.dtypes import DType
from iron.errors import error
from iron.ir.core import Kernel
from iron.ir.types import Tensor
from iron.runtime.arrays import Buffer as DeviceArray
from iron.runtime.drivers.choice import Choice, Place
from iron.runtime.drivers.staging import FENCE, Image, image
from iron.runtime.drivers.vulkan.array import located, upload
from iron.runtime.drivers.vulkan.hazards import Span, Touched
from iron.runtime.drivers.vulkan.memory import ALIGN, Buffer, Heap, Range, aligned
from iron.runtime.drivers.vulkan.pipeline import Pipeline, Row, rows

Host = np.ndarray[Any, Any]
Dispatch = tuple[Row, bytes, Range | None]
Pipelines = Callable[[Encoded], Pipeline]


class Arena:
    """The memory of staged calls: one buffer on the device, and its twin on the host.

    It grows by being replaced; bound launches keep the one they were recorded with.
    """

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self._pair: tuple[Buffer, Buffer] | None = None

    def at_least(self, size: int) -> tuple[Buffer, Buffer]:
        """The device's buffer and the host's, the same one where the host sees the device's."""
        if self._pair is None or self._pair[0].size < size:
            room = max(1 << 20, 1 << (size - 1).bit_length())
            made = self._heap.buffer(room)
            twin = made if self._heap.direct else self._heap.buffer(room, host=True)
            self._pair = (made, twin)
        return self._pair


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A form's module as a pipeline; `tables` are its constant arrays on the device."""

    code: Encoded
    pipeline: Pipeline
    tables: DeviceArray | None


class VulkanExecutable:
    """A kernel in its forms; each becomes a pipeline when a launch first needs it."""

    def __init__(
        self, kernel: Kernel, forms: Choice[Encoded], pipelines: Pipelines, heap: Heap, arena: Arena
    ) -> None:
        self.kernel, self.heap, self.arena = kernel, heap, arena
        self.forms, self._pipelines = forms, pipelines
        self._loaded: dict[int, Loaded] = {}
        self.written = frozenset(
            p.name for p in kernel.params if isinstance(p.type, Tensor) and p.type.space != "in"
        )

    def bind(
        self,
        arrays: Mapping[str, Any],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        """A launch with these arguments; with a host array among them it returns when it is done.

        Raises E0602 for an array that is larger than the device binds at once.
        """
        if math.prod(grid) <= 0:
            return _nothing
        given = Given(arrays, scalars, dims, grid)
        hosts = {n: a for n, a in arrays.items() if isinstance(a, np.ndarray)}
        return StagedLaunch(self, given, hosts) if hosts else Launch(self, given)

    def loaded(self, form: Form[Encoded]) -> Loaded:
        """A form on the device."""
        found = self._loaded.get(id(form))
        if found is None:
            code, tables = form.code, None
            if code.tables:
                tables = upload(self.heap, np.frombuffer(code.tables, np.uint8))
            found = self._loaded[id(form)] = Loaded(code, self._pipelines(code), tables)
        return found

    def resources(self) -> dict[str, int]:
        """Bytes of group memory."""
        return {"shared_bytes": self.forms.form(0).code.shared_bytes}


def _nothing() -> None:
    """A launch of no group."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a launch is bound to."""

    arrays: Mapping[str, Any]
    scalars: Mapping[str, Any]
    dims: Mapping[str, int]
    grid: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """Where one tensor lies: the range that is bound, and the place of its elements there.

    The range begins where any element may, so that an address in it says how it is aligned.
    """

    range: Range
    place: Place

    @property
    def origin(self) -> int:
        """The number of the first element in the range."""
        return self.place.pointer // self.place.size


class Launch:
    """A bound launch over device arrays; calling it enqueues its commands again.

    `number` is its own, and `touched` the memory that it reads and writes.
    """

    def __init__(self, of: VulkanExecutable, given: Given) -> None:
        self.of, self.queue, self.kept = of, of.heap.queue, given.arrays
        self._blocks: list[DeviceArray] = []
        bound = {n: self._bound(n, array) for n, array in given.arrays.items()}
        places = {n: b.place for n, b in bound.items()}
        form, grid = of.forms.of(places, given.scalars, given.dims, given.grid)
        self._form = of.loaded(form)
        names = self._form.code.bindings
        ranges = [self._tables() if n == TABLES else bound[n].range for n in names]
        for name, range_ in zip(names, ranges, strict=True):
            self._fits(name, range_)
        dispatches = self._dispatches(bound, {**given.scalars, **given.dims}, grid)
        self._commands = self._form.pipeline.bound(ranges, dispatches)
        self.touched = self._span_of(ranges, dispatches)
        self.number = self.queue.number()
        queue, number, free = self.queue, self.number, self._commands.free
        gone = weakref.finalize(self, queue.later, free, lambda: queue.forget(number))
        gone.atexit = False

    def _bound(self, name: str, array: Any) -> Bound:
        seen, memory = located(array)
        first = seen.pointer - memory.start
        return Bound(memory.range, Place(first, seen.dtype.bytes, seen.shape, seen.strides))

    def _tables(self) -> Range:
        assert self._form.tables is not None
        return self._form.tables.memory.range

    def _fits(self, name: str, range_: Range) -> None:
        found = self._form.pipeline.device.found
        most = found.limits.maxStorageBufferRange
        if range_.size > most:
            raise error(
                "E0602",
                f"`{name}` takes {range_.size} bytes, and {found.name} binds at most {most}",
                kernel=self.of.kernel.name,
                help="split the array",
            )

    # --- argument blocks --------------------------------------------------------------------------

    def _dispatches(
        self, bound: Mapping[str, Bound], values: Mapping[str, Any], grid: tuple[int, ...]
    ) -> list[Dispatch]:
        code, device = self._form.code, self._form.pipeline.device
        most = device.found.limits.maxComputeWorkGroupCount[0]
        out: list[Dispatch] = []
        for row in rows(-(-math.prod(grid) // code.fold), most):
            block = bytearray(code.block.bytes)
            for field in code.block.fields:
                raw = _word(field.dtype, _value(field, bound, values, grid, row))
                block[field.offset : field.offset + len(raw)] = raw
            held = None
            if not code.block.pushed:
                self._blocks.append(upload(self.of.heap, np.frombuffer(block, np.uint8)))
                held = self._blocks[-1].memory.range
            out.append((row, bytes(block), held))
        return out

    # --- commands ---------------------------------------------------------------------------------

    def _span_of(self, ranges: Sequence[Range], dispatches: Sequence[Dispatch]) -> Touched | None:
        """What the launch reads and writes, as wholes of what is bound."""
        names = self._form.code.bindings
        blocks = [held for *_, held in dispatches if held is not None]
        reads = [r for n, r in zip(names, ranges, strict=True) if n not in self.of.written]
        writes = [r for n, r in zip(names, ranges, strict=True) if n in self.of.written]
        return Touched(tuple(map(_span, (*reads, *blocks))), tuple(map(_span, writes)))

    def record(self, commands: int) -> None:
        """Adds the launch to a command buffer."""
        self._commands.record(commands)

    def __call__(self) -> None:
        """Launches, after everything enqueued before that it has to do with."""
        self.queue.enqueue(self)


class StagedLaunch(Launch):
    """A bound launch with host arrays; a call returns when their memory holds the results."""

    def __init__(self, of: VulkanExecutable, given: Given, hosts: Mapping[str, Host]) -> None:
        self.image: Image = image(hosts, of.written)
        self.inside, self.twin = of.arena.at_least(self.image.size)
        super().__init__(of, given)

    def _bound(self, name: str, array: Any) -> Bound:
        if not isinstance(array, np.ndarray):
            return super()._bound(name, array)
        start, end = _region(self.image, name)
        first, size = self.image.places[name] - start, array.itemsize
        strides = tuple(s // size for s in array.strides)
        return Bound(
            Range(self.inside, start, end - start), Place(first, size, array.shape, strides)
        )

    def _span_of(self, ranges: Sequence[Range], dispatches: Sequence[Dispatch]) -> Touched | None:
        return None

    def record(self, commands: int) -> None:
        """The image to the device, the launch, and the image back."""
        self.queue.ordered(commands)
        self._copy(commands, self.twin, self.inside)
        super().record(commands)
        self.queue.ordered(commands)
        self._copy(commands, self.inside, self.twin)

    def _copy(self, commands: int, a: Buffer, b: Buffer) -> None:
        """The image from one buffer of the arena to the other, where those are two."""
        if a is not b:
            self.queue.copy(commands, a.handle, 0, b.handle, 0, self.image.size)
            self.queue.ordered(commands)

    def __call__(self) -> None:
        """Copies in, launches, waits, copies out. E0404 when the kernel wrote elsewhere."""
        with self.queue.lock:
            self.queue.wait()  # an earlier launch may still use the arena
            held = self.twin.bytes[: self.image.size]
            self.image.fill(held)
            self.queue.enqueue(self)
            self.queue.wait()
            self.image.take(None, held, self.of.kernel.name)


def _span(range_: Range) -> Span:
    return range_.buffer.handle, range_.offset, range_.offset + range_.size


def _region(layout: Image, name: str) -> tuple[int, int]:
    """The bytes that are bound for an array: its region, with a fence on each side."""
    for r in layout.regions:
        if name in r.names:
            return (r.at - FENCE) // ALIGN * ALIGN, aligned(r.at + r.size) + FENCE
    return 0, FENCE


def _value(
    field: Field,
    bound: Mapping[str, Bound],
    values: Mapping[str, Any],
    grid: tuple[int, ...],
    row: Row,
) -> Any:
    match field.kind:
        case "origin":
            return bound[field.name].origin
        case "stride":
            return bound[field.name].place.strides[field.axis]
        case "extent":
            return grid[field.axis]
        case "first":
            return row.first
        case "count":
            return math.prod(grid)
        case "zero":
            return 0
        case _:
            return values[field.name]


def _word(dtype: DType, value: Any) -> bytes:
    """A value in its register form: 8 bytes of a 64-bit integer, else 4."""
    if dtype.kind == "s":
        return int(dtype.np.type(value).view(np.uint16)).to_bytes(4, "little")
    if dtype.kind == "f":
        return np.float32(value).tobytes()
    width = 8 if dtype.bits == 64 else 4
    return (int(value) & (1 << 8 * width) - 1).to_bytes(width, "little")
