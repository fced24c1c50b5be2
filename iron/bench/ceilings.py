"""What the machine can do at all, measured in the same turns as the kernels it is the limit of.

Copy and read rates come from plain kernels over memory that no cache holds, the arithmetic rate
from fused multiply-adds in registers, the floor of a launch from a kernel that does nothing. Rows
of many operations a byte have one more: a library's rate at a large product of matrices in their
dtype, since multiply-adds in registers do not reach the units for matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iron.bench import streams
from iron.bench.measure import Contender, Protocol, rest
from iron.bench.peers.record import PRODUCT, Subject, peers_of
from iron.bench.spread import Spread
from iron.dtypes import DType
from iron.runtime.current import use
from iron.runtime.driver import Driver
from iron.runtime.drivers.cpu_pool import thread_count

HOST_STREAM = 16 << 20
DEVICE_STREAM = 128 << 20
"""f32 elements that the copy and read kernels move."""

DEVICE_FLUSH = 256 << 20
"""Bytes read to empty a GPU's caches: more than twice the largest L2 there is."""

HOST_LEAST = 64 << 20
ROW = 1 << 14
MATRIX = {"cpu": 1024, "gpu": 8192, "software": 64}
"""The side of the matrices whose product is the ceiling of matrix units."""

FMA_ROWS = {"cpu": 256, "gpu": 4096, "software": 4}
CHAINS = 12
TURNS = 4096


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Rates of the machine: bytes a second, operations a second in f32, seconds of a launch.

    `matrix` is the operations a second of a product of matrices in a row's dtype, or 0.
    """

    copy: float
    read: float
    flops: float
    launch: float
    matrix: float = 0.0

    @property
    def operations(self) -> float:
        """The operations a second that bound a row."""
        return max(self.flops, self.matrix)

    def document(self) -> dict[str, float]:
        """The rates that were measured, by name."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: rate for name, rate in found.items() if rate}


def read(document: Mapping[str, float]) -> Ceilings:
    """The rates from `Ceilings.document`."""
    known = {n: document[n] for n in Ceilings.__dataclass_fields__ if n != "matrix"}
    return Ceilings(**known, matrix=document.get("matrix", 0.0))


def best(found: list[Ceilings]) -> Ceilings:
    """The highest rates and the shortest launch of a run."""
    return Ceilings(
        max(c.copy for c in found),
        max(c.read for c in found),
        max(c.flops for c in found),
        min(c.launch for c in found),
        max(c.matrix for c in found),
    )


class Scale:
    """The kernels of `streams` bound on a driver."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._flush: Callable[[], Any] | None = None
        self._products: dict[DType, Callable[[], Any] | None] = {}
        count = HOST_STREAM if _on_host(driver) else DEVICE_STREAM
        self._bytes = 4 * count
        family = "software" if software(driver) else driver.target().family
        self._side = MATRIX[family]
        with use(driver):
            x = driver.upload(np.ones(count, np.float32))
            y = driver.upload(np.zeros(count, np.float32))
            table = driver.upload(np.ones((count // ROW, ROW), np.float32))
            sums = driver.upload(np.zeros(count // ROW, np.float32))
            threads = driver.target().simd if family == "cpu" else 256
            many = driver.upload(np.zeros((FMA_ROWS[family], threads), np.float32))
            few = driver.upload(np.zeros(64, np.float32))
            self._flops = 2 * FMA_ROWS[family] * threads * CHAINS * TURNS
            fma = {"CHAINS": CHAINS, "TURNS": TURNS, "THREADS": threads}
            self._calls: dict[str, Callable[[], Any]] = {
                "copy": streams.stream_copy.bind(x, y=y),
                "read": streams.stream_read.bind(table, y=sums),
                "flops": streams.arithmetic.bind(y=many, **fma),
                "launch": streams.nothing.bind(y=few),
            }
        self.nothing = self._calls["launch"]

    def contenders(self, product: DType | None = None) -> list[Contender]:
        """What to take along in every measurement; a product of matrices of a dtype, if given."""
        calls = dict(self._calls)
        if product is not None and (call := self._product(product)) is not None:
            calls["matrix"] = call
        return [Contender(f"ceiling {n}", call, True) for n, call in calls.items()]

    def _product(self, dtype: DType) -> Callable[[], Any] | None:
        """A product of square matrices by the first library that has one for this device."""
        if dtype not in self._products:
            self._products[dtype] = None
            for peer, _ in peers_of(PRODUCT, self.driver.device, ()):
                sizes = {"SIDE": self._side}
                subject = Subject({}, {}, {"T": dtype}, sizes, self.driver.device, thread_count())
                if (attempt := peer.make(subject)) is not None:
                    self._products[dtype] = attempt.call
                    break
        return self._products[dtype]

    def rates(self, spreads: Mapping[str, Spread]) -> Ceilings:
        """The ceilings that their timings say."""
        prefix = "ceiling "
        seconds = {
            n.removeprefix(prefix): s.median for n, s in spreads.items() if n.startswith(prefix)
        }
        return Ceilings(
            2 * self._bytes / seconds["copy"],
            self._bytes / seconds["read"],
            self._flops / seconds["flops"],
            seconds["launch"],
            2 * self._side**3 / seconds["matrix"] if "matrix" in seconds else 0.0,
        )

    def protocol(self, cold: bool, **limits: Any) -> Protocol:
        """Turns with the caches emptied, or left as they are."""
        if cold and self._flush is None:
            with use(self.driver):
                self._flush = flush(self.driver)
        return Protocol(self._flush if cold else None, **limits)


def software(driver: Driver) -> bool:
    """True for a device that the host's processor plays."""
    return bool(getattr(driver, "software", False))


def _on_host(driver: Driver) -> bool:
    return driver.device == "cpu" or software(driver)


def flush(driver: Driver) -> Callable[[], Any]:
    """Empties the caches by reading: what a write leaves there is paid for by the next kernel.

    To be called, and its result, while `driver` is in use.
    """
    if not _on_host(driver):
        size = DEVICE_FLUSH
    elif software(driver):
        size = HOST_LEAST  # one array has a limit there
    else:
        size = max(HOST_LEAST, 2 * last_level_cache())
    rows = size // (4 * ROW) + 1
    memory = driver.upload(np.ones((rows, ROW), np.float32))
    sums = driver.upload(np.zeros(rows, np.float32))
    read = streams.stream_read.bind(memory, y=sums)
    if not _on_host(driver):
        return read

    def rested() -> None:
        rest()
        read()

    return rested


def last_level_cache(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """Bytes of this machine's largest cache as the system tells; 0 where it does not."""
    sizes = [_bytes(file.read_text().strip()) for file in root.glob("index*/size")]
    return max(sizes, default=0)


def _bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text.rstrip("KMG") or 0) * units.get(text[-1:], 1)
