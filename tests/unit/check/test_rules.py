"""What a suite must contain."""

import pytest

from iron.check.rules import faults, has_odd
from iron.lang import In, Out, dims, f32, kernel, plan
from tests.unit.check.scaled import declare

(N,) = dims("N")


@pytest.mark.parametrize(
    ("sizes", "odd"),
    [
        ([1, 4, 129], True),
        ([3], True),
        ([1], False),
        ([1, 2, 4], False),
        ([64, 128], False),
        ([64, 72], True),
        ([64], False),
        ([32, 96], True),
        ([0], False),
        ([0, 5], True),
        ([], False),
    ],
)
def test_odd_sizes(sizes, odd):
    assert has_odd(sizes) == odd


def test_a_whole_suite_has_no_fault():
    assert faults(declare()) == []


def test_every_gap_is_named():
    assert faults(declare(sizes=(1, 4))) == ["axis N has no odd size among [1, 4]"]

    @plan
    def empty(x: In[f32, N], y: Out[f32, N]):
        pass

    assert faults(empty) == ["no oracle", "no case", "no bench"]


def test_sizes_of_several_cases_count_together():
    @kernel
    def k(x: In[f32, N], y: Out[f32, N]):
        pass

    k.oracle(lambda x: {"y": x})
    k.bench(N=1)
    for size in (4, 33):
        k.case(N=[size], tol={})(lambda rng: {})
    assert faults(k) == []
