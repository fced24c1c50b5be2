"""A stand-in for `Metal` of pyobjc: it knows the real selectors, and runs text on fibres.

`metal_selectors.json` holds selectors and enumerations as pyobjc records them. A selector that is
not there, or that an object of the kind does not have, a wrong count or type of arguments, or
calls in an order that Metal forbids raise in the test. Work runs when something waits for it.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iron.backends.clike.dialect import Argument
from iron.backends.clike.render import Text
from iron.dtypes import DTYPES
from iron.errors import KernelError
from iron.runtime.drivers.metal import MetalDriver
from iron.runtime.drivers.metal.api import Api
from iron.shims.fibres import Fault
from iron.shims.metal_text import WORDS
from tests.contract.fibre_player import Player

KNOWN = json.loads((Path(__file__).parent / "metal_selectors.json").read_text())
SELECTORS: dict[str, list[str]] = KNOWN["selectors"] | KNOWN["documented"]
PAGE = mmap.PAGESIZE
NEVER, COMMITTED, COMPLETED, FAILED = 0, 2, 4, 5


def fitting(kind: str, given: Any) -> bool:
    """Whether pyobjc takes `given` for an argument of this Objective-C type."""
    match kind:
        case "out":
            return given is None
        case "Q":
            return isinstance(given, int) and given >= 0
        case "q":
            return isinstance(given, int)
        case "Z":
            return isinstance(given, bool)
        case "{MTLSize=QQQ}":
            return len(given) == 3 and all(isinstance(n, int) and n >= 0 for n in given)
        case "^v":
            return isinstance(given, bytes | memoryview)
        case "@?":
            return given is None or callable(given)
        case ":":
            return isinstance(given, str) and given in SELECTORS
        case _:
            return not isinstance(given, int | bytes)


class Object:
    """An Objective-C object: methods by pyobjc's spelling of their selectors."""

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)

    def __getattr__(self, name: str) -> Any:
        selector = name.replace("_", ":")
        if selector not in SELECTORS:
            raise AttributeError(f"Metal has no selector {selector}")
        body = getattr(type(self), f"on_{name}", None)
        if body is None:
            raise AttributeError(f"{type(self).__name__} does not respond to {selector}")

        def call(*args: Any) -> Any:
            kinds = SELECTORS[selector]
            if len(args) != len(kinds):
                raise TypeError(f"{selector}: Need {len(kinds)} arguments, got {len(args)}")
            for kind, given in zip(kinds, args, strict=True):
                if not fitting(kind, given):
                    raise TypeError(f"{selector}: {given!r} for an argument of type {kind}")
            return body(self, *args)

        return call


class Error(Object):
    """An NSError."""

    def on_localizedDescription(self) -> str:
        return self.text

    def on_code(self) -> int:
        return self.number


