"""What the library's benches give is what their kernels take, at sizes cut to a few hundred.

What verifies a kernel before it is timed fits the Consts that are timed (`make full`: and passes).
"""

from dataclasses import replace
from typing import Any

import pytest

from iron.bench.alike import like
from iron.bench.points import BenchInputs, Point, points
from iron.check.cases import run_case
from iron.check.expand import ConcreteCase
from iron.check.prepare import given
from iron.check.tolerance import CaseError
from iron.lang import EXACT, In, Out, dims, each, f32, kernel
from tests.unit.kernels.test_suites import KERNELS

R, N = dims("R N")
MOST = 512


def cut(point: Point) -> Point:
    """The point with no size above `MOST`; Consts stay."""
    consts = point.case.consts
    axes = {
        k: min(v, MOST) if type(v) is int and k.isupper() and k not in consts else v
        for k, v in point.case.axes.items()
    }
    return replace(point, case=replace(point.case, axes=axes))


def faults(declared: Any) -> list[str]:
    """What is wrong with a bench's inputs at the first size of each dtype."""
    first = {(id(p.bench), p.tags): p for p in reversed(points(declared))}
    out: list[str] = []
    for point in map(cut, first.values()):
        try:
            given(point.case, BenchInputs(1, point.case.label))
        except CaseError as fault:
            out.append(f"{point.tags}({point.shape}): {fault}")
    return out


BENCHED = [n for n, k in KERNELS.items() if k.suite.benches]


@pytest.mark.parametrize("name", BENCHED)
def test_benches_have_inputs(name: str):
    assert faults(KERNELS[name]) == []


def verifying(name: str) -> dict[str, ConcreteCase]:
    """What runs before the kernel's benches are timed; each bench has some."""
    found: dict[str, ConcreteCase] = {}
    for point in points(KERNELS[name]):
        cases = like(point)
        assert cases, f"no case of {name} fits the bench {point.tags}({point.shape})"
        assert all(c.dtypes == point.case.dtypes and c.choice == {} for c in cases)
        assert all(c.consts.items() >= fixed(point).items() for c in cases)
        found |= {c.label: c for c in cases}
    return found


def fixed(point: Point) -> dict[str, Any]:
    return {k: v for k, v in point.case.axes.items() if k in point.case.consts}


@pytest.mark.parametrize("name", BENCHED)
def test_each_bench_has_cases_of_its_consts(name: str):
    """The launch chooses, so that no size is outside what the tried alternative takes."""
    verifying(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHED)
def test_what_verifies_a_bench_passes(name: str):
    verdicts = [run_case(case, "cpu") for case in verifying(name).values()]
    assert [v.message for v in verdicts if v.status != "pass"] == []


def test_inputs_of_other_sizes_are_seen():
    @kernel
    def rows(x: In[f32, R, N], count: In[f32, R], y: Out[f32, R, N]):
        r, i = each(R, N)
        y[r, i] = x[r, i] * count[r]

    def few(rng: Any, R: int, N: int) -> dict[str, Any]:
        return {"x": rng.normal(R, N), "count": rng.normal(5)[:R]}

    rows.case(R=[5], N=[33], tol=EXACT)(few)
    rows.bench(R=8, N=64)
    assert "dim R is 8 elsewhere but 5 in count" in faults(rows)[0]
    rows.suite.benches.clear()
