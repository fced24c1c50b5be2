"""The process's launcher: the C-speed callable, the pool of worker threads, its state after a fork.

Workers are daemon threads inside a function that never returns; they are started on the first
launch that can use them. `IRON_CPU_THREADS` sets how many threads take part in a launch.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from iron.backends.cpu.launcher import SPIN, launcher_text, waits_on_futex
from iron.backends.cpu.machine import Linked
from iron.errors import error
from iron.runtime.cache import Cache
from iron.runtime.drivers.cpu_objects import ObjectStore
from iron.targets.target import Target

METH_FASTCALL = 0x80

SYMBOLS = ("call", "run", "worker", "ticket", "left", "sleepers", "busy")


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def thread_count(environ: dict[str, str] | None = None) -> int:
    """Threads that take part in a launch: `IRON_CPU_THREADS`, else the CPUs this process may use.

    Raises E0803 for a value that is not a whole number from 1 to 1024.
    """
    given = (os.environ if environ is None else environ).get("IRON_CPU_THREADS")
    if given:
        if not given.isdecimal() or not 1 <= int(given) <= 1024:
            raise error(
                "E0803",
                f"IRON_CPU_THREADS is {given!r}",
                help="it is the number of threads of a launch: 1 to 1024",
            )
        return int(given)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@dataclass(slots=True)
class Pool:
    """The launcher module in memory; `threads` counts the launching thread."""

    linked: Linked
    method: _MethodDef
    threads: int
    started: bool

    def callable(self, job: int, kept: tuple[Any, ...]) -> Callable[[], None]:
        """A built-in function that launches the job at this address and keeps `kept` alive.

        Its `__self__` is the tuple of both.
        """
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        return make(ctypes.addressof(self.method), (job, *kept), None)

    def start(self) -> None:
        """Starts the workers, once."""
        with _LOCK:
            if self.started:
                return
            self.started = True
            for number in range(self.threads - 1):
                name = f"iron-cpu-{number}"
                threading.Thread(target=self._work, daemon=True, name=name).start()

    def _work(self) -> None:
        """Never returns, and so keeps the pool's code in memory."""
        ctypes.CFUNCTYPE(None, ctypes.c_int32)(self.linked["worker"])(SPIN)

    def forget_threads(self) -> None:
        """What a forked child does: the workers and any launch in flight are gone."""
        for name, size in (("ticket", 8), ("left", 8), ("sleepers", 4), ("busy", 4)):
            ctypes.memset(self.linked[name], 0, size)
        self.started = False


_LOCK = threading.Lock()


@cache
def pool(target: Target) -> Pool:
    """The process's pool for a target; its code is kept in the user's cache."""
    store = ObjectStore(target, Cache())
    opened = open_pool(target, store, thread_count(), futex=waits_on_futex(target.triple))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=opened.forget_threads)
    return opened


def open_pool(target: Target, store: ObjectStore, threads: int, *, futex: bool) -> Pool:
    """A pool of its own; `futex=False` is the form for systems without one."""
    text = launcher_text(target.triple, futex=futex)
    linked = store.linked(text, "launcher", lambda: text, *SYMBOLS, imports=_imports(futex))
    method = _MethodDef(b"launch", linked["call"], METH_FASTCALL, None)
    return Pool(linked, method, threads, False)


def _imports(futex: bool) -> dict[str, int]:
    python = ctypes.pythonapi

    def at(function: Any) -> int:
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        return address

    found = {
        "iron_none": id(None),
        "iron_incref": at(python.Py_IncRef),
        "iron_item": at(python.PyTuple_GetItem),
        "iron_pointer": at(python.PyLong_AsVoidPtr),
        "iron_save": at(python.PyEval_SaveThread),
        "iron_restore": at(python.PyEval_RestoreThread),
    }
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32")
        return found | {"iron_yield": at(kernel.SwitchToThread), "iron_nap": at(kernel.Sleep)}
    libc: Any = ctypes.CDLL(None)
    found["iron_yield"] = at(libc.sched_yield)
    found["iron_syscall" if futex else "iron_nap"] = at(libc.syscall if futex else libc.usleep)
    return found
