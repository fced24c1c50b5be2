"""Compiling over and over leaves no memory behind."""

import ctypes
import gc
import sys
from pathlib import Path

import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import host, object_code
from iron.check.generate import generate
from iron.passes.elementary import elementary

PAGE = 4096
KEPT = 20_000  # bytes a compilation may keep; a pass manager that is thrown away keeps 40 000


def resident() -> int:
    """Bytes of this process in memory, free ones given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_compiling_again_keeps_no_memory():
    text = compile_kernel(elementary(generate(3, simd=32).kernel), host()).text
    for _ in range(3):
        object_code(text, host())
    before, turns = resident(), 8
    for _ in range(turns):
        object_code(text, host())
    assert (resident() - before) / turns < KEPT
