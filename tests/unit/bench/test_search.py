"""The search for the fastest configuration, on a clock that a test winds."""

from typing import Any, ClassVar

import pytest

from iron.bench import search as searching
from iron.bench.measure import Protocol
from iron.bench.points import points
from iron.bench.search import search, space
from iron.bench.verify import Wrong
from iron.check.cases import Verdict
from iron.errors import KernelError
from iron.lang import ELT, Const, In, Out, cdiv, dims, f32, groups, kernel, require, thread
from iron.runtime import launch, tune
from tests.unit.bench.clockwork import Clockwork, kernel_of

(N,) = dims("N")
SECONDS = {4: 1e-3, 8: 1.5e-3, 16: 0.5e-3, 32: 1e-4, 64: 1e-5, 128: 0.9e-3}


@kernel(tune={"SPAN": [8, 16, 32, 64, 128]})
def marked(x: In[f32, N], y: Out[f32, N], *, SPAN: Const = 4):
    """y = x, and x + 1 with a SPAN of 32; 64 takes only few elements."""
    (group,) = groups(cdiv(N, 32), threads=32)
    require(SPAN != 64 or N < 64, "64 is for few elements")
    i = group * 32 + thread
    if i < N:
        y[i] = x[i] * (1.0 * SPAN) * (1.0 / SPAN) + (1.0 if SPAN == 32 else 0.0)


@marked.oracle
def _(x):
    return {"y": x}


@marked.case(N=[3, 33], tol=ELT)
def _(rng, N):
    return {"x": rng.normal(N)}


marked.bench(N=4096)
marked.bench(N=4096, SPAN=8)
(POINT, FIXED) = points(marked)


class Marked(Clockwork):
    """Time by the SPAN of what is launched."""

    def takes(self, call) -> float:
        call()
        if kernel_of(call) != "marked":
            return 1e-3
        span = next(s for s, held in self.bound if held is call)
        return SECONDS[span] * (1 + 0.001 * self.noise.standard_normal())

    bound: ClassVar[list[tuple[int, Any]]] = []


@pytest.fixture
def chosen(tmp_path, monkeypatch) -> Clockwork:
    """The driver; calls are told apart by the Consts they were bound with."""
    monkeypatch.setenv("IRON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tune, "PACKAGE", tmp_path / "tuned")
    tune.forget()
    launch._CHOSEN.clear()
    Marked.bound = []
    bind = launch.bind

    def noted(fn, args, kwargs):
        handle = bind(fn, args, kwargs)
        if fn is marked:
            Marked.bound.append((kwargs.get("SPAN", 4), handle))
        return handle

    monkeypatch.setattr(launch, "bind", noted)
    return Marked({})


class Warm:
    """A scale without arrays to empty caches with."""

    @staticmethod
    def protocol(cold: bool, **limits) -> Protocol:
        return Protocol(None, **limits)


def found(chosen, point=POINT, again: bool = False):
    return list(search(point, chosen, Warm, True, 0, {}, again))


def test_the_space_is_what_the_bench_leaves_open():
    assert space(marked, POINT.case) == [{"SPAN": n} for n in (8, 16, 32, 64, 128)]
    assert space(marked, FIXED.case) == [{}]


def test_the_fastest_that_is_right_wins(chosen):
    """32 is faster and wrong, 64 is faster and does not take this size."""
    *said, row = found(chosen)
    assert row["consts"] == {"SPAN": 16}
    assert row["seconds"] == pytest.approx(0.5e-3, rel=0.01)
    assert row["default"] == pytest.approx(1e-3, rel=0.01)
    assert row["tried"] == 3
    assert row["passed"] == ["SPAN=64: requirement failed: 64 is for few elements"]
    (wrong,) = row["wrong"]
    assert "SPAN=32" in wrong
    assert "2 of 5: SPAN=16" in said
    assert row["place"] == "x:f32[4096]"


def test_a_difference_in_the_noise_keeps_the_kernel_as_it_is(chosen, monkeypatch):
    monkeypatch.setitem(SECONDS, 16, 0.99e-3)
    monkeypatch.setitem(SECONDS, 128, 1e-3)
    row = found(chosen)[-1]
    assert row["consts"] == {}
    assert row["seconds"] == row["default"]


def test_a_configuration_wrong_at_the_size_alone_is_told(chosen, monkeypatch):
    """Its cases pass, what it computes here is something else."""
    monkeypatch.setattr(searching, "run_case", lambda *_: searching_passes())
    row = found(chosen)[-1]
    assert row["consts"] == {"SPAN": 16}
    (wrong,) = row["wrong"]
    assert wrong.startswith("SPAN=32: ")
    assert "off at N=4096" in wrong


def test_equal_code_is_tried_once(chosen, monkeypatch):
    monkeypatch.setattr(searching, "digest", lambda kernel: "one")
    row = found(chosen)[-1]
    assert row["tried"] == 0
    assert row["passed"][0] == "SPAN=8: the code of the kernel as it is"


def test_a_configuration_without_room_is_passed_over(chosen, monkeypatch):
    """It asks for more group memory than the target has, in a case or at the size itself."""
    real = searching.run_case

    def judged(case, *given):
        if case.consts.get("SPAN") == 16:
            return Verdict(
                "planted", "fail", message="error[E0501]: 9 bytes\nmore", refused="E0501"
            )
        return real(case, *given)

    monkeypatch.setattr(searching, "run_case", judged)
    row = found(chosen)[-1]
    assert row["passed"][0] == "SPAN=16: error[E0501]: 9 bytes"
    assert len(row["wrong"]) == 1
    assert row["consts"] != {"SPAN": 16}


def searching_passes():
    return Verdict("planted", "pass")


def test_what_is_known_is_not_searched_again(chosen):
    row = found(chosen)[-1]
    kept = {n: row[n] for n in ("consts", "seconds", "default", "tried")}
    tune.write(device(chosen), "cpu", row["name"], row["place"], kept)
    said = found(chosen)
    assert len(said) == 2
    assert said[-1]["kept"]
    assert said[-1]["consts"] == {"SPAN": 16}
    assert not found(chosen, again=True)[-1]["kept"]


def device(opened) -> str:
    from iron.runtime.device import device_of

    return device_of(opened)


def test_a_kernel_that_is_wrong_is_not_searched(chosen, monkeypatch):
    monkeypatch.setattr(marked.suite, "oracle", lambda x: {"y": x + 1})
    with pytest.raises((Wrong, KernelError)):
        found(chosen)
