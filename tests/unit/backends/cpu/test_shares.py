"""Groups that take turns: each runs once, and only where reads and whole lines are in order."""

from typing import Any

import numpy as np
import pytest

from iron.backends.cpu import entry, shares
from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.launcher import HEADER
from iron.backends.cpu.machine import ENTRY
from iron.compiler import lower
from iron.front.bind import TensorArg, bind
from iron.front.specialise import specialise
from iron.ir.core import Kernel
from iron.lang import In, Out, dims, each, f32, groups, kernel, strided, u32
from iron.runtime.drivers import cpu
from iron.runtime.drivers.cpu import CpuDriver
from iron.targets.cpu import AARCH64, X86_64_V3, X86_64_V4
from iron.targets.target import Target

N, M = dims("N M")
MARK = "%share_bits"


@kernel
def squares(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = x[i] * x[i]


@kernel
def apart(x: In[f32, N, strided], y: Out[f32, N]):
    """Neighbours lie side by side or not: the strides say."""
    (i,) = each(N)
    y[i] = x[i] + 1.0


@kernel
def turned(x: In[f32, N, M], y: Out[f32, M, N]):
    """What a group reads of a line, groups of later rows use."""
    i, j = each(M, N)
    y[i, j] = x[j, i]


@kernel
def picked(x: In[f32, N], at: In[u32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = x[at[i]]


@kernel
def walked(x: In[f32, M, N], y: Out[f32, N]):
    """A loop of its own in every group."""
    (i,) = each(N)
    total = f32(0)
    for r in range(M):
        total += x[r, i]
    y[i] = total


@kernel
def rows(x: In[f32, M, N], y: Out[f32, M, N]):
    """A group a row, which may end within a line."""
    (r,) = groups(M, threads=32)
    for i in strided(N):
        y[r, i] = x[r, i]


@kernel
def added(a: In[f32, N], b: In[f32, N], y: Out[f32, N]):
    """Two inputs: three places at once already."""
    (i,) = each(N)
    y[i] = a[i] + b[i]


def lowered(declared: Any, N: int = 4096, M: int = 64) -> Kernel:
    sizes = {"N": N, "M": M}
    described = {
        name: TensorArg(spec.dtype, tuple(sizes[str(d)] for d in spec.dims))
        for name, spec in declared.signature.items()
    }
    return lower(specialise(declared, bind(declared, described, {}), 32))


def text(declared: Any, target: Target = X86_64_V4) -> str:
    return compile_kernel(lowered(declared), target).text


@pytest.mark.parametrize("declared", [squares, apart], ids=lambda k: k.name)
@pytest.mark.parametrize("target", [X86_64_V3, X86_64_V4], ids=lambda t: t.name)
def test_straight_code_with_one_input_takes_turns(declared: Any, target: Target):
    assert MARK in text(declared, target)


@pytest.mark.parametrize("declared", [turned, picked, walked, rows, added], ids=lambda k: k.name)
def test_other_code_keeps_the_order(declared: Any):
    assert MARK not in text(declared)


def test_a_target_that_says_nothing_keeps_the_order():
    assert MARK not in text(squares, AARCH64)


def wrong(n: int, first: int, end: int, offset: int = 0) -> int:
    """Elements that the groups `first .. end - 1` of `squares` get wrong, or touch elsewhere."""
    driver = CpuDriver()
    x = driver.upload(np.random.default_rng(n).normal(size=n).astype(np.float32))
    y = driver.upload(np.full(n + offset, 7, np.float32))[offset:]
    made = lowered(squares, N=n)
    executable = driver.load(made)
    grid = -(-n // 256)
    job = executable.bind({"x": x, "y": y}, {}, {"N": n}, (grid,)).__self__[1]
    block = job.__array_interface__["data"][0] + 8 * HEADER
    assert job[-1] == 1
    ENTRY(executable.linked[executable.symbol])(block, first, end)
    want = np.full(n, 7, np.float32)
    mine = slice(256 * first, 256 * end)
    want[mine] = x[mine] * x[mine]
    return int(np.sum(y != want))


GROUPS = [(0, 1), (0, 4), (3, 14), (2, 5), (37, 38), (0, 38), (1, 38)]


@pytest.mark.parametrize("offset", [0, 4])
def test_each_group_runs_once(offset: int, monkeypatch: pytest.MonkeyPatch):
    """Whatever is left over by equal shares, and with a tail in the last group."""
    monkeypatch.setattr(entry, "STREAM_FROM", 1)
    assert [wrong(37 * 256 + 13, *some, offset) for some in GROUPS] == [0] * len(GROUPS)


def test_a_group_left_out_is_seen(monkeypatch: pytest.MonkeyPatch):
    """Where what is left over is dealt out too, some run twice and some never."""
    monkeypatch.setattr(entry, "STREAM_FROM", 1)
    broken = [line.replace("select i1 %dealt", "select i1 true") for line in shares.GROUP]
    monkeypatch.setattr(shares, "GROUP", broken)
    monkeypatch.setattr(cpu, "digest", lambda kernel: "broken")
    assert wrong(37 * 256 + 13, 0, 4) == 0
    assert wrong(37 * 256 + 13, 3, 14) > 0
