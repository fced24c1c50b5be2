"""The power check accepts varied outputs and names what a weak one would let through."""

import numpy as np
import pytest

from iron.check.power import faults, wrong_results
from iron.check.tolerance import Bound, bound
from iron.dtypes import f16, f32, u32
from iron.lang import EXACT, RED, SOFT

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("dtype", [f32, f16])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 1, 4), (0,)])
def test_varied_outputs_have_power(shape, dtype):
    want = RNG.normal(size=shape)
    assert faults(want, bound(RED(9), want, np.abs(want), dtype, {}), dtype) == []


@pytest.mark.parametrize(
    ("want", "expected"),
    [
        (np.zeros((2, 3)), ["all zeros", "mean", "axis 0", "axis 1", "neighbour"]),
        (np.ones((2, 3)), ["mean", "axis 0", "axis 1", "neighbour"]),
        (np.tile(np.arange(3.0) + 1, (2, 1)), ["axis 0"]),
        (
            np.full((2, 3), 1e-9) * RNG.random((2, 3)),
            ["zeros", "mean", "axis 0", "axis 1", "neigh"],
        ),
    ],
)
def test_weak_outputs_are_named(want, expected):
    found = faults(want, bound(SOFT, want, None, f32, {}), f32)
    assert len(found) == len(expected)
    assert all(word in sentence for word, sentence in zip(expected, found, strict=True))


def test_a_bound_too_wide_is_seen():
    want = RNG.normal(size=(4, 5))
    assert len(faults(want, Bound(absolute=100.0), f32)) == 5


def test_integers():
    assert faults(np.arange(7), bound(EXACT, None, None, u32, {}), u32) == []
    assert len(faults(np.full(7, 3), bound(EXACT, None, None, u32, {}), u32)) == 3


def test_non_finite_outputs():
    want = np.array([np.nan, 1.0, -np.inf, 2.0])
    assert faults(want, bound(SOFT, want, None, f32, {}), f32) == []


def test_masked_elements_give_no_power():
    want = np.ma.array([1.0, 5.0, 1.0], mask=[False, True, False])
    assert len(faults(want, bound(EXACT, want, None, f32, {}), f32)) >= 1
    everything = np.ma.masked_all((3,))
    assert list(wrong_results(everything, f32)) == []
