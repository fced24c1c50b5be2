"""Command buffers and their order on the device's one queue.

A launch is a secondary command buffer recorded once; enqueuing it again costs an append. What waits
is joined in a primary one: a device takes half the time for that than for a submission of as many.
A barrier stands before each that touches what those before it wrote, or writes what they read. The
same launches in the same order find their primary again.
"""

from __future__ import annotations

import ctypes as C
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from iron.runtime.drivers.vulkan import records as r
from iron.runtime.drivers.vulkan.device import Device
from iron.runtime.drivers.vulkan.hazards import Hazards, Touched

HOST, COMPUTE, TRANSFER, BOTTOM = 0x4000, 0x800, 0x1000, 0x2000
HOST_READ, HOST_WRITE = 0x2000, 0x4000
SHADER, UNIFORM, COPY = 0x20 | 0x40, 0x8, 0x800 | 0x1000
SIMULTANEOUS = 0x4
FOREVER = 2**64 - 1
RESETTABLE = 0x2

SECONDARY = 1

MOST_WAITING = 64
MOST_KNOWN = 64
MOST_KEPT = 1 << 14
MOST_STAMPS = 512
TIMESTAMP = 2
WITH_64_BITS, WAITED = 1, 2


class Queue:
    """The queue: what waits to be submitted, and what must live until it is done."""

    def __init__(self, device: Device) -> None:
        self.device, self.api = device, device.api
        self.lock = threading.RLock()
        create = r.CommandPoolCreateInfo(flags=RESETTABLE, queueFamilyIndex=device.family)
        self._pool = self.api.create("vkCreateCommandPool", device.handle, create)
        self._fence = self.api.create("vkCreateFence", device.handle, r.FenceCreateInfo())
        self._waiting: list[int] = []
        self._kept: list[Any] = []
        self._dead: list[Callable[[], None]] = []
        self._known: dict[tuple[int, ...], int] = {}
        self._used: list[int] = []
        self._spare: list[int] = []
        self._touched: dict[int, Touched] = {}
        self._after = r.MemoryBarrier(srcAccessMask=SHADER, dstAccessMask=SHADER | UNIFORM)
        self._stamps = self._seen = 0
        device.at_close(lambda: self.api.vkDestroyCommandPool(device.handle, self._pool, None))
        device.at_close(lambda: self.api.vkDestroyFence(device.handle, self._fence, None))

    # --- recording --------------------------------------------------------------------------------

    @contextmanager
    def recorded(self, touched: Touched | None = None, *, copies: bool = False) -> Generator[int]:
        """A new command buffer, open for recording; it may be enqueued any number of times.

        `touched` says what memory it reads and writes, None that it may be any. With `copies` it
        may hold those. It ends with `ordered` then.
        """
        with self.lock:
            commands = self._allocated(SECONDARY)
            if touched is not None:
                self._touched[commands] = touched
            outer = r.CommandBufferInheritanceInfo()
            begin = r.CommandBufferBeginInfo(
                flags=SIMULTANEOUS, pInheritanceInfo=C.addressof(outer)
            )
            self.api.vkBeginCommandBuffer(commands, C.addressof(begin))
            if copies:
                self.ordered(commands)
            yield commands
            self.api.vkEndCommandBuffer(commands)

    def _allocated(self, level: int = 0) -> int:
        take = r.CommandBufferAllocateInfo(
            commandPool=self._pool, level=level, commandBufferCount=1
        )
        made = C.c_void_p()
        self.api.vkAllocateCommandBuffers(self.device.handle, C.addressof(take), C.addressof(made))
        assert made.value is not None
        return made.value

    @contextmanager
    def once(self) -> Generator[int]:
        """A command buffer that has run when the block is left, after everything enqueued."""
        with self.lock:
            self.submit()  # by itself: the same launches will be joined again
            with self.recorded(copies=True) as commands:
                yield commands
                self.ordered(commands)
            self.enqueue(commands, None)
            self.wait()
            self.free(commands)

    def ordered(self, commands: int) -> None:
        """What follows sees what was written before, and so does the host."""
        made = r.MemoryBarrier(
            srcAccessMask=SHADER | COPY | HOST_WRITE,
            dstAccessMask=SHADER | UNIFORM | COPY | HOST_READ,
        )
        where = COMPUTE | TRANSFER | HOST
        self.api.vkCmdPipelineBarrier(
            commands, where, where, 0, 1, C.addressof(made), 0, None, 0, None
        )

    def copy(self, commands: int, a: int, a_offset: int, b: int, b_offset: int, size: int) -> None:
        """Records a copy between two buffers."""
        part = r.BufferCopy(a_offset, b_offset, size)
        self.api.vkCmdCopyBuffer(commands, a, b, 1, C.addressof(part))

    def update(self, buffer: int, offset: int, data: bytes) -> None:
        """Sets a few words of a buffer after everything enqueued, and before all that follows."""
        with self.lock:
            self.submit()
            primary = self._begun()
            self.ordered(primary)
            self.api.vkCmdUpdateBuffer(primary, buffer, offset, len(data), data)
            self.ordered(primary)
            self.api.vkEndCommandBuffer(primary)
            self._hand_over(primary)
            self._used.append(primary)
            self._keep(None)

    def later(self, *undo: Callable[[], None]) -> None:
        """Runs `undo` when nothing is in flight any more."""
        self._dead += undo

    def free(self, commands: int) -> None:
        """Frees a command buffer that is not in flight."""
        self._touched.pop(commands, None)
        for steps in [s for s in self._known if commands in s]:
            self._used.append(self._known.pop(steps))
        listed = C.c_void_p(commands)
        self.api.vkFreeCommandBuffers(self.device.handle, self._pool, 1, C.addressof(listed))

    # --- running ----------------------------------------------------------------------------------

    def enqueue(self, commands: int, kept: object) -> None:
        """Adds a command buffer, or ~n for timestamp n; `kept` lives until it has run."""
        with self.lock:
            self._waiting.append(commands)
            if len(self._waiting) >= MOST_WAITING:
                self.submit()
            self._keep(kept)

    def _keep(self, kept: object) -> None:
        self._kept.append(kept)
        if len(self._kept) >= MOST_KEPT:
            self.wait()

    def submit(self, fence: int = 0) -> None:
        """Hands everything that waits to the device."""
        with self.lock:
            if not self._waiting and not fence:
                return
            self._hand_over(self._joined() if self._waiting else 0, fence)
            self._waiting.clear()

    def _hand_over(self, primary: int, fence: int = 0) -> None:
        listed = C.c_void_p(primary or None)
        info = r.SubmitInfo(
            commandBufferCount=1 if primary else 0, pCommandBuffers=C.pointer(listed)
        )
        self.api.vkQueueSubmit(self.device.queue, 1, C.addressof(info), fence)

    def _joined(self) -> int:
        """A primary command buffer of what waits: an earlier one where it is the same."""
        steps = tuple(self._waiting)
        if min(steps) < 0:
            self._used.append(self._primary(steps))
            return self._used[-1]
        found = self._known.pop(steps, 0) or self._primary(steps)
        self._known[steps] = found
        if len(self._known) > MOST_KNOWN:
            self._used.append(self._known.pop(next(iter(self._known))))
        return found

    def _begun(self) -> int:
        """A primary command buffer, open for recording."""
        primary = self._spare.pop() if self._spare else self._allocated()
        begin = r.CommandBufferBeginInfo(flags=SIMULTANEOUS)
        self.api.vkBeginCommandBuffer(primary, C.addressof(begin))
        return primary

    def _primary(self, steps: Sequence[int]) -> int:
        api, after, hazards = self.api, C.addressof(self._after), Hazards()
        primary = self._begun()
        one = C.c_void_p()
        for step in steps:
            if step < 0:
                api.vkCmdWriteTimestamp(primary, BOTTOM, self._queries(), ~step)
                hazards = Hazards()  # what follows is timed by itself
                continue
            one.value = step
            if hazards.waits(self._touched.get(step)):
                api.vkCmdPipelineBarrier(primary, COMPUTE, COMPUTE, 0, 1, after, 0, None, 0, None)
            api.vkCmdExecuteCommands(primary, 1, C.addressof(one))
        api.vkEndCommandBuffer(primary)
        return primary

    def wait(self) -> None:
        """Returns when everything enqueued has run."""
        with self.lock:
            if not self._kept and not self._waiting:
                self._bury()
                return
            self.submit(self._fence)
            fence = r.u64(self._fence)
            self.api.vkWaitForFences(self.device.handle, 1, C.addressof(fence), 1, FOREVER)
            self.api.vkResetFences(self.device.handle, 1, C.addressof(fence))
            self._kept.clear()
            self._spare += self._used
            self._used.clear()
            self._bury()

    def settle(self) -> None:
        """Returns when everything enqueued has run and the host sees what it wrote."""
        with self.lock:
            if not self._seen:
                with self.recorded(copies=True) as self._seen:
                    pass
            if self._kept:
                self.enqueue(self._seen, None)
            self.wait()

    def _bury(self) -> None:
        while self._dead:
            self._dead.pop()()

    # --- time -------------------------------------------------------------------------------------

    def elapsed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        """The seconds that each of `calls` took on the device, from timestamps around it."""
        out: list[float] = []
        for start in range(0, len(calls), MOST_STAMPS // 2):
            out += self._timed(calls[start : start + MOST_STAMPS // 2])
        return out

    def _timed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        count = 2 * len(calls)
        with self.once() as commands:
            self.api.vkCmdResetQueryPool(commands, self._queries(), 0, count)
        for number, call in enumerate(calls):
            if len(self._waiting) > MOST_WAITING // 2:
                self.submit()  # so that none is between the stamps of a call
            self.enqueue(~(2 * number), None)
            call()
            self.enqueue(~(2 * number + 1), None)
        self.wait()
        ticks = (r.u64 * count)()
        self.api.vkGetQueryPoolResults(
            self.device.handle,
            self._queries(),
            0,
            count,
            C.sizeof(ticks),
            C.addressof(ticks),
            8,
            WITH_64_BITS | WAITED,
        )
        period = self.device.found.limits.timestampPeriod * 1e-9
        mask = (1 << self.device.timestamp_bits) - 1
        return [((ticks[2 * n + 1] - ticks[2 * n]) & mask) * period for n in range(len(calls))]

    def _queries(self) -> int:
        if not self._stamps:
            create = r.QueryPoolCreateInfo(queryType=TIMESTAMP, queryCount=MOST_STAMPS)
            made = self.api.create("vkCreateQueryPool", self.device.handle, create)
            handle = self.device.handle
            self.device.at_close(lambda: self.api.vkDestroyQueryPool(handle, made, None))
            self._stamps = made
        return self._stamps