class VarList:
    """What pyobjc gives for a pointer to bytes: an `objc.varlist`."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def as_buffer(self, count: int) -> memoryview:
        return memoryview(self.memory).cast("B")[:count]


class Buffer(Object):
    """Shared memory; `memory` is a ctypes array of bytes."""

    def on_contents(self) -> VarList:
        return VarList(self.memory)

    def on_length(self) -> int:
        return len(self.memory)


class Options(Object):
    """MTLCompileOptions; those of macOS 14 and before have no math mode."""

    def on_init(self) -> Options:
        return self

    def on_respondsToSelector_(self, selector: str) -> bool:
        return selector not in self.device.lacks

    def on_setLanguageVersion_(self, version: int) -> None:
        self.version = version

    def on_setMathMode_(self, mode: int) -> None:
        assert "setMathMode:" not in self.device.lacks
        self.exact = mode == KNOWN["enums"]["MTLMathModeSafe"]

    def on_setMathFloatingPointFunctions_(self, which: int) -> None:
        assert "setMathMode:" not in self.device.lacks

    def on_setFastMathEnabled_(self, fast: bool) -> None:
        self.exact = not fast


class Library(Object):
    """Compiled text."""

    def on_newFunctionWithName_(self, name: str) -> Any:
        return Function(text=self.text) if name == self.text.symbol else None


class Function(Object):
    """A kernel of a library."""


class Pipeline(Object):
    """A kernel ready to run."""

    def on_threadExecutionWidth(self) -> int:
        return self.device.width

    def on_maxTotalThreadsPerThreadgroup(self) -> int:
        return self.device.most_threads

    def on_staticThreadgroupMemoryLength(self) -> int:
        return self.device.group_bytes


class Encoder(Object):
    """A compute encoder: what is set, then a dispatch."""

    def on_setComputePipelineState_(self, pipeline: Pipeline) -> None:
        assert self.command.open
        self.pipeline, self.given = pipeline, dict[int, Any]()

    def on_setBuffer_offset_atIndex_(self, buffer: Buffer, offset: int, index: int) -> None:
        assert offset <= len(buffer.memory)
        self.given[index] = buffer, offset

    def on_setBytes_length_atIndex_(self, raw: bytes, length: int, index: int) -> None:
        assert length == len(raw) <= 4096
        self.given[index] = bytes(raw)

    def on_dispatchThreadgroups_threadsPerThreadgroup_(self, groups: Any, threads: Any) -> None:
        assert groups[1:] == threads[1:] == (1, 1)
        assert 0 < groups[0] < 1 << 32
        assert threads[0] <= self.pipeline.device.most_threads
        text = self.pipeline.text
        count = sum(a.pointer for a in text.arguments)
        bound = count + (count < len(text.arguments))
        assert sorted(self.given) == list(range(bound)), "a buffer of the kernel is not bound"
        self.command.work.append((text, dict(self.given), groups[0], threads[0]))

    def on_endEncoding(self) -> None:
        self.command.open = False


class Command(Object):
    """A command buffer."""

    state, open, fault, span = NEVER, False, None, (0.0, 0.0)

    def on_computeCommandEncoder(self) -> Encoder:
        assert not self.open
        self.open = True
        return Encoder(command=self)

    def on_commit(self) -> None:
        assert not self.open, "commit before endEncoding"
        assert self.state == NEVER, "committed twice"
        self.state = COMMITTED
        self.device.committed.append(self)

    def on_waitUntilCompleted(self) -> None:
        assert self.state != NEVER, "waits for what was never committed"
        while self.state == COMMITTED:
            self.device.committed.pop(0).run()

    def on_status(self) -> int:
        return self.state

    def on_error(self) -> Any:
        return self.fault

    def on_GPUStartTime(self) -> float:
        assert self.state in (COMPLETED, FAILED)
        return self.span[0]

    def on_GPUEndTime(self) -> float:
        assert self.state in (COMPLETED, FAILED)
        return self.span[1]

    def run(self) -> None:
        begin = time.perf_counter()
        for work in self.work:
            said = self.device.play(*work)
            if said is not None or self.device.next_fault:
                number = self.device.next_fault or KNOWN["enums"]["MTLCommandBufferErrorPageFault"]
                self.fault = Error(text=f"Caused GPU error {number}", number=number)
                self.device.next_fault = 0
        self.span = begin, time.perf_counter()
        self.state = FAILED if self.fault else COMPLETED


class Queue(Object):
    """A command queue."""

    def on_commandBuffer(self) -> Command:
        assert self.device.pools, "a command buffer outside a pool of Objective-C objects"
        assert len(self.device.committed) < 64, "this queue would block"
        return Command(device=self.device, work=[])


class Device(Object):
    """One GPU. `families` are those it belongs to; `lacks` what this macOS does not have."""

    def __init__(self) -> None:
        super().__init__(
            families=("Apple7", "Apple8", "Metal3"), lacks=set[str](), width=32, most_threads=1024,
            group_bytes=0, memory=1 << 30, pools=0, next_fault=0, copies=False,
            committed=list[Command](), libraries=list[Library](), buffers=list[Buffer](),
            player=Player(WORDS, 32),
        )  # fmt: skip

    def on_name(self) -> str:
        return "Fake M2"

    def on_supportsFamily_(self, number: int) -> bool:
        return any(number == KNOWN["enums"][f"MTLGPUFamily{f}"] for f in self.families)

    def on_recommendedMaxWorkingSetSize(self) -> int:
        return self.memory

    def on_maxThreadgroupMemoryLength(self) -> int:
        return 32 << 10

    def on_newCommandQueue(self) -> Queue:
        return Queue(device=self)

    def on_newBufferWithLength_options_(self, length: int, options: int) -> Buffer | None:
        assert length > 0
        assert options == KNOWN["enums"]["MTLResourceStorageModeShared"]
        if length > self.memory:
            return None
        raw = (ctypes.c_ubyte * (length + 2 * PAGE))()
        first = -ctypes.addressof(raw) % PAGE
        return self._made((ctypes.c_ubyte * length).from_buffer(raw, first))

    def on_newBufferWithBytesNoCopy_length_options_deallocator_(
        self, raw: memoryview, length: int, options: int, deallocator: Any
    ) -> Buffer:
        assert deallocator is None
        assert length == len(raw)
        assert length % PAGE == 0
        memory = (ctypes.c_ubyte * length).from_buffer(raw)
        assert ctypes.addressof(memory) % PAGE == 0
        if self.copies:
            return self._made((ctypes.c_ubyte * length).from_buffer_copy(raw))
        return self._made(memory)

    def _made(self, memory: Any) -> Buffer:
        self.buffers.append(Buffer(memory=memory))
        return self.buffers[-1]

    def on_newLibraryWithSource_options_error_(
        self, source: str, options: Options, error: None
    ) -> Any:
        assert options.exact, "arithmetic as it is written"
        assert options.version == KNOWN["enums"]["MTLLanguageVersion3_1"]
        try:
            text = parsed(source)
            self.player.compile(text)
        except KernelError as wrong:
            return None, Error(text="\n".join(wrong.diagnostic.notes), number=3)
        self.libraries.append(Library(text=text, source=source))
        return self.libraries[-1], None

    def on_newComputePipelineStateWithFunction_error_(self, function: Function, error: None) -> Any:
        return Pipeline(text=function.text, device=self), None

    def play(self, text: Text, given: dict[int, Any], groups: int, threads: int) -> Fault | None:
        """Runs a kernel on what is bound: buffers, and the fields of its structure."""
        words: list[int] = []
        at = 0
        raw = given.get(sum(a.pointer for a in text.arguments), b"")
        for number, a in enumerate(text.arguments):
            if a.pointer:
                buffer, offset = given[number]
                words.append(ctypes.addressof(buffer.memory) + offset)
                continue
            at = -(-at // a.dtype.bytes) * a.dtype.bytes
            words.append(int.from_bytes(raw[at : at + a.dtype.bytes], "little"))
            at += a.dtype.bytes
        assert at <= len(raw), "the structure is shorter than its fields"
        return self.player.play(text, words, groups, threads)


# --- the text -------------------------------------------------------------------------------------

_BUFFER = re.compile(r"device (const )?(\w+)\* (\w+) \[\[buffer\((\d+)\)\]\]")
_FIELDS = re.compile(r"struct \w+_arguments \{\n((?:  \w+ \w+;\n)+)\};")
_SYMBOL = re.compile(r"kernel void (\w+)\(")


def parsed(source: str) -> Text:
    """The text of one kernel, from its source alone."""
    prelude, _, body = source.partition("\n\n#line")
    body = f"#line{body}"
    symbol = _SYMBOL.search(body)
    assert symbol is not None, "no kernel"
    buffers = _BUFFER.findall(body)
    assert [int(b[3]) for b in buffers] == list(range(len(buffers)))
    fields = _FIELDS.search(body)
    values = re.findall(r"(\w+) (\w+);", fields[1]) if fields else []
    arguments = [Argument(name, DTYPES[t], True, not const) for const, t, name, _ in buffers]
    arguments += [Argument(name, DTYPES[t]) for t, name in values]
    lines = (None,) * (body.count("\n") + 1)
    return Text(symbol[1], prelude, body, tuple(arguments), lines)


# --- the module -----------------------------------------------------------------------------------


class MTLCompileOptions:
    """The class object; `device` is the one whose options it makes."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def alloc(self) -> Options:
        return Options(device=self.device, exact=False, version=0)


class FakeMetal:
    """The module `Metal`; `device` None is a machine without a GPU."""

    def __init__(self, device: Device | None = None) -> None:
        self.device = device
        if device is not None:
            self.MTLCompileOptions = MTLCompileOptions(device)

    def MTLCreateSystemDefaultDevice(self) -> Device | None:
        return self.device

    def __getattr__(self, name: str) -> int:
        if name not in KNOWN["enums"]:
            raise AttributeError(f"Metal has no {name}, as far as this fake knows")
        return KNOWN["enums"][name]

    @contextmanager
    def pool(self) -> Any:
        assert self.device is not None
        self.device.pools += 1
        yield
        self.device.pools -= 1


def opened(device: Device) -> MetalDriver:
    """The driver of Metal on a fake device."""
    metal = FakeMetal(device)
    return MetalDriver(Api(metal, metal.pool))


def fake_driver() -> MetalDriver:
    """The driver of Metal on a fake GPU of the family `apple8`."""
    return opened(Device())
