"""torch CPU tensors go in and come out without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iron
from iron.errors import KernelError
from iron.lang import In, InOut, Out, bf16, dims, dtypes, each, f16, f32, i32, kernel

torch: Any = pytest.importorskip("torch")

N = dims("N")[0]
T = dtypes("T", f32, f16, bf16)


@kernel
def double(x: In[T, N], y: Out[T, N]):
    (i,) = each(N)
    y[i] = (x[i].to(f32) * 2.0).to(T)


@kernel
def count(x: InOut[i32, N]):
    (i,) = each(N)
    x[i] = x[i] + 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors_come_back_as_tensors(dtype: str) -> None:
    x = torch.arange(37).to(getattr(torch, dtype))
    y = double(x)
    assert isinstance(y, torch.Tensor)
    assert y.dtype == x.dtype
    assert torch.equal(y, 2 * x)


def test_memory_is_shared_both_ways() -> None:
    x = torch.zeros(9, dtype=torch.int32)
    count(x)
    count(x[2:5])
    assert x.tolist() == [1, 1, 2, 2, 2, 1, 1, 1, 1]
    x, y = torch.ones(5), torch.zeros(8)
    assert double(x, out=y[1:6]).data_ptr() == y[1:6].data_ptr()
    assert y.tolist() == [0, 2, 2, 2, 2, 2, 0, 0]


def test_numpy_and_torch_mix() -> None:
    y = np.zeros(4, np.float32)
    double(torch.ones(4), out=y)
    assert y.tolist() == [2, 2, 2, 2]


def test_what_cannot_be_shared_is_named() -> None:
    with pytest.raises(KernelError, match=r"E0701.*`x`.*torch"):
        double(torch.ones(4, requires_grad=True))
    with pytest.raises(KernelError, match="contiguous"):
        double(torch.ones(8)[::2])


def test_the_interpreter_takes_tensors_too() -> None:
    with iron.use("interp"):
        assert torch.equal(double(torch.ones(3)), torch.full((3,), 2.0))
