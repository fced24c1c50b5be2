"""Reported failures of threads that meet: a barrier some skip, a reload without one."""

import time

import numpy as np
import pytest

from iron.errors import KernelError
from iron.lang import InOut, Out, Scalar, barrier, f32, groups, i32, kernel, shared, thread
from tests.cases.conftest import blank


@kernel
def even_threads_wait(y: Out[i32, 32]):
    groups(1, threads=32)
    pile = shared((32,), i32)
    pile[thread] = thread
    if thread % 2 == 0:
        barrier()
        y[thread] = pile[thread + 1]
    else:
        y[thread] = -1


@kernel
def all_wait_or_none(y: Out[i32, 64], wait: Scalar[i32]):
    groups(1, threads=64)
    pile = shared((64,), i32)
    y[thread] = -1
    if wait > 0:
        pile[thread] = thread * wait
        barrier()
        y[thread] = pile[63 - thread]


def test_a_barrier_that_some_threads_skip_is_refused():
    """tilelang 1026, numba 2655: a refusal with both lines, not a hang."""
    started = time.monotonic()
    with pytest.raises(KernelError) as wrong:
        even_threads_wait(y=blank(32, np.int32))
    assert time.monotonic() - started < 5
    first = even_threads_wait.fn.__code__.co_firstlineno
    assert wrong.value.id == "E0312"
    assert f":{first + 6}:" in str(wrong.value)
    assert f"line {first + 5}" in str(wrong.value)


@pytest.mark.parametrize("wait", [0, 3])
def test_a_barrier_under_a_condition_of_the_group(wait: int):
    y = all_wait_or_none(y=blank(64, np.int32), wait=wait)
    assert y.tolist() == [(63 - t) * wait if wait else -1 for t in range(64)]


@kernel
def rotate_in_a_race(x: InOut[f32, 128]):
    groups(1, threads=128)
    x[thread] = -x[thread]
    v = x[(thread + 64) % 128]
    x[thread] = v


@kernel
def rotate(x: InOut[f32, 128]):
    groups(1, threads=128)
    v = x[(thread + 64) % 128]
    barrier()
    x[thread] = -v if thread < 64 else v


def test_a_reload_without_a_barrier_names_both_lines(road: str):
    """helion 3080, Megatron-LM 5963: the interpreter is the backend that checks."""
    if road == "cpu":
        return
    with pytest.raises(KernelError) as wrong:
        rotate_in_a_race(x=np.arange(128, dtype=np.float32))
    first = rotate_in_a_race.fn.__code__.co_firstlineno
    assert wrong.value.id == "E0410"
    assert f":{first + 4}:" in str(wrong.value)
    assert f"test_threads.py:{first + 3}\n" in str(wrong.value)


def test_with_a_barrier_every_run_is_right(road: str):
    want = [-(i + 64) if i < 64 else i - 64 for i in range(128)]
    for _ in range(200 if road == "cpu" else 2):
        x = np.arange(128, dtype=np.float32)
        rotate(x)
        assert x.tolist() == want
