"""Apple's Metal, as far as Iron calls it: every call of Objective-C is here, and no decision.

The only file that uses `Metal` and `objc` of pyobjc. Tests hand in modules of the same names.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from iron.errors import error

INSTALL = "pip install 'iron-kernels[metal]'"
OLDEST = 14
"""macOS 14 has Metal 3.1, whose language the text is compiled as: it has matrices of bfloat."""

Pool = Callable[[], AbstractContextManager[Any]]


def bindings() -> tuple[Any, Pool]:
    """`Metal` of pyobjc, and what opens a pool of its objects. E0603 says what is missing."""
    if platform.system() != "Darwin":
        raise error("E0603", "Metal is a part of macOS", help=f"on a Mac: {INSTALL}")
    version = platform.mac_ver()[0]
    if int(version.partition(".")[0] or 0) < OLDEST:
        raise error("E0603", f"macOS {version} has no Metal 3.1", help=f"update to macOS {OLDEST}")
    try:
        return import_module("Metal"), import_module("objc").autorelease_pool
    except ImportError as absent:
        raise error("E0603", f"no module named {absent.name}", help=INSTALL) from None


class Api:
    """The system's default device and one queue of it."""

    def __init__(self, metal: Any, pool: Pool) -> None:
        self.metal, self.pool = metal, pool
        self.device = metal.MTLCreateSystemDefaultDevice()
        if self.device is None:
            raise error("E0603", "there is no GPU that Metal can use", help="log in to the desktop")
        self.queue = self.device.newCommandQueue()

    # --- the device -------------------------------------------------------------------------------

    def name(self) -> str:
        """What the device is called."""
        return str(self.device.name())

    def supports(self, family: str) -> bool:
        """Whether the GPU is of a family, `Apple7` say; not of one that pyobjc does not know."""
        number = getattr(self.metal, f"MTLGPUFamily{family}", None)
        return number is not None and bool(self.device.supportsFamily_(number))

    def memory(self) -> int:
        """Bytes that the GPU works with at full speed."""
        return int(self.device.recommendedMaxWorkingSetSize())

    def group_memory(self) -> int:
        """Bytes of memory that a group shares at most."""
        return int(self.device.maxThreadgroupMemoryLength())

    # --- code -------------------------------------------------------------------------------------

    def library(self, source: str) -> tuple[Any, Any]:
        """Compiled text, or None, and an NSError: Metal 3.1, arithmetic as it is written."""
        options = self.metal.MTLCompileOptions.alloc().init()
        options.setLanguageVersion_(self.metal.MTLLanguageVersion3_1)
        if options.respondsToSelector_("setMathMode:"):  # since macOS 15
            options.setMathMode_(self.metal.MTLMathModeSafe)
            options.setMathFloatingPointFunctions_(self.metal.MTLMathFloatingPointFunctionsPrecise)
        else:
            options.setFastMathEnabled_(False)
        return self.device.newLibraryWithSource_options_error_(source, options, None)

    def pipeline(self, library: Any, symbol: str) -> tuple[Any, Any]:
        """A kernel ready to run, or None, and an NSError."""
        function = library.newFunctionWithName_(symbol)
        return self.device.newComputePipelineStateWithFunction_error_(function, None)

    # --- memory -----------------------------------------------------------------------------------

    def buffer(self, size: int) -> Any:
        """New memory that the CPU and the GPU share, or None."""
        shared = self.metal.MTLResourceStorageModeShared
        return self.device.newBufferWithLength_options_(size, shared)

    def adopted(self, memory: Any, size: int) -> Any:
        """A buffer over whole pages of the caller's, which stay the caller's, or None."""
        return self.device.newBufferWithBytesNoCopy_length_options_deallocator_(
            memory, size, self.metal.MTLResourceStorageModeShared, None
        )

    def contents(self, buffer: Any, size: int) -> memoryview:
        """The bytes of a buffer; the buffer must stay alive."""
        return buffer.contents().as_buffer(size)

    # --- work -------------------------------------------------------------------------------------

    def launch(
        self,
        pipeline: Any,
        buffers: Sequence[tuple[Any, int]],
        values: bytes,
        groups: int,
        threads: int,
    ) -> Any:
        """Commits a command buffer that runs one kernel; buffers come with an offset in bytes."""
        with self.pool():
            command = self.queue.commandBuffer()
            encoder = command.computeCommandEncoder()
            encoder.setComputePipelineState_(pipeline)
            for number, (buffer, offset) in enumerate(buffers):
                encoder.setBuffer_offset_atIndex_(buffer, offset, number)
            if values:
                encoder.setBytes_length_atIndex_(values, len(values), len(buffers))
            encoder.dispatchThreadgroups_threadsPerThreadgroup_((groups, 1, 1), (threads, 1, 1))
            encoder.endEncoding()
            command.commit()
            return command

    def wait(self, command: Any) -> Any:
        """Waits until a command buffer is done; its NSError, or None."""
        command.waitUntilCompleted()
        return command.error()

    def span(self, command: Any) -> tuple[float, float]:
        """When the GPU began and ended a command buffer that is done, in seconds."""
        return float(command.GPUStartTime()), float(command.GPUEndTime())
