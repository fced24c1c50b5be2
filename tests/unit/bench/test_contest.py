"""From a kernel to a row, with a clock that the test winds; the planted delay end to end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iron.bench import ceilings, contest, snapshot
from iron.bench.ceilings import Scale
from iron.bench.compare import compare
from iron.bench.contest import Options
from iron.bench.measure import Beside
from iron.bench.peers.record import Attempt, Peer
from iron.bench.points import points
from iron.bench.tree import Tree
from iron.bench.verify import Wrong
from iron.lang import ELT, Const, In, InOut, Out, Scalar, dims, dtypes, each, f16, f32, kernel
from iron.runtime import driver as drivers
from iron.runtime.current import use
from tests.unit.bench.clockwork import Clockwork

N, M = dims("N M")
T = dtypes("T", f32, f16)


@kernel
def doubled(x: In[T, N], y: Out[T, N], by: Scalar[f32] = 2.0, *, VEC: Const = 1):
    """y = by x."""
    (i,) = each(N)
    y[i] = (x[i].to(f32) * by).to(T)


@doubled.oracle
def _(x, by):
    return {"y": by * x}


@doubled.case(N=[1, 33], tol=ELT)
def _(rng, N):
    return {"x": rng.normal(N)}


doubled.bench(N=[64, 4096], flops=lambda N: N)


@kernel
def halved(x: In[f32, N], y: Out[f32, N]):
    """y = x / 2, but for its last element."""
    (i,) = each(N)
    y[i] = x[i] * 0.5 if i != 999 else 7.0


@halved.oracle
def _(x):
    return {"y": x / 2}


@halved.case(N=[1, 33], tol=ELT)
def _(rng, N):
    return {"x": rng.normal(N)}


halved.bench(N=1000)


@kernel
def counted(x: In[f32, N], y: InOut[f32, M]):
    """Adds x to the first N of y."""
    (i,) = each(N)
    y[i] = y[i] + x[i]


@counted.oracle
def _(x, y):
    y = y.copy()
    y[: x.size] += x
    return {"y": y}


@counted.case(N=[3], M=[5], tol=ELT)
def _(rng, N, M):
    return {"x": rng.normal(N), "y": rng.normal(M)}


counted.bench(N=32, M=4096, bytes=lambda N: 12 * N)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "HOST_STREAM", 1 << 16)
    monkeypatch.setattr(ceilings, "HOST_LEAST", 1 << 16)
    monkeypatch.setattr(ceilings, "TURNS", 4)
    monkeypatch.setattr(ceilings, "last_level_cache", lambda: 0)


def run(
    driver: Clockwork,
    point: Any,
    monkeypatch: pytest.MonkeyPatch,
    beside: Clockwork | None = None,
    **options: Any,
) -> dict:
    monkeypatch.setitem(drivers._OPEN, "cpu", driver)
    options = {"peers": ("none",), "limits": {"most": 30}, **options}
    other = None
    if beside is not None:
        with use(beside):
            other = Beside(beside, ceilings.flush(beside))
    *said, found = contest.contest(point, driver, Scale(driver), Options(**options), other)
    assert all(isinstance(s, str) for s in said)
    return found


def test_a_row(monkeypatch: pytest.MonkeyPatch):
    driver = Clockwork({"doubled": 5e-4})
    found = run(driver, points(doubled)[1], monkeypatch)
    assert (found["kernel"], found["tags"], found["shape"]) == ("doubled", "f32", "N=4096")
    assert found["time"]["median"] == pytest.approx(5e-4, rel=0.01)
    assert found["time"]["n"] == 30
    assert (found["read"], found["written"], found["flops"]) == (16384, 16384, 4096)
    assert found["verified"]["own"]
    assert found["verified"]["cases"] == 2
    assert 0 <= found["verified"]["worst"] <= 1
    assert found["ceilings"]["copy"] == pytest.approx((1 << 19) / 3.4e-3, rel=0.02)
    assert found["host"]["cold bind"] > found["host"]["warm bind"] > 0


@pytest.mark.parametrize(("flops", "measured"), [(100, True), (8, False)])
def test_many_operations_a_byte_are_held_against_a_product(
    flops: int, measured: bool, monkeypatch: pytest.MonkeyPatch
):
    made: list[Any] = []

    def make(subject: Any) -> Attempt:
        made.append((subject.dtypes["T"], subject.consts["SIDE"]))
        return Attempt(lambda: None, dict)

    library = Peer("library", "matrix product", make)
    monkeypatch.setattr(ceilings, "peers_of", lambda *_: [(library, "1.0")])
    monkeypatch.setattr(contest, "peers_of", lambda *_: [])
    wanted = points(doubled)[1]
    bench = replace(wanted.bench, flops=lambda N: flops * 8 * N)
    found = run(Clockwork({}), replace(wanted, bench=bench), monkeypatch, peers=())
    assert made == ([(f32, 1024)] if measured else [])
    want = pytest.approx(2 * 1024**3 / 1e-3, rel=0.02) if measured else 0
    assert found["ceilings"].get("matrix", 0) == want


def test_a_bench_counts_its_own_bytes(monkeypatch: pytest.MonkeyPatch):
    found = run(Clockwork({}), points(counted)[0], monkeypatch)
    assert found["read"] + found["written"] == 12 * 32


def test_a_wrong_kernel_is_not_timed(monkeypatch: pytest.MonkeyPatch):
    driver = Clockwork({})
    with pytest.raises(Wrong, match="is 7"):
        run(driver, points(halved)[0], monkeypatch)


# --- peers ----------------------------------------------------------------------------------------


def with_peers(monkeypatch: pytest.MonkeyPatch, *makes: Any) -> None:
    made = [(Peer(f"peer{i}", "doubled", make), "1.0") for i, make in enumerate(makes)]
    monkeypatch.setattr(contest, "peers_of", lambda *_: made)


def right(s: Any) -> Attempt:
    return Attempt(lambda: np.multiply(s.x, 2, out=s.outputs["y"]), lambda: s.outputs)


def wrong(s: Any) -> Attempt:
    return Attempt(lambda: np.multiply(s.x, 2.01, out=s.outputs["y"]), lambda: s.outputs)


def raising(s: Any) -> Attempt:
    raise RuntimeError("no such function\nand more")


def test_peers_take_part_when_they_are_right(monkeypatch: pytest.MonkeyPatch):
    with_peers(monkeypatch, right, wrong, raising, lambda s: None)
    driver = Clockwork({"doubled": 5e-4, "peer": 1e-3})
    found = run(driver, points(doubled)[1], monkeypatch, peers=())
    first, second, third = found["peers"]
    assert first["time"]["median"] == pytest.approx(1e-3, rel=0.01)
    assert first["error"] == 0
    assert "computes something else" in second["fault"]
    assert "time" not in second
    assert third["fault"] == "RuntimeError: no such function"
    of = snapshot.derived(snapshot.document("cpu", [found], [], {}, Tree("none")))[0][0]
    assert of.verdict == "AHEAD"
    assert of.ratio == pytest.approx(2, rel=0.02)


def test_a_peer_that_took_a_worker_down_is_left_out(monkeypatch: pytest.MonkeyPatch):
    with_peers(monkeypatch, right)
    found = run(Clockwork({}), points(doubled)[1], monkeypatch, peers=(), without=("peer0",))
    assert found["peers"] == [{"name": "peer0", "version": "1.0", "fault": "took the process down"}]


def test_the_same_kernel_on_another_driver_is_a_peer(monkeypatch: pytest.MonkeyPatch):
    other = Clockwork({"doubled": 1e-3}, seed=1)
    other.name = "other"
    found = run(Clockwork({"doubled": 5e-4}), points(doubled)[1], monkeypatch, beside=other)
    (peer,) = found["peers"]
    assert (peer["name"], peer["error"]) == ("iron on other", 0)
    assert peer["time"]["median"] == pytest.approx(1e-3, rel=0.01)
    of = snapshot.derived(snapshot.document("cpu", [found], [], {}, Tree("none")))[0][0]
    assert of.ratio == pytest.approx(2, rel=0.02)


def test_another_driver_that_computes_something_else_is_not_timed(monkeypatch: pytest.MonkeyPatch):
    other = Clockwork({})
    other.name = "other"
    monkeypatch.setattr(other, "download", lambda array: np.array(array) + 1)
    found = run(Clockwork({}), points(doubled)[1], monkeypatch, beside=other)
    (peer,) = found["peers"]
    assert "computes something else" in peer["fault"]
    assert "time" not in peer


def test_peers_have_outputs_of_their_own_and_the_same_inputs(monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []

    def look(s: Any) -> Attempt:
        seen.append((s.x, s.outputs["y"]))
        return right(s)

    with_peers(monkeypatch, look, look)
    run(Clockwork({}), points(doubled)[1], monkeypatch, peers=())
    assert seen[0][0] is seen[1][0]
    assert not np.shares_memory(seen[0][1], seen[1][1])


# --- end to end -----------------------------------------------------------------------------------


def whole_run(monkeypatch: pytest.MonkeyPatch, seed: int, planted: float) -> dict[str, Any]:
    seconds = {"doubled": 5e-4 * planted, "counted": 8e-4}
    driver = Clockwork(seconds, seed)
    rows = [run(driver, p, monkeypatch) for k in (doubled, counted) for p in points(k)[-1:]]
    return snapshot.document("cpu", rows, [], {"device": "box"}, Tree("0" * 40))


def test_a_delay_planted_in_one_kernel_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path):
    for name, seed, planted in (("before", 1, 1.0), ("again", 2, 1.0), ("after", 3, 1.1)):
        snapshot.save(whole_run(monkeypatch, seed, planted), tmp_path / f"{name}.json")
    names = ("before", "again", "after")
    before, again, after = (snapshot.load(tmp_path / f"{n}.json") for n in names)
    assert {c.kind for c in compare(before, again).changes} == {"same"}
    found = compare(before, after)
    assert [c.name for c in found.of("slower")] == ["doubled[f16](N=4096) cold"]
    assert found.of("slower")[0].percent == pytest.approx(10, abs=1.5)
    from iron.cli.app import run as command

    paths = [str(tmp_path / f"{n}.json") for n in ("before", "after")]
    assert command(["diff", *paths, "--only-regressions"]) == 1
    assert command(["diff", str(tmp_path / "before.json"), str(tmp_path / "again.json")]) == 0
