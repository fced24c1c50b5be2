"""Which of a kernel's choices a call gets, and that no other is compiled on the way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import iron
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.lang import Const, In, Out, Scalar, dims, f32, groups, kernel, require
from iron.runtime.device import driver

(N,) = dims("N")


@kernel(choose={"BY": [8, 4, 2, 1], "UP": [True, False]})
def stretch(x: In[f32, N], y: Out[f32, N], factor: Scalar[f32], *, BY: Const = 1, UP: Const = True):
    (i,) = groups(N // BY, threads=1)
    require(N % BY == 0, "N must be a multiple of BY")
    require(factor > 0.0 or not UP, "this form is for positive factors")
    for k in range(BY):
        y[i * BY + k] = x[i * BY + k] * factor


class Counting:
    """The CPU's driver under another identity; it counts the kernels that it compiles."""

    def __init__(self) -> None:
        self.inner = driver("cpu")
        self.compiled: list[Kernel] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def load(self, kernel: Kernel) -> object:
        self.compiled.append(kernel)
        return self.inner.load(kernel)


@pytest.fixture
def counted() -> Iterator[Counting]:
    found = Counting()
    with iron.use(found):  # pyright: ignore[reportArgumentType]
        yield found


@pytest.mark.parametrize(
    ("size", "factor", "tried"), [(16, 2.0, 1), (12, -2.0, 4), (6, 0.5, 5), (7, -1.0, 8)]
)
def test_only_the_choice_that_serves_is_compiled(
    counted: Counting, size: int, factor: float, tried: int
) -> None:
    x = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(stretch(x, factor), x * np.float32(factor))
    assert len(counted.compiled) == 1, f"choice {tried} of 8 serves; the others were compiled too"


def test_a_call_that_no_choice_serves_compiles_nothing(counted: Counting) -> None:
    with pytest.raises(KernelError, match="this form is for positive factors") as refused:
        stretch(np.ones(8, np.float32), -1.0, BY=8, UP=True)
    assert refused.value.id == "E0702"
    assert not counted.compiled
