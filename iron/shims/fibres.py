"""The fibre runtime in this process: compiled units loaded, groups run, faults as records."""

from __future__ import annotations

import ctypes
import mmap
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from iron.errors import Loc
from iron.runtime.cache import Cache
from iron.shims import build

ORDERS = ("forward", "backward", "shuffled")
"""The orders in which the threads of a group get their turns."""


class _Place(ctypes.Structure):
    _fields_ = (("site", ctypes.c_uint), ("line", ctypes.c_int), ("file", ctypes.c_char_p))


class _Fault(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("kind", "signal")),
        *((name, ctypes.c_uint64) for name in ("group", "thread", "other", "address", "code")),
        *((name, ctypes.c_int32) for name in ("state", "other_state")),
        *((name, _Place) for name in ("place", "other_place")),
    )


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a launch ended: `kind` is `parted`, `outside`, `trapped` or `stack`.

    Two threads parted when one is where the other never arrives; `states` and `places` say where
    both are. Otherwise `address` is the memory that was touched and `code` the offset of the
    instruction in its unit.
    """

    kind: str
    group: int
    threads: tuple[int, int]
    states: tuple[str, str]
    places: tuple[Loc | None, Loc | None]
    address: int
    code: int


_KINDS = ("", "parted", "outside", "trapped", "stack")
_STATES = ("running", "at a collective of the simdgroup", "at a barrier", "at the end")


@dataclass(frozen=True, slots=True)
class Order:
    """`name` of ORDERS for every group, or all of them by turns from group to group."""

    name: str = ""
    seed: int = 0


class Fibres:
    """The runtime library. One launch runs at a time; kernels' shared arrays are static."""

    def __init__(self, defines: Sequence[str] = (), store: Cache | None = None) -> None:
        text = (build.FOLDER / "fibres.cpp").read_text()
        code = build.built(text, (*build.RUNTIME, *defines), store, "the fibre runtime")
        self._lock = threading.Lock()
        self._library = _loaded(code, ctypes.RTLD_GLOBAL)
        self._library.fibre_switch_name.restype = ctypes.c_char_p
        self._library.fibre_map.restype = ctypes.c_void_p
        self._library.fibre_map.argtypes = (ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)
        self._library.fibre_unmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self._library.fibre_run.argtypes = (
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint, ctypes.c_uint),
            *(ctypes.c_uint, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p),
        )

    def load(self, code: bytes) -> ctypes.CDLL:
        """A compiled unit; its symbols `fibre_kernel_0` .. are what `run` takes."""
        return _loaded(code, ctypes.RTLD_LOCAL)

    def switch(self) -> str:
        """How fibres are switched: `x86-64`, or `ucontext` elsewhere."""
        return self._library.fibre_switch_name().decode()

    def map(self, size: int) -> tuple[int, int, int, int]:
        """Guarded memory: its address, where its first page begins, and the mapping."""
        whole, whole_size = ctypes.c_void_p(), ctypes.c_size_t()
        at = self._library.fibre_map(size, ctypes.byref(whole), ctypes.byref(whole_size))
        if not at or whole.value is None:
            raise MemoryError(f"{size} bytes between guard pages")
        return at, whole.value + mmap.PAGESIZE, whole.value, whole_size.value

    def unmap(self, whole: int, size: int) -> None:
        """Gives a mapping back."""
        self._library.fibre_unmap(whole, size)

    def run(
        self, kernel: int, words: int, groups: int, simd: int, threads: int, order: Order
    ) -> Fault | None:
        """Runs every group of a kernel on the argument words at an address."""
        fault = _Fault()
        first = ORDERS.index(order.name) if order.name else order.seed % len(ORDERS)
        with self._lock:
            status = self._library.fibre_run(
                *(kernel, words, groups, simd, threads),
                *(first, int(bool(order.name)), order.seed + 1, ctypes.byref(fault)),
            )
        if status == 2:
            raise MemoryError(f"stacks of {threads} threads")
        return _record(fault) if status else None


def _loaded(code: bytes, mode: int) -> ctypes.CDLL:
    with tempfile.NamedTemporaryFile(prefix="iron-", suffix=".so") as file:
        file.write(code)
        file.flush()
        return ctypes.CDLL(file.name, mode)


def _record(f: _Fault) -> Fault:
    places = tuple(
        Loc(p.file.decode(), p.line) if p.file else None for p in (f.place, f.other_place)
    )
    return Fault(
        _KINDS[f.kind],
        f.group,
        (f.thread, f.other),
        (_STATES[f.state], _STATES[f.other_state]),
        (places[0], places[1]),
        f.address,
        f.code,
    )


@cache
def fibres() -> Fibres:
    """The runtime of this process."""
    return Fibres(store=Cache())
