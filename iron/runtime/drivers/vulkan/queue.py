"""Command buffers and their order on the device's one queue.

What waits is joined in one command buffer, recorded step by step: launches inside a secondary
buffer of their own never run side by side, and cost a device as much again. A barrier stands before
each that touches what those before it wrote, or writes what they read. The same launches in the
same order find their buffer again, and cost an append each.
"""

from __future__ import annotations

import ctypes as C
import itertools
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

from iron.runtime.drivers.vulkan import records as r
from iron.runtime.drivers.vulkan.api import SUCCESS
from iron.runtime.drivers.vulkan.device import CPU, Device
from iron.runtime.drivers.vulkan.hazards import Hazards, Span, Touched, overlap

HOST, COMPUTE, TRANSFER, BOTTOM = 0x4000, 0x800, 0x1000, 0x2000
HOST_READ, HOST_WRITE = 0x2000, 0x4000
SHADER, UNIFORM, COPY = 0x20 | 0x40, 0x8, 0x800 | 0x1000
SIMULTANEOUS = 0x4
FOREVER = 2**64 - 1
PATIENCE = 5e-4
"""Seconds of asking whether the device is done before the host goes to sleep."""
RESETTABLE = 0x2

MOST_WAITING = 64
MOST_KNOWN = 64
MOST_KEPT = 1 << 14
MOST_STAMPS = 512
TIMESTAMP = 2
WITH_64_BITS, WAITED = 1, 2


