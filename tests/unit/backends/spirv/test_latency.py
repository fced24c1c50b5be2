"""Loads that wait together: guarded ones without a branch, those of several turns of a loop."""

import re
from typing import Any

import pytest

from iron.backends.spirv import disassemble, encode
from iron.compiler import lower
from iron.front.bind import TensorArg, bind
from iron.front.specialise import traced
from iron.lang import In, Out, dims, each, f32, group_sum, groups, kernel, sqrt, thread, u32
from iron.targets.vulkan import USUAL
from tests.unit.backends.spirv.validator import complaint

N, M = dims("N M")


@kernel
def looked_up(x: In[f32, N], at: In[u32, M], y: Out[f32, M]):
    """y = x where it has such an element."""
    (i,) = each(M)
    j = at[i]
    y[i] = x[j] if j < N else 0.0


@kernel
def both(x: In[f32, N], at: In[u32, M], y: Out[f32, M]):
    """An element, or else the first one."""
    (i,) = each(M)
    j = at[i]
    y[i] = x[j] if j < N else x[0]


@kernel
def written(x: In[f32, N], at: In[u32, M], y: Out[f32, M]):
    """Writes where it has such an element."""
    (i,) = each(M)
    j = at[i]
    if j < N:
        y[i] = x[j]


@kernel
def summed(x: In[f32, N], at: In[u32, M], y: Out[f32, M]):
    """Sums from an element on."""
    (i,) = each(M)
    total = f32(0)
    for j in range(at[i], N, 3):
        total += x[j]
    y[i] = total


@kernel
def changed(x: In[f32, N], at: In[u32, M], y: Out[f32, M]):
    """A loop that writes what it sums."""
    (i,) = each(M)
    for j in range(0, N):
        y[i] = y[i] + x[j]


@kernel
def computed(x: In[f32, N], at: In[u32, M], y: Out[f32, M]):
    """A loop that waits for nothing."""
    (i,) = each(M)
    total = x[i]
    for _ in range(0, N):
        total = sqrt(total)
    y[i] = total


@kernel
def sums_in_turns(x: In[f32, N], at: In[u32, M], y: Out[f32, M]):
    """The group's sum again and again."""
    (g,) = groups(M, threads=64)
    total = x[thread]
    for _ in range(0, N):
        total = group_sum(total)
    y[g] = group_sum(total)


@kernel
def three_sums(x: In[f32, N], at: In[u32, M], y: Out[f32, M]):
    """Sums of sums, one after the other."""
    (g,) = groups(M, threads=64)
    first = group_sum(x[thread])
    second = group_sum(first * x[thread])
    y[g] = group_sum(second * x[thread])


def text(fn: Any) -> str:
    """The module of a kernel as it is without wide accesses."""
    kinds = {"x": (f32, 64), "at": (u32, 32), "y": (f32, 32)}
    given = {n: TensorArg(t, (size,), (1,)) for n, (t, size) in kinds.items()}
    made = encode(lower(traced(fn, bind(fn, given, {}), simd=32).kernel), USUAL)
    assert complaint(made.words) == ""
    return disassemble(made.words)


@pytest.mark.parametrize(("fn", "guards"), [(looked_up, 1), (both, 2)])
def test_a_guarded_load_reads_the_first_element_instead(fn: Any, guards: int):
    made = text(fn)
    assert made.count("OpSelectionMerge") == 1  # whether the thread has an element at all
    places = [line for line in made.splitlines() if "OpSelect " in line and "%u32_0" in line]
    assert len(places) == guards


def test_a_branch_that_writes_stays_one():
    assert text(written).count("OpSelectionMerge") == 2


def test_turns_of_a_loop_that_reads_stand_side_by_side():
    made = text(summed)
    assert made.count("OpLoopMerge") == 2  # four turns at a time, then the rest
    assert made.count("OpLoad %f32") == 5


def test_collectives_take_turns_with_two_arrays():
    """The barrier of each ends the reading of the one before; the third may use the first's."""
    made = text(three_sums)
    assert made.count("OpControlBarrier") == 3
    chains = re.findall(r"(%\d+) = OpAccessChain %\S+ %(pile\S*) ", made)
    places = dict(chains)
    stored = [places[at] for at in re.findall(r"OpStore (%\d+) ", made) if at in places]
    assert len(stored) == 3
    assert stored[0] == stored[2] != stored[1]


def test_a_collective_in_a_loop_ends_with_a_barrier():
    """Two in the loop, since its next turn writes what this one reads; one behind it."""
    assert text(sums_in_turns).count("OpControlBarrier") == 3


@pytest.mark.parametrize("fn", [changed, computed])
def test_other_loops_are_written_once(fn: Any):
    assert text(fn).count("OpLoopMerge") == 1
