"""Messages say what to write instead: near names, the language's own functions, Python's others."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import iron
from iron import lang
from iron.errors import KernelError
from iron.front.advice import CALLS, for_call, for_name
from iron.lang import In, Out, Scalar, dims, each, f32, kernel

(N,) = dims("N")


@kernel
def near(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = valeu(x[i])  # noqa: F821


@kernel
def foreign(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = math.sin(x[i])


@kernel
def scaled(x: In[f32, N], w: In[f32, N] | None, y: Out[f32, N], factor: Scalar[f32]):
    (i,) = each(N)
    y[i] = x[i] * factor


def valued(x):
    """What `near` meant is not this name."""
    return x


@pytest.mark.parametrize(
    ("fn", "id", "help"),
    [
        (near, "E0105", "did you mean `valued`"),
        (foreign, "E0204", "`sin` of iron.lang takes run-time values"),
    ],
)
def test_a_kernel_is_told_what_to_write(fn, id: str, help: str):
    with pytest.raises(KernelError) as refused:
        fn(np.ones(3, np.float32))
    assert refused.value.id == id
    assert help in refused.value.diagnostic.help


def test_names_are_found_where_they_are():
    assert for_name("atan2", []) == "`from iron.lang import atan2`"
    assert for_name("rwo", ["row", "__name__"]) == "did you mean `row`?"
    assert for_name("xyzzy", ["row"]) == ""
    assert for_call("print") == CALLS["print"]
    assert for_call("open") == ""
    assert "rint" in lang.__all__  # the advice for `round`


def test_a_call_is_told_the_parameter_it_means():
    with pytest.raises(KernelError, match="did you mean `factor`") as refused:
        scaled(np.ones(3, np.float32), factr=2.0)
    assert refused.value.diagnostic.help == "call it as scaled(x, w=None, factor, out=y)"


def test_a_backend_that_is_not_here_is_refused_when_it_is_asked_for():
    before = iron.device()
    with pytest.raises(KernelError) as refused:
        iron.use("cuda" if sys.platform == "darwin" else "metal")
    assert refused.value.id == "E0603"
    assert iron.device() == before
