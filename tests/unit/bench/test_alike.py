"""What is run before a timing fits what is timed, and finds what is wrong there alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iron.bench import verify as verifying
from iron.bench.alike import divided, like
from iron.bench.points import BenchInputs, Point, points
from iron.bench.verify import Verified, Wrong, verify
from iron.check.prepare import given
from iron.lang import RED, Const, In, Out, dims, each, f32, kernel, minimum, require
from iron.runtime.driver import driver

R, N, B = dims("R N B")


def sums(x: Any, BLOCK: int) -> Any:
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % BLOCK)))
    parts = padded.reshape(len(x), -1, BLOCK)
    return {"y": parts.sum(-1)}, {"y": np.abs(parts).sum(-1)}


def inputs(rng: Any, R: int, N: int) -> dict[str, Any]:
    return {"x": rng.uniform(R, N, low=1, high=2)}


def declared(faulty: bool = False, limit: int = 1 << 20) -> Any:
    @kernel
    def totals(x: In[f32, R, N], y: Out[f32, R, B], *, BLOCK: Const, FAULTY: Const = faulty):
        """The sum of every BLOCK elements; a faulty one skips the first where BLOCK is even."""
        require(limit >= BLOCK)
        r, b = each(R, B)
        total = f32(0)
        for i in range(b * BLOCK, minimum((b + 1) * BLOCK, N)):
            total += x[r, i]
        y[r, b] = total - x[r, b * BLOCK] if FAULTY and BLOCK % 2 == 0 else total

    totals.oracle(sums)
    totals.case(R=[3], N=[101], B=[15], BLOCK=[7], tol=RED("N"))(inputs)
    totals.bench(R=64, N=4096, B=256, BLOCK=16)
    return totals


def told(point: Point) -> Verified:
    *_, last = verify(point, driver("cpu"), given(point.case, BenchInputs(0, "")), 0)
    assert isinstance(last, Verified)
    return last


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bench is beyond what the oracle is asked at its own size."""
    monkeypatch.setattr(verifying, "ORACLE_ELEMENTS", 1 << 16)


def test_a_case_whose_sizes_belong_to_another_const_is_left_out():
    (point,) = points(declared())
    assert like(point) == []
    assert told(point) == Verified(0, True, told(point).worst)


def test_a_case_that_has_the_const_comes_first():
    found = declared()
    found.case(R=[2], N=[50], B=[4], BLOCK=[16], tol=RED("N"))(inputs)
    (case,) = like(points(found)[0])
    assert (case.axes["N"], case.consts["BLOCK"]) == (50, 16)


def test_a_case_of_another_const_is_taken_where_it_fits():
    found = declared()
    found.case(R=[2], N=[5], B=[1], BLOCK=[7], tol=RED("N"))(inputs)
    (case,) = like(points(found)[0])
    assert (case.axes["N"], case.consts["BLOCK"]) == (5, 16)


@pytest.mark.usefixtures("large")
def test_sizes_are_divided_where_no_case_fits():
    (point,) = points(declared())
    assert told(point) == Verified(1, False, told(point).worst)
    assert [c.axes for c in divided(point.case, 8)][:2] == [
        {"R": 8, "N": 512, "B": 32, "BLOCK": 16},
        {"R": 4, "N": 256, "B": 16, "BLOCK": 16},
    ]


@pytest.mark.usefixtures("large")
def test_what_is_wrong_in_the_timed_const_alone_is_found():
    with pytest.raises(Wrong, match="outside the bound"):
        told(points(declared(faulty=True))[0])


@pytest.mark.usefixtures("large")
def test_a_bench_that_nothing_verifies_is_said():
    with pytest.raises(Wrong, match=r"requirement failed.*add a case in these Consts"):
        told(points(declared(limit=8))[0])
