"""Prefetches: what a group reads for itself and in order is asked for ahead, nothing else."""

import re
from typing import Any

import numpy as np
import pytest

from iron.backends.cpu.ahead import DISTANCE
from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import assembly
from iron.compiler import lower
from iron.front.bind import TensorArg, bind
from iron.front.specialise import specialise
from iron.ir.core import Kernel
from iron.lang import (
    Const,
    In,
    InOut,
    Out,
    dims,
    each,
    f16,
    f32,
    group_sum,
    groups,
    kernel,
    strided,
    thread,
    u32,
)
from iron.targets.cpu import AARCH64, X86_64_V3, X86_64_V4
from tests.unit.backends.cpu.agree import both

R, N = dims("R N")
HINT = re.compile(r"call void @llvm\.prefetch\.p0\(ptr (%\w+)")


@kernel
def rows(x: In[f16, R, N], w: In[f16, N], y: Out[f32, R]):
    """Each group reads a row of its own and the same weights."""
    (r,) = groups(R, threads=32)
    total = f32(0)
    for i in strided(N):
        total += x[r, i].to(f32) * w[i].to(f32)
    whole = group_sum(total)
    if thread == 0:
        y[r] = whole


@kernel
def found(x: In[f16, R, N], at: In[u32, R], y: Out[f32, R]):
    """The row of a group lies anywhere."""
    (r,) = groups(R, threads=32)
    total = f32(0)
    for i in strided(N):
        total += x[at[r], i].to(f32)
    whole = group_sum(total)
    if thread == 0:
        y[r] = whole


@kernel
def columns(x: In[f32, R, N], y: Out[f32, N], *, TURNS: Const = 64):
    """A group walks down 32 columns."""
    (g,) = groups(N // 32, threads=32)
    total = f32(0)
    for r in range(TURNS):
        total += x[r, g * 32 + thread]
    y[g * 32 + thread] = total


@kernel
def squares(x: In[f32, N], y: Out[f32, N]):
    """Straight code, with a tail."""
    (i,) = each(N)
    y[i] = x[i] * x[i]


@kernel
def doubled(x: InOut[f32, N]):
    """What is written may not be asked for as if it were only read."""
    (i,) = each(N)
    x[i] = x[i] + x[i]


def lowered(fn: Any, **shapes: tuple[Any, ...]) -> Kernel:
    described = {n: TensorArg(dtype, tuple(shape)) for n, (dtype, *shape) in shapes.items()}
    return lower(specialise(fn, bind(fn, described, {}), 32))


ROWS = lowered(rows, x=(f16, 4, 320), w=(f16, 320), y=(f32, 4))
FOUND = lowered(found, x=(f16, 4, 320), at=(u32, 4), y=(f32, 4))
COLUMNS = lowered(columns, x=(f32, 64, 96), y=(f32, 96))
SQUARES = lowered(squares, x=(f32, 1000), y=(f32, 1000))
DOUBLED = lowered(doubled, x=(f32, 1000))


def hints(made: Kernel) -> int:
    """How many lines a kernel's text asks for."""
    return len(HINT.findall(compile_kernel(made, X86_64_V4).text))


def test_a_row_is_asked_for_and_shared_weights_are_not():
    """A turn takes 32 halves, a line; a group 256 floats. Only code without a mask asks."""
    assert hints(ROWS) == 1
    assert hints(SQUARES) == 16


def test_what_is_found_or_written_is_not_asked_for():
    assert hints(FOUND) == 0
    assert hints(DOUBLED) == 0


@pytest.mark.parametrize("made", [ROWS, SQUARES], ids=lambda k: k.name)
def test_a_stream_is_asked_for_at_the_distance(made: Kernel):
    assert f", i64 {DISTANCE}" in compile_kernel(made, X86_64_V4).text


def test_a_walk_down_columns_asks_for_the_next_rows():
    """A row is farther than the distance: what is asked for is where the next turn reads."""
    text = compile_kernel(COLUMNS, X86_64_V4).text
    assert hints(COLUMNS) == 2
    assert "@llvm.smax.i64(i64 %" in text
    assert f", i64 {DISTANCE})" in text


@pytest.mark.parametrize(
    ("target", "instruction"),
    [(X86_64_V3, "prefetcht0"), (X86_64_V4, "prefetcht0"), (AARCH64, "prfm")],
    ids=lambda t: getattr(t, "name", t),
)
def test_a_hint_is_one_instruction(target: Any, instruction: str):
    assert instruction in assembly(compile_kernel(ROWS, target).text, target)


def test_hints_change_nothing():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(5, 333)).astype(np.float16)
    w, y = rng.normal(size=333).astype(np.float16), np.zeros(5, np.float32)
    both(ROWS, {"x": x, "w": w, "y": y}, (5,), dims={"R": 5, "N": 333})
    wide, out = rng.normal(size=(64, 96)).astype(np.float32), np.zeros(96, np.float32)
    both(COLUMNS, {"x": wide, "y": out}, (3,), dims={"R": 64, "N": 96})
