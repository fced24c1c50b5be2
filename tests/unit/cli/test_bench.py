"""`iron bench`, `iron snap` and `iron diff` on a project, with real workers and real clocks."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iron.bench.snapshot import load
from iron.cli.app import run
from iron.worker.season import Season

KERNEL = """\"\"\"y[i] = 2 x[i].\"\"\"
import ctypes, time
from iron.lang import ELT, In, Out, dims, dtypes, each, f16, f32, kernel
(N,) = dims("N")
T = dtypes("T", f32, f16)

@kernel
def {name}(x: In[T, N], y: Out[T, N]):
    (i,) = each(N)
    y[i] = (x[i].to(f32) * 2.0).to(T)

@{name}.oracle
def _(x):
    return {{"y": {factor} * x}}

@{name}.case(N=[3, 8], tol=ELT)
def _(rng, N):
    return {{"x": rng.normal(N)}}

def inputs(rng, N):
    {before}
    return {{"x": rng.normal(N)}}

{name}.bench(N=[1024, 4096], flops=lambda N: N, make=inputs)
"""
FAST = ["--quick", "--warm", "--peer", "none", "--allow-dirty"]


def add(project: Path, name: str, factor: int = 2, before: str = "pass") -> None:
    text = KERNEL.format(name=name, factor=factor, before=before)
    (project / "mine" / f"{name}.py").write_text(text)


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = run(["bench", "--json", *FAST, *arguments])
    return status, json.loads(capsys.readouterr().out)


def test_rows_and_what_goes_wrong(project: Path, capsys: pytest.CaptureFixture[str]):
    """A crash, a hang and a wrong result are a fault each; the run goes on."""
    add(project, "a_good")
    add(project, "b_crashing", before="ctypes.string_at(0)")
    add(project, "c_hanging", before="time.sleep(600)")
    add(project, "d_wrong", factor=3)
    add(project, "e_good")
    status, found = outcome(capsys, "--dtypes", "f32", "--timeout", "20", "-f", "N=1024")
    assert status == 1
    assert [r["kernel"] for r in found["rows"]] == ["a_good", "e_good"], found["faults"]
    assert [(f["kernel"], f["kind"]) for f in found["faults"]] == [
        ("b_crashing", "crash"),
        ("c_hanging", "hang"),
        ("d_wrong", "wrong"),
    ]
    row = found["rows"][0]
    assert row["time"]["n"] == 5
    assert row["cache"] == "warm"
    assert row["time"]["median"] > 0
    assert row["figures"]["gflops"] > 0
    assert found["commit"] == "none"
    assert found["machine"]["device"]
    assert found["ceilings"]["copy"] > 1e8


def test_files_tables_and_snapshots(project: Path, capsys: pytest.CaptureFixture[str]):
    add(project, "good")
    assert run(["bench", *FAST, "-vv", "-o", "out.json", "--report", "out.html", "--receipt"]) == 0
    printed = capsys.readouterr().out
    for word in ("GB/s", "peer/iron", "held by", "warm bind", "p95", "good[f16]", "N=4096"):
        assert word in printed
    assert (project / "out.html").read_text().startswith("<!doctype html>")
    assert len(load(project / "out.json")["rows"]) == 4
    (receipt,) = (project / "baselines").glob("*/cpu.json")
    assert len(load(receipt)["rows"]) == 4
    against = ["--diff", "--baselines", "kept", "--threshold", "1e9"]
    (project / "baselines").rename("kept")
    assert run(["bench", *FAST, "--compare-dtypes", "-f", "N=4096", *against]) == 0
    line = next(t for t in capsys.readouterr().out.splitlines() if "N=4096" in t)
    assert line.count("GB/s") == 2
    assert run(["snap", "--from", "out.json", "--note", "promoted", "-o", "snap.json"]) == 0
    assert load(project / "snap.json")["note"] == "promoted"
    capsys.readouterr()
    assert run(["diff", "out.json", "snap.json", "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert [c["kind"] for c in changes] == ["same"] * 4


def test_a_run_that_is_cut_leaves_its_receipt(project: Path, monkeypatch: pytest.MonkeyPatch):
    """In the folder that is given: the machine may be gone with what lies elsewhere."""
    add(project, "good")
    whole = Season.run

    def cut(season: Season):
        yield next(whole(season))
        raise RuntimeError("cut")

    monkeypatch.setattr(Season, "run", cut)
    assert run(["bench", *FAST, "--receipt", "--baselines", "out/kept"]) != 0
    (receipt,) = (project / "out" / "kept").glob("*/cpu.json")
    assert len(load(receipt)["rows"]) == 1
    assert not (project / "baselines").exists()


def test_names_of_what_would_be_timed(project: Path, capsys: pytest.CaptureFixture[str]):
    """Without a device, in a tree with changes; what cannot be listed is told beside."""
    add(project, "good")
    subprocess.run(["git", "init", "--quiet"], check=True)
    command = ["bench", "--list", "-b", "cuda"]
    assert run([*command, "-f", "good[f16](N=*", "-f", "good[f32](N=1024"]) == 0
    named = ["good[f32](N=1024)", "good[f16](N=1024)", "good[f16](N=4096)"]
    assert capsys.readouterr().out.split() == named
    (project / "mine" / "broken.py").write_text("raise RuntimeError('torn')")
    assert run([*command, "--dtypes", "f32", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["benches"] == ["good[f32](N=1024)", "good[f32](N=4096)"]
    assert [(f["kernel"], "torn" in f["text"]) for f in found["faults"]] == [("mine.broken", True)]


def test_a_dirty_tree_is_refused(project: Path, capsys: pytest.CaptureFixture[str]):
    add(project, "good")
    subprocess.run(["git", "init", "--quiet"], check=True)
    assert run(["bench", "--quick"]) == 2
    assert "E0805" in capsys.readouterr().err
    assert run(["snap"]) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bench", "-b", "interp"], "is not timed"),
        (["bench", "-b", "gpu"], "no backend `gpu`"),
        (["bench", *FAST, "--diff", "-f", "N=1024", "--dtypes", "f32"], "no receipt"),
        (["bench", *FAST, "-f", "absent"], "no bench matches"),
        (["bench", *FAST, "--baselines", "out"], "--receipt, --diff or --baseline-ref"),
        (["bench", *FAST, "--receipt", "--baselines", "mine/good.py"], "is a file"),
        (["diff", "a.json", "b.json"], "a.json: No such file"),
        (["snap", "--from", "pyproject.toml"], "no snapshot"),
        (["diff", "a", "b", "--only-regressions", "--only-improvements"], "leave nothing"),
    ],
)
def test_bad_usage(project: Path, capsys: pytest.CaptureFixture[str], arguments, says: str):
    add(project, "good")
    assert run(arguments) in (1, 2)
    found = capsys.readouterr()
    assert says in found.out + found.err
