"""`iron init` writes a whole project or nothing."""

import errno
import json
import os
import tomllib
from pathlib import Path

import pytest

from iron.cli.app import run


@pytest.fixture(autouse=True)
def empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_a_project(capsys: pytest.CaptureFixture[str]):
    assert run(["init", "My-kernels"]) == 0
    assert "next   cd My-kernels && iron test" in capsys.readouterr().out
    project = tomllib.loads(Path("My-kernels/pyproject.toml").read_text())
    assert project["project"]["name"] == "My-kernels"
    assert project["tool"]["iron"]["kernels"] == ["my_kernels.kernels"]
    found = sorted(str(p.relative_to("My-kernels")) for p in Path("My-kernels").rglob("*.py"))
    assert found == [
        "my_kernels/__init__.py",
        "my_kernels/kernels/__init__.py",
        "my_kernels/kernels/scaled_add.py",
        "tests/test_kernels.py",
    ]
    for path in Path("My-kernels").rglob("*.py"):
        text = path.read_text()
        assert text.startswith('"""')
        assert "$" not in text
    assert os.listdir() == ["My-kernels"]


def test_it_takes_a_path_and_an_empty_folder(capsys: pytest.CaptureFixture[str]):
    Path("deep").mkdir()
    Path("deep/mine").mkdir()
    assert run(["init", "deep/mine", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["package"] == "mine"
    assert all(Path("deep/mine", f).is_file() for f in document["files"])


@pytest.mark.parametrize("name", ["1st", "a/b c!", "class", "iron", "..", "ümlaut"])
def test_a_name_that_is_no_package(name: str, capsys: pytest.CaptureFixture[str]):
    assert run(["init", name]) == 2
    assert "cannot be imported" in capsys.readouterr().err
    assert os.listdir() == []


def test_what_is_there_stays(capsys: pytest.CaptureFixture[str]):
    Path("mine").mkdir()
    Path("mine/notes").write_text("keep")
    assert run(["init", "mine"]) == 1
    assert "error[E0802]: mine is there already" in capsys.readouterr().err
    assert os.listdir("mine") == ["notes"]
    Path("file").write_text("keep")
    assert run(["init", "file"]) == 1
    assert run(["init", "file/inside"]) == 1
    assert Path("file").read_text() == "keep"


def test_a_full_disk_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert run(["init", "mine"]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert os.listdir() == []
