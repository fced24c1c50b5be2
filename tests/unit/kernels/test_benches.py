"""What the library's benches give is what their kernels take, at sizes cut to a few hundred."""

from dataclasses import replace
from typing import Any

import pytest

from iron.bench.points import BenchInputs, Point, points
from iron.check.prepare import given
from iron.check.tolerance import CaseError
from iron.lang import EXACT, In, Out, dims, each, f32, kernel
from tests.unit.kernels.test_suites import KERNELS

R, N = dims("R N")
MOST = 512


def cut(point: Point) -> Point:
    """The point with no size above `MOST`; Consts stay."""
    axes = {
        k: min(v, MOST) if type(v) is int and k.isupper() else v for k, v in point.case.axes.items()
    }
    return replace(point, case=replace(point.case, axes=axes))


def faults(declared: Any) -> list[str]:
    out: list[str] = []
    for point in map(cut, points(declared)):
        try:
            given(point.case, BenchInputs(1, point.case.label))
        except CaseError as fault:
            out.append(f"{point.tags}({point.shape}): {fault}")
    return out


@pytest.mark.parametrize("name", [n for n, k in KERNELS.items() if k.suite.benches])
def test_benches_have_inputs(name: str):
    assert faults(KERNELS[name]) == []


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
