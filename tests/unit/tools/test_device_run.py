"""What a run on a lent machine finds of receipts lies where it was told to, and in its OUT."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import device_run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def benches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of receipts that an `iron bench` writes which is none; one is of another day."""
    folder = tmp_path / "kept"
    old = folder / "box-1" / "cuda.json"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    os.utime(old, (1e9, 1e9))

    def bench(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        written = Path(command[command.index("--baselines") + 1]) / "box-2" / "cuda.json"
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(command[command.index("-f") + 1])
        return subprocess.CompletedProcess(command, 0, "a row", "")

    monkeypatch.setenv("DEVICE_FILTER", "softmax")
    monkeypatch.setattr(device_run, "BASELINES", folder)
    monkeypatch.setattr(device_run, "BACKEND", "cuda")
    monkeypatch.setattr(device_run.subprocess, "run", bench)
    return folder


def test_receipts_of_this_run_lie_in_out_too(benches: Path, tmp_path: Path):
    out = tmp_path / "out"
    out.mkdir()
    assert device_run.bench(out) == 0
    assert (benches / "box-2" / "cuda.json").read_text() == "softmax["
    found = {
        p.relative_to(out / "baselines"): p.read_text()
        for p in (out / "baselines").glob("*/*.json")
    }
    assert found == {Path("box-2/cuda.json"): "softmax["}


def test_receipts_that_are_told_to_lie_in_out_stay_there(
    tmp_path: Path, benches: Path, monkeypatch
):
    out = tmp_path / "out"
    monkeypatch.setattr(device_run, "BASELINES", out / "baselines")
    out.mkdir()
    assert device_run.bench(out) == 0
    assert (out / "baselines" / "box-2" / "cuda.json").read_text() == "softmax["


def test_a_folder_is_told_to_every_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Phases run elsewhere, so that the path is made absolute."""

    class Replaced(Exception):
        pass

    def execv(*_: object) -> None:
        raise Replaced

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVICE_BASELINES", "")
    monkeypatch.setenv("DEVICE_BACKEND", "")
    monkeypatch.setattr(sys, "argv", ["device_run.py", "out", "--baselines", "out/kept"])
    monkeypatch.setattr(device_run.os, "execv", execv)
    with pytest.raises(Replaced):
        device_run.main()
    assert os.environ["DEVICE_BASELINES"] == str(tmp_path / "out" / "kept")


def test_receipts_lie_in_the_project_unless_told():
    told = {k: v for k, v in os.environ.items() if not k.startswith("DEVICE_")}
    code = "from tools.device_run import BASELINES; print(BASELINES)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=told, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(ROOT / "baselines")
