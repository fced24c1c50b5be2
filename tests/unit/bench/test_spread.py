"""Medians, quantiles and steadiness, against numpy's."""

import numpy as np
import pytest

from iron.bench.spread import quantile, read, spread


def test_figures_agree_with_numpy():
    seconds = np.random.default_rng(1).exponential(size=41)
    found = spread(list(seconds))
    assert found.n == 41
    assert found.median == np.median(seconds)
    assert found.least == seconds.min()
    for name, q in (("p20", 20), ("p80", 80), ("p95", 95), ("p99", 99)):
        assert getattr(found, name) == pytest.approx(np.percentile(seconds, q), rel=1e-12)


def test_one_outlier_is_not_unsteadiness_and_many_are():
    steady = [1.0] * 39 + [50.0]
    assert spread(steady).cv == 0
    assert spread([1.0, 1.5] * 20).cv > 0.1


def test_bands():
    low, high = spread([1.0, 1.1, 1.2]), spread([1.1, 1.15, 1.3])
    assert low.overlaps(high)
    assert high.overlaps(low)
    assert not low.overlaps(spread([1.3, 1.4, 1.5]))


def test_one_timing_is_enough():
    assert spread([2.0]).p99 == 2.0
    assert quantile([1.0, 3.0], 0.5) == 2.0


def test_a_document_comes_back():
    found = spread([1.0, 2.0, 4.0])
    assert read(found.document()) == found
