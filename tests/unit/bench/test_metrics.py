"""Derived figures, verdicts and doubts, on rows whose answers are known."""

import pytest

from iron.bench import ceilings
from iron.bench.metrics import figures, flat
from tests.unit.bench.rows import CEILINGS, peer, row, times

TOP = ceilings.read(CEILINGS)


def test_rates_and_shares():
    of = figures(row(1e-3), TOP)
    assert of.rate == pytest.approx(32, rel=0.02)
    assert of.bandwidth == pytest.approx(0.8, rel=0.02)
    assert of.intensity == 0.125
    assert of.limit == 32e6 / 40e9
    assert of.bottleneck == "memory"
    assert of.doubts == ()
    assert not of.near


def test_a_launch_is_set_apart_beside_the_share():
    of = figures(row(4e-6, read=40e3, written=40e3, flops=None), TOP)
    assert of.share == pytest.approx(2 / 4, rel=0.02)
    assert of.apart == pytest.approx(2 / 3, rel=0.02)
    assert figures(row(2.5e-6, read=40e3, written=40e3, flops=None), TOP).apart == 1


def test_the_most_that_a_ratio_can_be():
    of = figures(row(1e-3, peers=[peer(2e-3)]), TOP)
    assert of.most == pytest.approx(2e-3 / (32e6 / 40e9), rel=0.02)
    assert of.ratio is not None
    assert of.ratio / of.most == pytest.approx(of.share, rel=1e-6)
    assert figures(row(1e-3), TOP).most is None


def test_a_read_is_held_against_the_read_ceiling():
    of = figures(row(1e-3, read=30e6, written=1e3), TOP)
    assert of.bandwidth == pytest.approx(1.0, rel=0.02)
    assert of.near


def test_arithmetic_bounds_what_computes_much():
    of = figures(row(1e-3, flops=190e6), TOP)
    assert of.bottleneck == "arithmetic"
    assert of.limit == pytest.approx(190e6 / 200e9)
    assert of.near


def test_products_of_matrices_are_held_against_a_librarys():
    above = row(1e-3, flops=900e6)
    (doubt,) = figures(above, TOP).doubts
    assert doubt.startswith("computes 4.5")
    of = figures({**above, "ceilings": {**CEILINGS, "matrix": 1000e9}}, TOP)
    assert of.doubts == ()
    assert of.limit == pytest.approx(900e6 / 1000e9)
    assert of.bottleneck == "arithmetic"
    assert of.near


@pytest.mark.parametrize(
    ("resources", "held"),
    [({"spill_bytes": 16}, "registers"), ({"occupancy": 12}, "occupancy"), ({}, "memory")],
)
def test_the_compilers_report_decides_first(resources, held):
    assert figures(row(resources=resources), TOP).bottleneck == held


def test_a_short_row_measures_launching():
    assert figures(row(2e-6, read=1e3, written=1e3, flops=None), TOP).bottleneck == "latency"


@pytest.mark.parametrize(
    ("other", "noise", "verdict"),
    [
        (2e-3, 0.01, "AHEAD"),
        (0.5e-3, 0.01, "BEHIND"),
        (1.02e-3, 0.001, "TIED"),
        (1.3e-3, 0.6, "TIED"),
    ],
)
def test_verdicts(other, noise, verdict):
    of = figures(row(1e-3, peers=[peer(other, noise=noise)]), TOP)
    assert of.verdict == verdict


def test_the_best_peer_is_the_fastest_that_was_right():
    slow, fast = peer(3e-3, "slow"), peer(2e-3, "fast")
    wrong = {"name": "wrong", "version": "1", "error": 1.0, "fault": "computes something else"}
    of = figures(row(peers=[slow, wrong, fast]), TOP)
    assert of.best.name == "fast"
    assert figures(row(peers=[wrong]), TOP).best is None


def test_a_row_above_its_physical_limit_is_flagged():
    of = figures(row(0.5e-3), TOP)  # 64 GB/s where a copy runs at 40
    assert "1.60 times what the memory can" in of.doubts[0]
    assert not of.near


def test_a_warm_row_may_beat_the_memory():
    assert figures(row(0.5e-3, cache="warm"), TOP).doubts == ()


def test_more_operations_than_the_device_has_are_flagged():
    assert "what the device can" in figures(row(1e-3, flops=400e6), TOP).doubts[0]


def test_unsteady_rows_are_flagged():
    from iron.bench.spread import spread

    time = spread(times(1e-3, noise=0.3)).document()
    assert "unsteady" in figures(row(time=time), TOP).doubts[0]


def test_an_unsteady_peer_is_flagged():
    from iron.bench.spread import spread

    wild = {**peer(2e-3, "wild"), "time": spread(times(2e-3, noise=0.3)).document()}
    assert "wild unsteady" in figures(row(peers=[wild]), TOP).doubts[0]
    assert figures(row(peers=[peer(2e-3)]), TOP).doubts == ()


def test_a_flat_curve_is_flagged():
    small, large = row(1e-3), row(1.02e-3, shape="N=16Mi", read=64e6, written=64e6)
    assert list(flat([large, small])) == [0]
    assert "4.0 times the bytes" in flat([large, small])[0]
    grown = row(4e-3, shape="N=16Mi", read=64e6, written=64e6)
    assert flat([small, grown]) == {}
    other = {**large, "tags": "f16"}
    assert flat([small, other]) == {}
    tiny, less = row(1e-6, read=10, written=10), row(1e-6, read=100, written=100)
    assert flat([tiny, less]) == {}
