"""`iron test --mutate` and `--sanitize` on a project: what is red, what is listed, wrong use."""

import json
from pathlib import Path
from typing import Any

import pytest

from iron.cli.app import run

KERNEL = """\"\"\"y = 2 x.\"\"\"
from iron.lang import EXACT, In, Out, dims, each, f32, kernel, minimum
(N,) = dims("N")

@kernel
def {name}(x: In[f32, N], y: Out[f32, N]):
    (i,) = each({extent})
    y[i] = x[i] * 2.0 + {offset}

@{name}.oracle
def _(x):
    return {{"y": x * 2.0 + {offset}}}

@{name}.case(N={sizes}, tol=EXACT)
def _(rng, N):
    return {{"x": rng.normal(N) * {weight}}}

{name}.bench(N=1024)
"""
FLAGS = ["--timeout", "20", "-j", "1"]


@pytest.fixture
def project(tmp_path: Path, settings: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "hunted"]) == 0
    monkeypatch.chdir("hunted")
    return tmp_path / "hunted"


def add(
    project: Path, name: str, extent: str = "N", weight: int = 1, sizes: str = "[3, 300]"
) -> None:
    text = KERNEL.format(name=name, extent=extent, offset="1.0", weight=weight, sizes=sizes)
    (project / "hunted" / "kernels" / f"{name}.py").write_text(text)


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = run(["test", "--json", *FLAGS, *arguments])
    return status, {r["kernel"]: r for r in json.loads(capsys.readouterr().out)["rows"]}


def test_weak_cases_let_a_mutant_live(project: Path, capsys: pytest.CaptureFixture[str]):
    add(project, "strong")
    add(project, "weak", weight=0)
    status, rows = outcome(capsys, "--mutate")
    assert status == 1
    assert rows.keys() == {"scaled_add", "strong", "weak"}
    assert rows["strong"]["faults"] == []
    assert rows["strong"]["cases"] >= 3
    assert rows["scaled_add"]["faults"] == []
    alive = [f["case"] for f in rows["weak"]["faults"]]
    assert alive == ["2.0 + 1 in mul  |  y[i] = x[i] * 2.0 + 1.0"]
    assert rows["weak"]["faults"][0]["kind"] == "mutant"
    (project / "alive.txt").write_text(f"# zero stays zero\nweak: {alive[0]}\n")
    status, rows = outcome(capsys, "--mutate", "--survivors", "alive.txt")
    assert status == 0
    assert rows["weak"]["faults"] == []
    assert run(["test", "--mutate", "-f", "strong", *FLAGS]) == 0
    assert f"{rows['strong']['cases']} mutants" in capsys.readouterr().out


def test_larger_shapes_find_what_small_ones_hide(project: Path, capsys: pytest.CaptureFixture[str]):
    add(project, "short", extent="minimum(N, 16)", sizes="[3, 8]")
    status, rows = outcome(capsys, "-b", "interp")
    assert (status, rows["short"]["faults"]) == (0, [])
    status, rows = outcome(capsys, "--sanitize")
    assert status == 1
    assert [f["kind"] for f in rows["short"]["faults"]] == ["wrong"]
    assert rows["short"]["cases"] == 1
    assert rows["scaled_add"]["faults"] == []
    assert {r["backend"] for r in rows.values()} == {"interp"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--mutate", "--sanitize"], "two runs"),
        (["--mutate", "-b", "cpu"], "--mutate runs on the interpreter"),
        (["--sanitize", "-b", "all"], "--sanitize runs on the interpreter"),
        (["--survivors", "x"], "goes with --mutate"),
        (["--mutate", "--survivors", "absent.txt"], "absent.txt cannot be read"),
    ],
)
def test_bad_usage(
    project: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["test", *arguments]) == 2
    assert told in capsys.readouterr().err
