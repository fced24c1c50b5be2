"""Runs a kernel on the interpreter and on this CPU and compares every tensor bit for bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from iron.dtypes import by_name, of_numpy
from iron.ir.core import Kernel
from iron.ir.interp import run
from iron.ir.verify import verify
from iron.runtime.drivers.cpu import CpuDriver

DRIVER = CpuDriver()


def same_bits(a: Any, b: Any) -> np.ndarray:
    """Elementwise equality of bits, all NaNs being one."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    equal = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    dtype = of_numpy(a.dtype) or by_name("i32")
    if dtype.is_float:
        equal |= np.isnan(a.astype(np.float32)) & np.isnan(b.astype(np.float32))
    return equal


def copied(array: Any) -> Any:
    """A copy that keeps an array's strides, in memory of its own."""
    if array.size == 0 or array.flags.c_contiguous:
        return array.copy()
    low, high = np.lib.array_utils.byte_bounds(array)
    start = array.__array_interface__["data"][0]
    memory = np.empty(high - low, np.uint8)
    view = np.ndarray(array.shape, array.dtype, memory, start - low, array.strides)
    view[...] = array
    return view


def both(
    kernel: Kernel,
    arrays: Mapping[str, Any],
    grid: tuple[int, ...] = (1,),
    scalars: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    **options: Any,
) -> None:
    """Runs `kernel` on the CPU in place and on the interpreter on copies; they must agree."""
    verify(kernel)
    expected = {name: copied(a) for name, a in arrays.items()}
    run(kernel, expected, scalars or {}, dims or {}, grid, **options)
    DRIVER.load(kernel).bind(arrays, scalars or {}, dims or {}, grid)()
    for name, a in arrays.items():
        equal = same_bits(expected[name], a)
        where = np.argwhere(~equal)
        assert equal.all(), (
            f"{kernel.name}.{name}: {len(where)} of {a.size} differ, first at {where[0]}: "
            f"interpreter {expected[name][tuple(where[0])]!r}, CPU {a[tuple(where[0])]!r}"
        )
