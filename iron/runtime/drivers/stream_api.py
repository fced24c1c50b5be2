"""What the driver interfaces of CUDA and HIP have alike: checked calls, faults, memory and time.

A vendor's file gives the names, opens the device, loads code and launches it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from iron.errors import KernelError, error


@dataclass(frozen=True, slots=True)
class Names:
    """What a vendor calls its functions and errors; an error without its prefix.

    `outside` are the errors of a kernel that left its memory, `lasting` those after which a process
    launches nothing more.
    """

    vendor: str
    error: str
    full: str
    outside: tuple[str, ...]
    lasting: tuple[str, ...]
    allocate: str
    free: str
    send: str
    fetch: str
    synchronise: str
    create: str
    record: str
    elapsed: str
    destroy: str

    def of(self, result: Any) -> str:
        """The name of a call's result."""
        return str(getattr(result, "name", result)).removeprefix(self.error)


class StreamApi(ABC):
    """One device of a vendor's driver interface: every result checked, addresses as ints."""

    names: ClassVar[Names]

    def __init__(self, binding: Any, ordinal: int, success: Any) -> None:
        self.binding = binding
        self.ordinal = ordinal
        self.lost = False
        self.success = success

    # --- the vendor's ----------------------------------------------------------------------------

    @abstractmethod
    def enter(self) -> None:
        """Makes the device the one of this thread."""

    @abstractmethod
    def most_groups(self, threads: int) -> int:
        """The groups of `threads` that one launch may have."""

    @abstractmethod
    def function(self, code: bytes, symbol: str, shared: int) -> Any:
        """The kernel of a module, in memory; it may ask for `shared` bytes at a launch."""

    @abstractmethod
    def launcher(
        self,
        function: Any,
        grid: tuple[int, int],
        threads: int,
        shared: int,
        parameters: int,
        stream: Callable[[], int],
    ) -> Callable[[], None]:
        """A launch on the stream that `stream()` names; `parameters` is the packed arguments."""

    # --- calls ------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any) -> Any:
        """The function's one result, or None; a fault is a KernelError."""
        result, *rest = getattr(self.binding, name)(*args)
        if result != self.success:
            raise self.fault(result, name)
        return rest[0] if rest else None

    def fault(self, result: Any, what: str) -> KernelError:
        """What a failed call means for the user."""
        name = self.names.of(result)
        self.lost = self.lost or name in self.names.lasting
        if name == self.names.full:
            return error(
                "E0502", "the GPU's memory is full", help="free arrays, or use smaller ones"
            )
        if name in self.names.outside:
            return error(
                "E0404",
                f"a kernel reached outside its memory, and the GPU stopped it ({name})",
                notes=("nothing more can be launched from this process",),
                help='run the call under `iron.use("interp")`, which names the line',
            )
        return error("E0901", f"{what}: {self.names.vendor} error {name}")

    # --- memory -----------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """The address of `size` new bytes, aligned to 256."""
        self.enter()
        return int(self.call(self.names.allocate, max(1, size)))

    def free(self, address: int) -> None:
        """Gives memory back; the device finishes what uses it first. A lost device has none."""
        if not self.lost:
            self.enter()
            self.call(self.names.free, address)

    def send(self, to: int, host: int, size: int) -> None:
        """Copies from host memory; earlier launches on the default stream come first."""
        if size:
            self.enter()
            self.call(self.names.send, to, host, size)

    def fetch(self, host: int, at: int, size: int) -> None:
        """Copies to host memory, after what was launched on the default stream."""
        if size:
            self.enter()
            self.call(self.names.fetch, host, at, size)

    def synchronise(self) -> None:
        """Waits for everything launched from this process on the device."""
        self.enter()
        self.call(self.names.synchronise)

    # --- time -------------------------------------------------------------------------------------

    def event(self) -> Any:
        """A new event that keeps time."""
        return self.call(self.names.create)

    def record(self, event: Any, stream: int) -> None:
        """Marks the end of what is on the stream so far."""
        self.call(self.names.record, event, stream)

    def between(self, first: Any, last: Any) -> float:
        """Seconds between two events that have happened."""
        return float(self.call(self.names.elapsed, first, last)) / 1e3

    def drop(self, event: Any) -> None:
        """Gives an event back."""
        self.call(self.names.destroy, event)