class Step(Protocol):
    """Something that runs in its turn: `number` is its own, below 0 for what is never run again.

    `touched` is the memory that it reads and writes, None that it may be any.
    """

    @property
    def number(self) -> int: ...

    @property
    def touched(self) -> Touched | None: ...

    def record(self, commands: int, /) -> None:
        """Adds it to a command buffer."""
        ...


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step that is a function."""

    number: int
    write: Callable[[int], None]
    touched: Touched | None = None

    def record(self, commands: int, /) -> None:
        """Calls the function."""
        self.write(commands)


class Queue:
    """The queue: what waits to be submitted, and what must live until it is done."""

    def __init__(self, device: Device) -> None:
        self.device, self.api = device, device.api
        self.lock = threading.RLock()
        create = r.CommandPoolCreateInfo(flags=RESETTABLE, queueFamilyIndex=device.family)
        self._pool = self.api.create("vkCreateCommandPool", device.handle, create)
        self._fence = self.api.create("vkCreateFence", device.handle, r.FenceCreateInfo())
        self._waiting: list[Step] = []
        self._kept: list[Any] = []
        self._dead: list[Callable[[], None]] = []
        self._known: dict[tuple[int, ...], int] = {}
        self._used: list[int] = []
        self._spare: list[int] = []
        self._open = 0
        self._set: list[Span] = []
        self._numbers = itertools.count()
        self._seen = Recorded(self.number(), self.ordered)
        self._after = r.MemoryBarrier(srcAccessMask=SHADER, dstAccessMask=SHADER | UNIFORM)
        self._stamps = 0
        device.at_close(lambda: self.api.vkDestroyCommandPool(device.handle, self._pool, None))
        device.at_close(lambda: self.api.vkDestroyFence(device.handle, self._fence, None))

    # --- commands ---------------------------------------------------------------------------------

    def number(self) -> int:
        """A number that no other step has."""
        return next(self._numbers)

    def _begun(self) -> int:
        """A command buffer, open for recording; it may be submitted again while it runs."""
        if self._spare:
            made = self._spare.pop()
        else:
            take = r.CommandBufferAllocateInfo(commandPool=self._pool, commandBufferCount=1)
            given = C.c_void_p()
            self.api.vkAllocateCommandBuffers(
                self.device.handle, C.addressof(take), C.addressof(given)
            )
            assert given.value is not None
            made = given.value
        begin = r.CommandBufferBeginInfo(flags=SIMULTANEOUS)
        self.api.vkBeginCommandBuffer(made, C.addressof(begin))
        return made

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

    @contextmanager
    def once(self) -> Generator[int]:
        """A command buffer that has run when the block is left, after everything enqueued.

        It is by itself, so that the launches before it find theirs again.
        """
        with self.lock:
            self.submit()
            commands = self._begun()
            self.ordered(commands)
            yield commands
            self.ordered(commands)
            self.api.vkEndCommandBuffer(commands)
            self._used.append(commands)
            self._hand_over([commands], self._fence)
            self._met()

    def update(self, buffer: int, offset: int, data: bytes) -> None:
        """Sets a few words of a buffer after everything enqueued, and before all that follows.

        Several in a row are one command buffer, handed over with what is enqueued next.
        """
        here = (buffer, offset, offset + len(data))
        with self.lock:
            if self._waiting:
                self.submit()
            if not self._open:
                self._open = self._begun()
                self.ordered(self._open)
            elif overlap([here], self._set):
                self.ordered(self._open)
                self._set.clear()
            self._set.append(here)
            self.api.vkCmdUpdateBuffer(self._open, buffer, offset, len(data), data)
            self._keep(None)

    def _updates(self) -> list[int]:
        """The updates as a command buffer, if there are some."""
        if not self._open:
            return []
        made, self._open = self._open, 0
        self._set.clear()
        self.ordered(made)
        self.api.vkEndCommandBuffer(made)
        self._used.append(made)
        return [made]

    # --- lives ------------------------------------------------------------------------------------

    def later(self, *undo: Callable[[], None]) -> None:
        """Runs `undo` when nothing is in flight any more."""
        self._dead += undo

    def forget(self, number: int) -> None:
        """A step that does not come again: what it was joined with is dropped."""
        for steps in [s for s in self._known if number in s]:
            self._used.append(self._known.pop(steps))

    def _keep(self, kept: object) -> None:
        self._kept.append(kept)
        if len(self._kept) >= MOST_KEPT:
            self.wait()

    def _bury(self) -> None:
        while self._dead:
            self._dead.pop()()

    # --- running ----------------------------------------------------------------------------------

    def enqueue(self, step: Step) -> None:
        """Adds a step, which lives until it has run."""
        with self.lock:
            self._waiting.append(step)
            if len(self._waiting) >= MOST_WAITING:
                self.submit()
            self._keep(step)

    def submit(self, fence: int = 0) -> None:
        """Hands everything that waits to the device."""
        with self.lock:
            if not (self._waiting or self._open or fence):
                return
            commands = self._updates()
            if self._waiting:
                commands.append(self._joined())
            self._hand_over(commands, fence)
            self._waiting.clear()

    def _hand_over(self, commands: Sequence[int], fence: int = 0) -> None:
        listed = (C.c_void_p * max(1, len(commands)))(*commands)
        info = r.SubmitInfo(
            commandBufferCount=len(commands),
            pCommandBuffers=C.cast(listed, C.POINTER(C.c_void_p)),
        )
        self.api.vkQueueSubmit(self.device.queue, 1, C.addressof(info), fence)

    def _joined(self) -> int:
        """A command buffer of what waits: an earlier one where it is the same."""
        steps = tuple([s.number for s in self._waiting])
        if min(steps) < 0:
            self._used.append(self._recorded())
            return self._used[-1]
        found = self._known.pop(steps, 0) or self._recorded()
        self._known[steps] = found
        if len(self._known) > MOST_KNOWN:
            self._used.append(self._known.pop(next(iter(self._known))))
        return found

    def _recorded(self) -> int:
        api, after, hazards = self.api, C.addressof(self._after), Hazards()
        commands = self._begun()
        for step in self._waiting:
            if step.number < 0:
                step.record(commands)
                hazards = Hazards()  # what follows is timed by itself
                continue
            if hazards.waits(step.touched):
                api.vkCmdPipelineBarrier(commands, COMPUTE, COMPUTE, 0, 1, after, 0, None, 0, None)
            step.record(commands)
        api.vkEndCommandBuffer(commands)
        return commands

    def wait(self) -> None:
        """Returns when everything enqueued has run."""
        with self.lock:
            if not self._kept and not self._waiting:
                self._bury()
                return
            self.submit(self._fence)
            self._met()

    def _met(self) -> None:
        """Waits for the fence: everything submitted has run then."""
        fence = r.u64(self._fence)
        if not self._soon():
            self.api.vkWaitForFences(self.device.handle, 1, C.addressof(fence), 1, FOREVER)
        self.api.vkResetFences(self.device.handle, 1, C.addressof(fence))
        self._kept.clear()
        self._spare += self._used
        self._used.clear()
        self._bury()

    def _soon(self) -> bool:
        """Asks again and again for a while: to be woken takes tens of microseconds.

        Not where the device is the host's processor, which has something better to do.
        """
        until = perf_counter() + (0.0 if self.device.found.kind == CPU else PATIENCE)
        while self.api.vkGetFenceStatus(self.device.handle, self._fence) != SUCCESS:
            if perf_counter() > until:
                return False
        return True

    def settle(self) -> None:
        """Returns when everything enqueued has run and the host sees what it wrote."""
        with self.lock:
            if self._kept:
                self.enqueue(self._seen)
            self.wait()

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
            self.enqueue(self._stamp(2 * number))
            call()
            self.enqueue(self._stamp(2 * number + 1))
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

    def _stamp(self, place: int) -> Step:
        def write(commands: int) -> None:
            self.api.vkCmdWriteTimestamp(commands, BOTTOM, self._queries(), place)

        return Recorded(~place, write)

    def _queries(self) -> int:
        if not self._stamps:
            create = r.QueryPoolCreateInfo(queryType=TIMESTAMP, queryCount=MOST_STAMPS)
            made = self.api.create("vkCreateQueryPool", self.device.handle, create)
            handle = self.device.handle
            self.device.at_close(lambda: self.api.vkDestroyQueryPool(handle, made, None))
            self._stamps = made
        return self._stamps
