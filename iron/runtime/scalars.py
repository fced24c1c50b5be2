"""Scalar arguments: a number becomes the declared dtype, or an error says why it cannot."""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.dtypes import DType
from iron.errors import KernelError, error
from iron.ir.scalar import cast


def convert(value: Any, dtype: DType, name: str, kernel: str) -> Any:
    """`value` as a numpy scalar of `dtype`. E0701 when it would not keep its meaning."""
    number: Any = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, bool) and dtype.kind != "b":
        number = int(number)
    if isinstance(value, np.ndarray) or not isinstance(number, int | float):
        raise _wrong(name, kernel, dtype, f"a {type(value).__name__}")
    if dtype.is_integer:
        if not isinstance(number, int):
            raise _wrong(name, kernel, dtype, f"the float {number}")
        if not dtype.min <= number <= dtype.max:
            raise _wrong(name, kernel, dtype, f"{number}, which is out of range")
    if dtype.kind == "b" and number not in (0, 1):
        raise _wrong(name, kernel, dtype, f"{number}")
    return cast(number, dtype)


def _wrong(name: str, kernel: str, dtype: DType, got: str) -> KernelError:
    return error("E0701", f"`{name}` is {got}; it takes a {dtype}", kernel=kernel)
