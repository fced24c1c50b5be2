"""Bindings that may be one memory say so where a compiler could change what is read."""

import re

import pytest

from iron.backends.spirv import disassemble, encode
from iron.backends.spirv.aliased import aliased
from iron.cli.specimen import choose
from iron.compiler import lower
from iron.dtypes import f32, i32
from iron.front.bind import TensorArg, bind
from iron.front.specialise import traced
from iron.lang import In, Out, dims, each, kernel
from iron.lang.declare import KernelFunction
from iron.targets.vulkan import USUAL
from tests.unit.backends.spirv.test_modules import KERNELS
from tests.unit.backends.spirv.validator import complaint

(N,) = dims("N")


@kernel
def moved_on(x: In[f32, N], z: In[i32, N], y: Out[f32, N], w: Out[f32, N]):
    """y = z and w = x: in place, x is read before y is written."""
    (i,) = each(N)
    old = x[i]
    y[i] = z[i].to(f32)
    w[i] = old


@kernel
def halved(x: In[f32, N], y: Out[f32, N]):
    """y = x / 2."""
    (i,) = each(N)
    y[i] = x[i] * 0.5


@kernel
def summed(x: In[f32, N], y: Out[f32, N]):
    """y = x + x + .. in a loop whose turns add what was read once."""
    (i,) = each(N)
    total, old = 0.0, x[i]
    for _ in range(N):
        total = total + old
    y[i] = total


def said(fn: KernelFunction) -> set[str]:
    """The bindings of a kernel's module that are decorated."""
    shapes = {n: TensorArg(i32 if n == "z" else f32, (64,), (1,)) for n in fn.signature}
    lowered = lower(traced(fn, bind(fn, shapes, {}), simd=32).kernel, USUAL)
    made = encode(lowered, USUAL)
    assert complaint(made.words) == ""
    return set(re.findall(r"OpDecorate %(\w+) Aliased", disassemble(made.words)))


def test_a_load_that_a_store_does_not_wait_for():
    """y may be x, whose old elements are stored behind it; that w may be x is in order anyway."""
    assert said(moved_on) == {"x", "y"}


@pytest.mark.parametrize("fn", [halved, summed], ids=lambda fn: fn.name)
def test_a_store_that_waits_for_its_loads_says_nothing(fn: KernelFunction):
    assert said(fn) == set()


def test_few_kernels_of_the_library_need_to():
    names = ("unary", "binary", "layer_norm", "rms_norm", "softmax", "gated_activation")
    for name in names:
        assert aliased(lower(choose(KERNELS[name], USUAL, None, {}).kernel, USUAL)) == frozenset()
