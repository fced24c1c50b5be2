"""Two runs: a planted slowdown is reported, a refactor and a slower machine are not."""

import pytest

from iron.bench.compare import compare
from iron.bench.snapshot import document
from iron.bench.spread import spread
from iron.bench.tree import Tree
from iron.errors import KernelError
from tests.unit.bench.rows import CEILINGS, row, times

TREE = Tree("0" * 40)


def run(*rows, machine="box"):
    return document("cpu", rows, [], {"device": machine}, TREE)


def again(median, seed, noise=0.01, **changes):
    return row(time=spread(times(median, noise, seed)).document(), **changes)


def test_a_slowdown_of_ten_per_cent_in_one_kernel_is_reported():
    names = [f"k{i}" for i in range(20)]
    before = run(*(again(1e-3, i, kernel=n) for i, n in enumerate(names)))
    after = run(*(again(1.1e-3 if n == "k7" else 1e-3, 99 + i, kernel=n)
                  for i, n in enumerate(names)))  # fmt: skip
    found = compare(before, after)
    assert [c.name for c in found.of("slower")] == ["k7[f32](N=4Mi) cold"]
    assert found.of("slower")[0].percent == pytest.approx(10, abs=1.5)
    assert found.of("faster") == ()
    assert [c.name for c in compare(after, before).of("faster")] == ["k7[f32](N=4Mi) cold"]


def test_the_same_figures_again_are_no_change():
    before = run(*(again(1e-3, i, kernel=f"k{i}") for i in range(50)))
    after = run(*(again(1e-3, 1000 + i, kernel=f"k{i}") for i in range(50)))
    assert compare(before, after).of("same") == compare(before, after).changes


def test_a_slower_machine_is_not_a_slower_kernel():
    slow = {**CEILINGS, "copy": 20e9, "read": 15e9}
    before, after = run(again(1e-3, 1)), run(again(2e-3, 2, ceilings=slow))
    assert [c.kind for c in compare(before, after).changes] == ["same"]
    assert compare(before, after).changes[0].machine == 2.0


def test_a_faster_machine_does_not_make_an_unchanged_kernel_slower():
    fast = {**CEILINGS, "copy": 80e9}
    found = compare(run(again(1e-3, 1)), run(again(1e-3, 2, ceilings=fast)))
    assert found.of("slower") == ()


def test_noise_wider_than_the_change_is_no_change():
    before, after = run(again(1e-3, 1, 0.3)), run(again(1.1e-3, 2, 0.3))
    assert compare(before, after).of("slower") == ()


def test_the_threshold():
    before, after = run(again(1e-3, 1, 0.001)), run(again(1.04e-3, 2, 0.001))
    assert compare(before, after).of("slower") == ()
    assert len(compare(before, after, threshold=3).of("slower")) == 1


def test_rows_that_came_and_went():
    found = compare(run(row(), row(kernel="old")), run(row(), row(kernel="new")))
    assert found.added == ("new[f32](N=4Mi) cold",)
    assert found.gone == ("old[f32](N=4Mi) cold",)


def test_orders():
    before = run(row(1e-3, kernel="b"), row(1e-4, kernel="a"))
    after = run(row(1.2e-3, kernel="b"), row(1.5e-4, kernel="a"))
    first = {s: compare(before, after, sort=s).changes[0].name[0] for s in ("name", "delta", "pct")}
    assert first == {"name": "a", "delta": "b", "pct": "a"}
    with pytest.raises(KernelError, match="E0803"):
        compare(before, after, sort="size")


def test_other_machines_are_named():
    assert compare(run(row()), run(row(), machine="other")).notes == (
        "different machines: box, other",
    )
