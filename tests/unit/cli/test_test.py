"""`iron test` on a project: good kernels pass, each kind of bad kernel is one red row."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from iron.cli.app import run
from iron.cli.configuration import load
from iron.cli.test import campaign_of, ready
from iron.worker.campaign import Campaign

ROOT = Path(__file__).parents[3]

COPY = """\"\"\"y[i] = x[i].\"\"\"
import ctypes, os, time
from iron.lang import EXACT, In, Out, dims, each, f32, groups, kernel, shared, thread
(N,) = dims("N")

@kernel
def {name}(x: In[f32, N], y: Out[f32, N]):
    {body}

@{name}.oracle
def _(x):
    return {{"y": x}}

@{name}.case(N=[3, 8], tol=EXACT)
def _(rng, N):
    {before}
    return {{"x": rng.normal(N)}}

{name}.bench(N=1024)
"""
GOOD = "(i,) = each(N); y[i] = x[i]"
KERNELS = {
    "good": (GOOD, "pass"),
    "wrong": ("(i,) = each(N); y[i] = x[i] + 1", "pass"),
    "outside": ("(i,) = each(N); y[i] = x[i + 1]", "pass"),
    "partial": ("(i,) = each(N - 1); y[i] = x[i]", "pass"),
    "outlaw": ("(i,) = each(N); y[i] = x[i] and 1", "pass"),
    "crashing": (GOOD, "ctypes.string_at(0)"),
    "hanging": (GOOD, "time.sleep(600)"),
    "eating": (GOOD, "hoard = [bytearray(64 << 20) for _ in range(1000)]"),
    "raising": (GOOD, "raise ValueError('no inputs')"),
}
FLAGS = ["--timeout", "10", "--memory", "1GiB"]


@pytest.fixture
def project(tmp_path: Path, settings: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "mine"]) == 0
    monkeypatch.chdir("mine")
    return tmp_path / "mine"


def add(project: Path, *names: str) -> None:
    for name in names:
        body, before = KERNELS[name]
        text = COPY.format(name=name, body=body.replace("; ", "\n    "), before=before)
        (project / "mine" / "kernels" / f"{name}.py").write_text(text)


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = run(["test", "--json", *FLAGS, *arguments])
    return status, json.loads(capsys.readouterr().out)


def test_a_new_project_passes(project: Path, capsys: pytest.CaptureFixture[str]):
    status, document = outcome(capsys)
    assert status == 0
    assert document["failed"] == 0
    found = {(r["backend"], r["name"], r["cases"]) for r in document["rows"]}
    assert found == {(b, f"scaled_add[{t}]", 3) for b in ("interp", "cpu") for t in ("f32", "f16")}


def test_every_bad_kernel_is_one_red_row(project: Path, capsys: pytest.CaptureFixture[str]):
    add(project, *KERNELS)
    (project / "mine" / "kernels" / "broken.py").write_text("import no_such_module\n")
    status, document = outcome(capsys, "-b", "interp")
    rows = {r["kernel"]: r for r in document["rows"]}
    assert status == 1
    kinds = {name: [f["kind"] for f in row["faults"]] for name, row in rows.items()}
    assert kinds == {
        "scaled_add": [],
        "good": [],
        "wrong": ["wrong"] * 2,
        "outside": ["wrong"] * 2,
        "partial": ["wrong"] * 2,
        "outlaw": ["wrong"] * 2,
        "crashing": ["crash"] * 2,
        "hanging": ["hang"] * 2,
        "eating": ["memory"] * 2,
        "raising": ["wrong"] * 2,
        "mine.kernels.broken": ["error"],
    }
    texts = {name: row["faults"][0]["text"] for name, row in rows.items() if row["faults"]}
    assert "E0404" in texts["outside"]
    assert "y[i] = x[i + 1]" in texts["outside"]
    assert "E0109" in texts["outlaw"]
    assert "2 of 3" in texts["partial"] or "1 of 3" in texts["partial"]
    assert "no inputs" in texts["raising"]
    assert "No module named 'no_such_module'" in texts["mine.kernels.broken"]


def test_the_cpu_runs_them_too(project: Path, capsys: pytest.CaptureFixture[str]):
    add(project, "good", "wrong")
    status, document = outcome(capsys, "-b", "cpu")
    assert status == 1
    assert {r["kernel"]: r["ok"] for r in document["rows"]} == {
        "scaled_add": True,
        "good": True,
        "wrong": False,
    }


def test_the_report_names_what_is_red(project: Path, capsys: pytest.CaptureFixture[str]):
    add(project, "wrong")
    assert run(["test", "-b", "interp", *FLAGS]) == 1
    text = capsys.readouterr().out
    assert "2 kernels, 3 rows, 8 cases, 1 rows FAILED" in text
    assert "wrong: N=3" in text
    assert run(["test", "-b", "interp", "-f", "scaled_add", *FLAGS]) == 0
    text = capsys.readouterr().out
    assert "1 kernels, 2 rows, 6 cases in" in text
    assert run(["test", "-b", "interp", "-f", "f16", "-v", *FLAGS]) == 0
    assert "scaled_add[f16]" in capsys.readouterr().out


def test_flags_narrow_the_run(project: Path, capsys: pytest.CaptureFixture[str]):
    status, document = outcome(capsys, "--dtypes", "f16", "-b", "interp", "-j", "1")
    assert status == 0
    assert [r["label"] for r in document["rows"]] == ["f16"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-b", "abacus"], "no backend `abacus`"),
        (["--memory", "lots"], "a size such as 4GiB"),
        (["-j", "0"], "at least 1"),
        (["-f", "nothing"], "no kernel matches"),
        (["--nope"], "No such option"),
    ],
)
def test_bad_usage_is_status_two(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
):
    assert run(["test", *arguments]) == 2
    shown = capsys.readouterr()
    assert text in shown.out + shown.err


def test_an_interrupt_ends_what_runs_at_once(project: Path):
    add(project, "hanging")
    command = [sys.executable, "-m", "iron", "test", "-b", "interp", "-j", "1", "-v"]
    with subprocess.Popen(
        [*command, "--timeout", "50"],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as child:
        try:
            assert child.stdout is not None
            time.sleep(2)  # in the middle of the kernel that hangs, or before
            started = time.monotonic()
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=20)
        finally:
            child.kill()
    assert child.returncode == 130
    assert "interrupted" in said
    assert time.monotonic() - started < 5


def test_of_all_backends_those_that_are_lacking_are_named(monkeypatch: pytest.MonkeyPatch):
    campaign = campaign_of(load({}), ("interp", "cuda", "vulkan"), (), None)
    lacking = {"cuda": "error[E0603]: no driver\n   = help: install it"}
    monkeypatch.setattr(Campaign, "unready", lambda self: lacking)
    kept, told = ready(campaign, True)
    assert kept.backends == ("interp", "vulkan")
    assert told == {"cuda": "no driver"}
    with pytest.raises(typer.Exit) as ended:
        ready(campaign, False)
    assert ended.value.exit_code == 1


def test_a_package_that_is_not_there_is_one_message(
    project: Path, capsys: pytest.CaptureFixture[str]
):
    (project / "pyproject.toml").write_text('[tool.iron]\nkernels = ["nowhere"]\n')
    assert run(["test"]) == 2
    text = capsys.readouterr().err
    assert "no package `nowhere`" in text
    assert "Traceback" not in text


def test_the_projects_own_tests_pass(project: Path):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{project}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "12 passed" in done.stdout
