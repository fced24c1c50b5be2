"""Several groups in one workgroup, and when a module asks for a rounding mode."""

from dataclasses import replace
from typing import Any

import pytest

from iron.backends.spirv import Encoded, disassemble, encode
from iron.compiler import lower
from iron.front.bind import TensorArg, bind
from iron.front.specialise import traced
from iron.lang import In, Out, dims, each, f32, fast_rcp, group_sum, groups, kernel, thread
from iron.targets.nvidia import APPROXIMATIONS
from iron.targets.target import Target
from iron.targets.vulkan import USUAL
from tests.unit.backends.spirv.validator import complaint

N, R = dims("N R")
FOLDS = replace(USUAL, features=USUAL.features | {"folds_groups"})
ROUNDS = {"round_to_even32", "fused_fma", "exact_division", "exact_zero"}
ASKS = replace(USUAL, features=USUAL.features | ROUNDS, approximations=APPROXIMATIONS)
DEFAULT = replace(ASKS, features=ASKS.features | {"even_by_default"})


@kernel
def doubled(x: In[f32, N], y: Out[f32, N]):
    """y = 2 x, 64 threads a group."""
    (g,) = groups(N // 64, threads=64)
    i = g * 64 + thread
    y[i] = x[i] + x[i]


@kernel
def columns(x: In[f32, N], y: Out[f32, N]):
    """96 threads a group."""
    (g,) = groups(N // 96, threads=96)
    y[g * 96 + thread] = x[g * 96 + thread]


@kernel
def summed(x: In[f32, N], y: Out[f32, N]):
    """Threads that act together."""
    (g,) = groups(N, threads=32)
    y[g] = group_sum(x[thread])


@kernel
def wide(x: In[f32, N], y: Out[f32, N]):
    """A group as large as they become."""
    (g,) = groups(N // 256, threads=256)
    y[g * 256 + thread] = x[g * 256 + thread]


@kernel
def reciprocal(x: In[f32, N], y: Out[f32, N]):
    """y = 1 / x, nearly."""
    (i,) = each(N)
    y[i] = fast_rcp(x[i])


@kernel
def quotient(x: In[f32, N], y: Out[f32, N]):
    """y = x / (1 / x), with one of the two exact."""
    (i,) = each(N)
    y[i] = x[i] / fast_rcp(x[i])


def made(fn: Any, target: Target = FOLDS) -> Encoded:
    given = {n: TensorArg(f32, (192,), (1,)) for n in ("x", "y")}
    found = encode(lower(traced(fn, bind(fn, given, {}), simd=32).kernel, target), target)
    assert complaint(found.words) == ""
    return found


def test_threads_of_their_own_share_a_workgroup():
    found = made(doubled)
    text = disassemble(found.words)
    assert "LocalSize 256 1 1" in text
    assert found.fold == 4
    assert [f.kind for f in found.block.fields].count("count") == 1
    assert "OpULessThan %bool %group_index %group_count" in text


@pytest.mark.parametrize("fn", [columns, summed, wide])
def test_other_groups_stay_as_they_are(fn: Any):
    found = made(fn)
    assert found.fold == 1
    assert "count" not in [f.kind for f in found.block.fields]


def test_a_module_for_any_device_folds_nothing():
    assert made(doubled, USUAL).fold == 1


@pytest.mark.parametrize(
    ("fn", "target", "asked"),
    [
        (reciprocal, DEFAULT, False),
        (reciprocal, ASKS, True),
        (quotient, DEFAULT, True),
        (doubled, DEFAULT, True),
    ],
)
def test_rounding_is_not_asked_for_beside_a_fast_reciprocal(fn: Any, target: Target, asked: bool):
    """NVIDIA's compiler makes an exact quotient of it, which takes twice as long as the rest."""
    assert ("RoundingModeRTE 32" in disassemble(made(fn, target).words)) == asked
