"""Buffers on a Vulkan device: where they lie, how arrays get their share, and copies to the host.

On a device whose memory the host sees, a buffer is mapped and copied to directly. On any other,
bytes go through a host buffer and a copy command.
"""

from __future__ import annotations

import ctypes as C
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iron.errors import error
from iron.runtime.drivers.vulkan import records as r
from iron.runtime.drivers.vulkan.api import VulkanFault
from iron.runtime.drivers.vulkan.device import Device
from iron.runtime.drivers.vulkan.properties import MemoryProperties
from iron.runtime.drivers.vulkan.queue import Queue

LOCAL, VISIBLE, COHERENT, CACHED = 0x1, 0x2, 0x4, 0x8
USAGE = 0x1 | 0x2 | 0x10 | 0x20  # copies from and to, uniform and storage buffers
ALIGN = 256
"""Start of every range that is bound; no device asks for more."""

DEVICE_HEAP = 0x1
WHOLE = 2**64 - 1
CHUNK = 16 << 20
STAGE = 8 << 20
FEW = 4096
"""Bytes that travel inside a command buffer at most."""
OUT_OF_MEMORY = (-1, -2)


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A buffer with memory of its own; `address` is where the host sees it, or 0."""

    handle: int
    memory: int
    size: int
    address: int

    @property
    def bytes(self) -> np.ndarray[Any, Any]:
        """Its memory as the host sees it."""
        return np.ctypeslib.as_array((C.c_uint8 * self.size).from_address(self.address))


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """A part of a buffer."""

    buffer: Buffer
    offset: int
    size: int

    @property
    def address(self) -> int:
        """Where the host sees it; only in a mapped buffer."""
        assert self.buffer.address
        return self.buffer.address + self.offset


def aligned(size: int, to: int = ALIGN) -> int:
    """`size` rounded up."""
    return -(-size // to) * to


@dataclass(slots=True)
class Heap:
    """All buffers of a device. `direct` says that device memory is mapped."""

    device: Device
    queue: Queue
    direct: bool
    _kinds: Any = None
    _free: dict[int, list[Range]] = field(default_factory=dict[int, list[Range]])
    _open: Buffer | None = None
    _used: int = 0
    _stage: Buffer | None = None

    def __post_init__(self) -> None:
        self._kinds = MemoryProperties()
        api = self.device.api
        api.vkGetPhysicalDeviceMemoryProperties(self.device.found.handle, C.addressof(self._kinds))

    @property
    def bytes(self) -> int:
        """Bytes of the largest heap that lies on the device."""
        heaps = self._kinds.memoryHeaps[: self._kinds.memoryHeapCount]
        return max(h.size for h in heaps if h.flags & DEVICE_HEAP)

    # --- buffers ----------------------------------------------------------------------------------

    def buffer(self, size: int, *, host: bool = False) -> Buffer:
        """A buffer for kernels, or with `host` one for copies from and to the host.

        Raises E0502 when the device has no memory left.
        """
        api, device = self.device.api, self.device.handle
        create = r.BufferCreateInfo(size=size, usage=USAGE)
        handle = api.create("vkCreateBuffer", device, create)
        needs = r.MemoryRequirements()
        api.vkGetBufferMemoryRequirements(device, handle, C.addressof(needs))
        mapped = host or self.direct
        take = r.MemoryAllocateInfo(
            allocationSize=needs.size, memoryTypeIndex=self._kind(needs.memoryTypeBits, mapped)
        )
        try:
            memory = api.create("vkAllocateMemory", device, take)
        except VulkanFault as fault:
            api.vkDestroyBuffer(device, handle, None)
            if fault.code not in OUT_OF_MEMORY:
                raise
            raise error(
                "E0502",
                f"{self.device.found.name} has no memory for a buffer of {size} bytes",
                help="free device arrays, or use smaller ones",
            ) from None
        api.vkBindBufferMemory(device, handle, memory, 0)
        address = C.c_void_p()
        if mapped:
            api.vkMapMemory(device, memory, 0, WHOLE, 0, C.addressof(address))
        made = Buffer(handle, memory, size, address.value or 0)
        self.device.at_close(lambda: self._destroy(made))
        return made

    def _destroy(self, buffer: Buffer) -> None:
        self.device.api.vkDestroyBuffer(self.device.handle, buffer.handle, None)
        self.device.api.vkFreeMemory(self.device.handle, buffer.memory, None)

    def _kind(self, allowed: int, mapped: bool) -> int:
        """The number of the memory type that suits best: local, or visible and cached."""
        if not mapped:
            wishes = [LOCAL, 0]
        elif self.direct:
            wishes = [LOCAL | VISIBLE | COHERENT | CACHED, VISIBLE | COHERENT]
        else:
            wishes = [VISIBLE | COHERENT | CACHED, VISIBLE | COHERENT]
        kinds = self._kinds.memoryTypes[: self._kinds.memoryTypeCount]
        for wish in wishes:
            for number, kind in enumerate(kinds):
                if allowed >> number & 1 and kind.propertyFlags & wish == wish:
                    return number
        raise error("E0603", f"{self.device.found.name} has no memory of the kind that is needed")

    # --- ranges for arrays ------------------------------------------------------------------------

    def take(self, size: int) -> Range:
        """Memory for an array, returned with `give`. Sizes are rounded to powers of two."""
        if size > CHUNK // 2:
            return self._reused(aligned(size)) or Range(
                self.buffer(aligned(size)), 0, aligned(size)
            )
        rounded = max(ALIGN, 1 << (size - 1).bit_length()) if size else ALIGN
        found = self._reused(rounded)
        if found is not None:
            return found
        if self._open is None or self._used + rounded > CHUNK:
            self._open, self._used = self.buffer(CHUNK), 0
        made = Range(self._open, self._used, rounded)
        self._used += rounded
        return made

    def _reused(self, size: int) -> Range | None:
        free = self._free.get(size)
        return free.pop() if free else None

    def release(self, back: Range) -> None:
        """Lets others have the memory, once nothing that uses it is in flight."""
        self.queue.later(lambda: self._free.setdefault(back.size, []).append(back))

    # --- copies -----------------------------------------------------------------------------------

    def write(self, to: Range, source: int, size: int, offset: int = 0) -> None:
        """Copies host bytes at address `source` into a range that nothing in flight uses.

        On a device whose memory the host does not see, launches in flight may use it: the copy
        comes after them.
        """
        if self.direct:
            C.memmove(to.address + offset, source, size)
            return
        if size <= FEW and size % 4 == 0 and (to.offset + offset) % 4 == 0:
            if size:
                data = C.string_at(source, size)
                self.queue.update(to.buffer.handle, to.offset + offset, data)
            return
        stage = self._staging()
        for start in range(0, size, stage.size):
            length = min(stage.size, size - start)
            C.memmove(stage.address, source + start, length)
            self._copy(stage, 0, to.buffer, to.offset + offset + start, length)

    def read(self, source: Range, to: int, size: int, offset: int = 0) -> None:
        """Copies a range to host memory at address `to`, after everything in flight."""
        if self.direct:
            self.queue.settle()
            C.memmove(to, source.address + offset, size)
            return
        stage = self._staging()
        for start in range(0, size, stage.size):
            length = min(stage.size, size - start)
            self._copy(source.buffer, source.offset + offset + start, stage, 0, length)
            C.memmove(to + start, stage.address, length)

    def _staging(self) -> Buffer:
        if self._stage is None:
            self._stage = self.buffer(STAGE, host=True)
        return self._stage

    def _copy(self, a: Buffer, a_offset: int, b: Buffer, b_offset: int, size: int) -> None:
        with self.queue.once() as commands:
            self.queue.copy(commands, a.handle, a_offset, b.handle, b_offset, size)
