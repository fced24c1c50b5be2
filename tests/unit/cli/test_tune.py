"""`iron bench --tune` on a project: what is kept, what is skipped, and what an interrupt leaves."""

import json
from pathlib import Path

import pytest

from iron.cli import tune as command
from iron.cli.app import run
from iron.runtime import tune
from iron.worker.season import Season

KERNEL = """\"\"\"y[i] = 2 x[i].\"\"\"
from iron.lang import ELT, Const, In, Out, cdiv, dims, f32, groups, kernel, thread
(N,) = dims("N")

@kernel(tune={{"TURNS": [1, 2], "BAD": [False{more}]}})
def {name}(x: In[f32, N], y: Out[f32, N], *, TURNS: Const = 3, BAD: Const = False):
    (group,) = groups(cdiv(N, 32 * TURNS), threads=32)
    for t in range(TURNS):
        i = (group * TURNS + t) * 32 + thread
        if i < N:
            y[i] = x[i] * (3.0 if BAD else 2.0)

@{name}.oracle
def _(x):
    return {{"y": 2 * x}}

@{name}.case(N=[3, 65], tol=ELT)
def _(rng, N):
    return {{"x": rng.normal(N)}}

{name}.bench(N=[1024, 4096])
"""
FAST = ["bench", "--tune", "--quick", "--warm"]


def add(project: Path, name: str, more: str = "") -> None:
    (project / "mine" / f"{name}.py").write_text(KERNEL.format(name=name, more=more))


def kept() -> dict[str, dict[str, dict[str, object]]]:
    (path,) = tune.user_folder().glob("*.json")
    return json.loads(path.read_text())["backends"]["cpu"]


def test_results_are_kept_and_known(project: Path, capsys: pytest.CaptureFixture[str]):
    add(project, "good")
    assert run([*FAST, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(r["tried"], r["kept"]) for r in rows] == [(2, False)] * 2
    assert list(kept()["mine.good.good"]) == ["x:f32[1024]", "x:f32[4096]"]
    assert run(FAST) == 0
    found = capsys.readouterr()
    assert "known" in found.out + found.err
    assert run([*FAST, "--again", "--json", "-f", "N=1024"]) == 0
    assert [r["kept"] for r in json.loads(capsys.readouterr().out)["rows"]] == [False]


def test_a_wrong_configuration_is_red(project: Path, capsys: pytest.CaptureFixture[str]):
    add(project, "good", ", True")
    assert run([*FAST, "-f", "N=1024"]) == 1
    found = capsys.readouterr()
    assert "BAD=True" in found.out + found.err
    assert kept()["mine.good.good"]["x:f32[1024]"]["tried"] == 2


def test_an_interrupt_keeps_what_was_found(project: Path, monkeypatch, capsys):
    add(project, "good")
    whole = Season.run

    def stopped(season: Season):
        for number, timed in enumerate(whole(season)):
            if number:
                raise KeyboardInterrupt
            yield timed

    monkeypatch.setattr(command.Season, "run", stopped)
    assert run([*FAST, "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["interrupted"]
    assert list(kept()["mine.good.good"]) == ["x:f32[1024]"]
    monkeypatch.setattr(command.Season, "run", whole)
    assert run([*FAST, "--json"]) == 0
    assert [r["kept"] for r in json.loads(capsys.readouterr().out)["rows"]] == [True, False]


@pytest.mark.slow
def test_a_bench_searches_first_where_it_is_told_to(project: Path, monkeypatch, capsys):
    add(project, "good")
    monkeypatch.setenv("IRON_TUNE", "on")
    quick = ["bench", "--quick", "--warm", "--peer", "none", "--allow-dirty", "-f", "N=1024"]
    assert run([*quick, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 1
    assert kept()["mine.good.good"]


def test_nothing_to_tune(project: Path, capsys: pytest.CaptureFixture[str]):
    add(project, "good")
    assert run([*FAST, "-f", "absent"]) == 0
    assert "no bench matches" in capsys.readouterr().out
