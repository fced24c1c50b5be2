"""`iron config` and `iron clean`: precedence, sources, exit status, and every wrong value."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iron.cli.app import run
from iron.cli.configuration import SETTINGS, load
from iron.errors import KernelError
from iron.runtime.cache import Cache

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [n for n in os.environ if n.startswith("IRON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def project(text: str) -> None:
    Path("pyproject.toml").write_text(text)


def test_defaults_outside_a_project(tmp_path: Path):
    found = load(environ={})
    assert found.project is None
    assert {r.source for r in found.values.values()} == {"default"}
    assert found["kernels"] == ("iron.kernels",)


def test_precedence(tmp_path: Path):
    project('[tool.iron]\nkernels = ["mine.kernels"]\njobs = 3\nseed = 4\n')
    environ = {"IRON_JOBS": "5", "IRON_MEMORY": "2GiB"}
    found = load({"jobs": 7, "seed": None}, environ)
    file = str(tmp_path / "pyproject.toml")
    assert found.project == tmp_path
    assert (found["kernels"], found.values["kernels"].source) == (("mine.kernels",), file)
    assert (found["seed"], found.values["seed"].source) == (4, file)
    assert (found["memory"], found.values["memory"].source) == (2 << 30, "IRON_MEMORY")
    assert (found["jobs"], found.values["jobs"].source) == (7, "--jobs")
    assert load({}, environ).values["jobs"].source == "IRON_JOBS"
    assert load({}, {})["jobs"] == 3


def test_the_nearest_pyproject_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    project("[tool.iron]\njobs = 3\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert load({}, {})["jobs"] == 3
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "a"\n')
    assert load({}, {}).values["jobs"].source == "default"
    assert load({}, {}).project is None


@pytest.mark.parametrize(
    ("text", "message", "help"),
    [
        ("[tool.iron]\njobz = 1", "no setting `jobz`", "did you mean `jobs`?"),
        ("[tool.iron]\nzebra = 1", "no setting `zebra`", "lists the settings"),
        ("[tool.iron]\njobs = 0", "`jobs` is 0; a number of at least 1", ""),
        ("[tool.iron]\njobs = true", "`jobs` is True", ""),
        ("[tool.iron]\nkernels = []", "at least one", ""),
        ("[tool.iron]\nkernels = [1]", "a list of strings", ""),
        ("[tool.iron]\ntimeout = -1", "above 0", ""),
        ("[tool.iron]\ntimeout = inf", "above 0", ""),
        ("[tool.iron]\nmemory = '4 parsecs'", "a size such as 4GiB", ""),
        ("[tool.iron]\nseed = 1.5", "a whole number", ""),
        ("[tool.iron]\ncache_dir = 3", "a path is needed", ""),
        ("[tool]\niron = 3", "must be a table", ""),
        ("[tool.iron", "pyproject.toml", ""),
    ],
)
def test_a_wrong_file_is_one_message(
    text: str, message: str, help: str, capsys: pytest.CaptureFixture[str]
):
    project(text)
    assert run(["config"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "error[E0803]" in shown.err
    assert "pyproject.toml" in shown.err
    assert message in shown.err
    assert help in shown.err


def test_a_file_that_is_not_text(capsys: pytest.CaptureFixture[str]):
    Path("pyproject.toml").write_bytes(b"\xff\xfe")
    assert run(["config"]) == 2
    assert "E0803" in capsys.readouterr().err


def test_a_wrong_variable_names_itself():
    with pytest.raises(KernelError, match="IRON_TIMEOUT: `timeout` is 'soon'"):
        load({}, {"IRON_TIMEOUT": "soon"})


def test_config_shows_every_setting(capsys: pytest.CaptureFixture[str]):
    project("[tool.iron]\njobs = 3\n")
    assert run(["config"]) == 0
    text = capsys.readouterr().out
    assert all(s.name in text and s.doc in text for s in SETTINGS)
    assert run(["config", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["settings"]) == {s.name for s in SETTINGS}
    assert document["settings"]["jobs"]["value"] == 3


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    store = Cache(tmp_path / "cache" / "iron")
    for name, age in (("old", 40 * 86400), ("new", 60)):
        store.put(name, b"x" * 1000)
        then = time.time() - age
        os.utime(store.path(name), (then, then))
    return store


def test_clean_shows_and_removes_nothing(cache: Cache, capsys: pytest.CaptureFixture[str]):
    assert run(["clean"]) == 0
    text = capsys.readouterr().out
    assert str(cache.root) in text
    assert "2 entries" in text
    assert "40 days" in text
    assert cache.stats().entries == 2


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["--older", "30d"], 1),
        (["--older", "30s"], 0),
        (["--older", "50d"], 2),
        (["--keep", "1KiB"], 0),
        (["--keep", "1500"], 1),
        (["--all"], 0),
    ],
)
def test_clean_removes(
    cache: Cache, arguments: list[str], left: int, capsys: pytest.CaptureFixture[str]
):
    assert run(["clean", *arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["entries"], document["removed_entries"]) == (left, 2 - left)
    assert cache.stats().entries == left


@pytest.mark.parametrize(
    "arguments", [["--older", "x"], ["--older", "-1d"], ["--keep", "1TB"], ["--nope"], ["extra"]]
)
def test_clean_refuses(cache: Cache, arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert run(["clean", *arguments]) == 2
    assert "Error" in capsys.readouterr().err
    assert cache.stats().entries == 2


def test_clean_says_why_a_directory_is_not_used(cache: Cache, capsys: pytest.CaptureFixture[str]):
    cache.root.chmod(0o777)
    assert run(["clean", "--all"]) == 0
    assert "others may write" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["bogus"], ["config", "--bogus"]])
def test_bad_usage_is_status_two(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert run(arguments) == 2


@pytest.mark.parametrize("command", ["config", "clean"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]):
    assert run([command, "--help"]) == 0
    assert "Example:" in capsys.readouterr().out


def test_an_internal_fault_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from iron.cli import clean

    def broken(self: object, *_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(clean.Cache, "prune", broken)
    assert run(["clean"]) == 1
    text = capsys.readouterr().err
    assert "error[E0901]: internal error: RuntimeError: boom" in text
    assert "Traceback" not in text


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "iron", "config", "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["settings"]["seed"] == {"value": 0, "source": "default"}
