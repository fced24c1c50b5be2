"""Every case runs on every road; outputs start as NaN, or as bytes 0x7F."""

from collections.abc import Iterator

import numpy as np
import pytest

import iron
from iron.runtime.driver import driver
from iron.runtime.drivers.interp import InterpreterDriver

ROADS = {
    "interp8": lambda: InterpreterDriver(simd=8),
    "interp32": lambda: InterpreterDriver(simd=32),
    "cpu": lambda: driver("cpu"),
}


@pytest.fixture(autouse=True, params=ROADS)
def road(request: pytest.FixtureRequest) -> Iterator[str]:
    """The backend of the test."""
    with iron.use(ROADS[request.param]()):
        yield request.param


def blank(shape: tuple[int, ...] | int, dtype: object = np.float32) -> np.ndarray:
    """An output that was never written."""
    made = np.empty(shape, dtype)
    made.view(np.uint8 if made.ndim else made.dtype)[...] = 0x7F
    return np.full(shape, np.nan, dtype) if np.dtype(dtype).kind == "f" else made
